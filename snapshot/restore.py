"""An image made of the ACLs that are in force, for whatever is neither a log nor a stored snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.columns.acl_table import AclTable
from snapshot.columns import AclColumns
from snapshot.digest import DIGEST_MASK
from snapshot.fold import Fold
from snapshot.image import AclsImage, Provenance
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Iterable

    from snapshot.fold import Heads


def restore_image(
    tables: Iterable[AclTable],
    *,
    provenance: Provenance,
    metadata: MetadataImage = MetadataImage.EMPTY,
) -> AclsImage:
    """The image that holds these ACLs and nothing else; the later one of two with one id (I8)."""
    fold = Fold(_nothing)
    for table in tables:
        fold.put_table(table)
    fold.settle()
    return AclsImage.restored(
        AclColumns.joined([fold.rows]),
        digest=fold.digest & DIGEST_MASK,
        provenance=provenance,
        metadata=metadata,
    )


def _nothing(_heads: Heads) -> AclTable:
    return AclColumns.EMPTY


def image_of(table: AclTable) -> AclsImage:
    """These ACLs, which are not of one log."""
    return restore_image([table], provenance=Provenance(0, -1, 0))
