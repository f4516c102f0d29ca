"""Images built from tables of ACLs that are neither a log nor a stored snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from records.columns.acl_table import AclTable
from snapshot.columns import AclColumns
from snapshot.digest import DIGEST_MASK
from snapshot.fold import Fold
from snapshot.image import AclsImage, Provenance
from snapshot.metadata_image import MetadataImage


def restore_image(
    tables: Iterable[AclTable],
    *,
    provenance: Provenance,
    metadata: MetadataImage = MetadataImage.EMPTY,
) -> AclsImage:
    """The image of exactly these ACLs; of two with the same id the later one (I8)."""
    fold = Fold(lambda _: AclColumns.EMPTY)
    for table in tables:
        fold.put_table(table)
    fold.settle()
    return AclsImage.restored(
        AclColumns.concat([fold.rows]),
        digest=fold.digest & DIGEST_MASK,
        provenance=provenance,
        metadata=metadata,
    )


def image_of(table: AclTable) -> AclsImage:
    """The image of ACLs that belong to no single log."""
    return restore_image([table], provenance=Provenance(0, -1, 0))
