"""AclsImage: the ACLs of a cluster at one offset, immutable (I1).

Source: org.apache.kafka.image.AclsImage, MetadataProvenance. An image is a large base of columns
(snapshot.columns), never changed, under a persistent map of the changes since: making the next image costs
what changed, at a million ACLs as well as at ten, and every older image stays as it was. ``AclsDelta`` is its
maker, and ``restored`` for a stored snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import immutables
import msgspec

from snapshot.columns import AclColumns
from snapshot.metadata_image import MetadataImage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.columns.acl_table import AppliedAcl
    from records.ids import Uuid


class Provenance(msgspec.Struct, frozen=True, gc=False):
    """Where an image stands in its log.

    Attributes:
        end_offset: last contained offset + 1, also the snapshot id (MetadataProvenance.java).
        epoch: leader epoch of the last contained batch.
        timestamp_ms: timestamp of the last contained record, 0 when there is none.
        empty_tail: how many offsets just below the end offset hold no record: in a topic, those of markers
            of transactions and of aborted records, which may be of later epochs than the last record is.
    """

    end_offset: int
    epoch: int
    timestamp_ms: int
    empty_tail: int = 0


#: Before the first record of any log.
NOWHERE: Final = Provenance(end_offset=0, epoch=0, timestamp_ms=0)

# Changes are merged into new columns when they are more than a share of these: look-ups stay quick, and the
# merge, with what is built anew upon the columns, is paid for by the changes that made it due.
_MERGE_MINIMUM: Final = 1024
_MERGE_SHARE: Final = 8
# Of one step: with more changes than this, an index of the ACLs is built anew in less time than it follows
# them one by one.
_MERGE_STEP_SHARE: Final = 32
# Of an image that has no index yet.
_SETTLE_SHARE: Final = 64

_UNCHANGED: Final[immutables.Map[Uuid, AppliedAcl | None]] = immutables.Map()
_MISSING: Final = object()


class AclsImage(msgspec.Struct, eq=False, gc=False):
    """All ACLs by id, where in the log that is, and the digest of the whole.

    Iteration order is arbitrary but the same for the same image.

    Attributes:
        columns: the base. A row is in force if its id is not in ``changes``.
        changes: by id, what differs from ``columns``: an ACL in force, or None for a row that is not.
        count: of the ACLs in force.
        metadata: what else the log knows there. It is in no digest, and not counted.
    """

    columns: AclColumns
    changes: immutables.Map[Uuid, AppliedAcl | None]
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
        """The ACL with this id, if it is in force."""
        if self.changes:
            changed = self.changes.get(acl_id, _MISSING)
            if changed is not _MISSING:
                return changed  # type: ignore[return-value]
        row = self.columns.row_of(acl_id)
        return None if row is None else self.columns.acl(row)

    def __iter__(self) -> Iterator[AppliedAcl]:
        """Every ACL in force."""
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
        """The image of a stored snapshot. The caller has checked that ids are distinct, and the digest.

        Folding a million rows anew costs seconds, most of it hashing what the manifest vouches for.
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

        Args:
            changes: ids and their new content, or None if removed.
            put: ACLs with other distinct ids, which are in force then as well, whatever was.
            count: of the ACLs then.
            digest: of them.
            provenance: where the next image stands.
            metadata: what else the log knows then.
        """
        columns, merged = self.columns, self.changes
        step = len(changes) + len(put)
        waiting, base = len(merged) + step, len(columns)
        if waiting > _MERGE_MINIMUM and (
            waiting > base // _MERGE_SHARE or step > max(_MERGE_MINIMUM, base // _MERGE_STEP_SHARE)
        ):
            before = {acl_id: acl for acl_id, acl in merged.items() if put.row_of(acl_id) is None}
            columns = columns.with_changes({**before, **changes}, put)
            merged = _UNCHANGED
        elif step == 1 and changes:  # mostly: half of what `update` takes
            ((acl_id, acl),) = changes.items()
            merged = merged.set(acl_id, acl)
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
        """The same image without changes beside its columns; itself if it has none."""
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
        """The same image, merged if that is worth it where nobody has an index of its columns yet."""
        return self.merged() if len(self.changes) * _SETTLE_SHARE > len(self.columns) else self

    def __repr__(self) -> str:
        return f"AclsImage({self.count} ACLs at end offset {self.provenance.end_offset})"


AclsImage.EMPTY = AclsImage(AclColumns.EMPTY, _UNCHANGED, count=0, digest=0, provenance=NOWHERE)
