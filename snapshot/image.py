"""AclsImage: the ACLs of a cluster at one offset, immutable (I1).

Source: org.apache.kafka.image.AclsImage, MetadataProvenance. An image is a large immutable base of columns
(snapshot.columns) under a persistent map of later changes. The next image therefore costs only what changed,
also at a million ACLs, and older images stay valid. ``AclsDelta`` builds images from changes,
``restore_image`` from tables of ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Final

import msgspec

from records.columns.acl_table import AclTable, AppliedAcl
from records.ids import Uuid
from snapshot.columns import AclColumns
from snapshot.digest import DIGEST_MASK
from snapshot.fold import Fold
from snapshot.metadata_image import MetadataImage
from snapshot.persistent_map import PersistentMap, with_item


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """The position of an image in its log.

    Attributes:
        end_offset: last contained offset + 1, also the snapshot id (MetadataProvenance.java).
        timestamp_ms: timestamp of the last contained record, 0 when there is none.
        empty_tail: number of offsets just below the end offset that hold no record: in a topic those of
            transaction markers and aborted records, which may have later epochs than the last record.
    """

    end_offset: int
    epoch: int
    timestamp_ms: int
    empty_tail: int = 0


#: Before the first record of any log.
NOWHERE: Final = Provenance(end_offset=0, epoch=0, timestamp_ms=0)

# Changes are merged into new columns when they exceed this share of the rows: lookups stay fast, and the cost
# of merging and reindexing is amortized over the changes.
_MERGE_MINIMUM: Final = 1024
_MERGE_SHARE: Final = 8
# The same for one step: above this, rebuilding an index of the ACLs is faster than updating it.
_MERGE_STEP_SHARE: Final = 32
# The same for an image that has no index yet.
_SETTLE_SHARE: Final = 64

_UNCHANGED: Final[PersistentMap[Uuid, AppliedAcl | None]] = PersistentMap()
_MISSING: Final = object()


class AclsImage(msgspec.Struct, eq=False, gc=False):
    """All ACLs by id, their position in the log, and the digest of the set.

    Iteration order is arbitrary but the same for the same image.

    Attributes:
        columns: the base. A row is in force if its id is not in ``changes``.
        changes: by id, what differs from ``columns``: an ACL in force, or None for a removed row.
        metadata: the log's other metadata at that offset; neither counted nor in the digest.
    """

    columns: AclColumns
    changes: PersistentMap[Uuid, AppliedAcl | None]
    count: int
    digest: int
    provenance: Provenance
    metadata: MetadataImage = MetadataImage.EMPTY

    EMPTY: ClassVar[AclsImage]

    def __len__(self) -> int:
        return self.count

    def __contains__(self, acl_id: Uuid) -> bool:
        if self.changes:
            changed = self.changes.get(acl_id, _MISSING)
            if changed is not _MISSING:
                return changed is not None
        return self.columns.row_of(acl_id) is not None

    def get(self, acl_id: Uuid) -> AppliedAcl | None:
        if self.changes:
            changed = self.changes.get(acl_id, _MISSING)
            if changed is not _MISSING:
                return changed  # type: ignore[return-value]
        row = self.columns.row_of(acl_id)
        return None if row is None else self.columns.acl(row)

    def __iter__(self) -> Iterator[AppliedAcl]:
        changes = self.changes
        if not changes:
            yield from self.columns
            return
        for acl in self.columns:
            if acl.record.id not in changes:
                yield acl
        for changed in changes.values():
            if changed is not None:
                yield changed

    @classmethod
    def restored(
        cls,
        columns: AclColumns,
        *,
        digest: int,
        provenance: Provenance,
        metadata: MetadataImage = MetadataImage.EMPTY,
    ) -> AclsImage:
        """The image of a stored snapshot. The caller has checked the digest and that ids are distinct.

        Nothing is hashed again: that would take seconds for a million rows, and the manifest has the digest.
        """
        return cls(
            columns,
            _UNCHANGED,
            count=len(columns),
            digest=digest,
            provenance=provenance,
            metadata=metadata,
        )

    def with_changes(
        self,
        changes: Mapping[Uuid, AppliedAcl | None],
        *,
        put: AclColumns = AclColumns.EMPTY,
        count: int,
        digest: int,
        provenance: Provenance,
        metadata: MetadataImage,
    ) -> AclsImage:
        """The next image, for AclsDelta.

        ``changes``: by id the new content, None if removed. ``put``: further ACLs to add or replace, with
        distinct ids that are not in ``changes``.
        """
        columns, merged = self.columns, self.changes
        step = len(changes) + len(put)
        unmerged, base = len(merged) + step, len(columns)
        if unmerged > _MERGE_MINIMUM and (
            unmerged > base // _MERGE_SHARE or step > max(_MERGE_MINIMUM, base // _MERGE_STEP_SHARE)
        ):
            before = {acl_id: acl for acl_id, acl in merged.items() if put.row_of(acl_id) is None}
            columns = columns.with_changes({**before, **changes}, put)
            merged = _UNCHANGED
        elif step == 1 and changes:  # the usual case; takes half the time of `update`
            ((acl_id, acl),) = changes.items()
            merged = with_item(merged, acl_id, acl)
        elif step:
            merged = merged.update({**changes, **{acl.record.id: acl for acl in put}})
        return AclsImage(
            columns,
            merged,
            count=count,
            digest=digest,
            provenance=provenance,
            metadata=metadata,
        )

    def merged(self) -> AclsImage:
        """The same image with all changes merged into its columns; itself if it has none."""
        if not self.changes:
            return self
        return AclsImage(
            self.columns.with_changes(self.changes),
            _UNCHANGED,
            count=self.count,
            digest=self.digest,
            provenance=self.provenance,
            metadata=self.metadata,
        )

    def settled(self) -> AclsImage:
        """The same image, merged if that pays off while there is no index of its columns yet."""
        return self.merged() if len(self.changes) * _SETTLE_SHARE > len(self.columns) else self

    def __repr__(self) -> str:
        return f"AclsImage({self.count} ACLs at end offset {self.provenance.end_offset})"


AclsImage.EMPTY = AclsImage(AclColumns.EMPTY, _UNCHANGED, count=0, digest=0, provenance=NOWHERE)


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
