"""AclsDelta: the changes of log records on an image.

Source: org.apache.kafka.image.AclsDelta. The rules:

- I2: records apply strictly in order; nothing is visible before ``apply``.
- I8: the table in snapshot.fold. Ids do not affect each other, so equal content under two ids is two ACLs.
  All effects are counted, none is an error.
- I12: the digest is updated with every change.

Single records are applied here. From the first columnar batch on, snapshot.fold applies all records. A
function for I8 that both call would make single records 17 % slower. Metadata transactions, gaps and the high
watermark are resolved before, by replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, cast

import msgspec
import numpy as np

from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from snapshot.columns import AclColumns, heads_in, heads_of
from snapshot.digest import DIGEST_MASK, acl_hash
from snapshot.fold import FOLD_AT, DeltaCounts, Fold
from snapshot.image import AclsImage, Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.columns.record_table import TableRecords
    from records.ids import Uuid
    from records.log_batch import LogBatch, LogRecord
    from snapshot.fold import Heads
    from snapshot.metadata_image import MetadataImage


class AclsDelta(msgspec.Struct, eq=False):
    """Changes on top of ``image``; single-threaded until ``apply``, effectively immutable after it.

    ``fold_at``: see snapshot.fold.
    """

    image: AclsImage
    fold_at: int = FOLD_AT
    _counts: DeltaCounts = msgspec.field(default_factory=DeltaCounts)
    _changes: dict[Uuid, AppliedAcl | None] = {}
    # Cache of lookups in the image.
    _cached: dict[Uuid, AppliedAcl | None] = {}
    # Increment of the digest.
    _digest: int = 0
    # The changed metadata, if it changed.
    _metadata: MetadataImage | None = None
    # Takes all records from the first columnar batch on; `_changes` are those before it.
    _fold: Fold | None = None
    # `_changes` after the fold, and the ACLs that it put; None: to be computed.
    _settled: tuple[dict[Uuid, AppliedAcl | None], AclColumns] | None = None
    # The resulting image, if the delta was made by `between`.
    _after: AclsImage | None = None

    @classmethod
    def between(cls, before: AclsImage, after: AclsImage) -> AclsDelta:
        """The difference of two images, where the records in between were not applied.

        Compares every ACL of both without hashing: the digest is that of ``after``. From the empty image, as
        at every start, the work is deferred until ``changes`` is read.
        """
        delta = cls(
            before,
            _digest=after.digest - before.digest,
            _metadata=after.metadata,
            _after=after,
        )
        changes, counts = delta._changes, delta._counts
        if not len(before):
            counts.added = len(after)
            return delta
        for acl in after:
            old = before.get(acl.record.id)
            if old is None:
                counts.added += 1
            elif old.record != acl.record:
                counts.replaced += 1
            elif old == acl:
                continue
            changes[acl.record.id] = acl
        for acl in before:
            if acl.record.id not in after:
                counts.removed += 1
                changes[acl.record.id] = None
        return delta

    @property
    def counts(self) -> DeltaCounts:
        """Effects of the records. Do not modify."""
        if self._fold is None:
            return self._counts
        counts = DeltaCounts()
        counts.add(self._counts)
        self._fold.settle()
        counts.add(self._fold.counts)
        return counts

    @property
    def changes(self) -> Mapping[Uuid, AppliedAcl | None]:
        """By id: the ACL now in force, or None if the image's ACL was removed.

        An id that was added and removed within the delta does not appear (KAFKA-13889).
        """
        changes, put = self._settle()
        if put is not AclColumns.EMPTY:
            changes.update((acl.record.id, acl) for acl in put)
            self._settled = changes, AclColumns.EMPTY
        return changes

    @property
    def metadata(self) -> MetadataImage:
        """The metadata other than ACLs after this delta."""
        return self.image.metadata if self._metadata is None else self._metadata

    def changed(self) -> Iterator[tuple[AppliedAcl | None, AppliedAcl | None]]:
        """(before, after) of each changed id, in the order in which the ids first changed."""
        cached = self._cached
        for acl_id, after in self.changes.items():
            yield cached[acl_id] if acl_id in cached else self._before(acl_id), after

    def get(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id after this delta."""
        if self._after is not None:
            return self._after.get(acl_id)
        changes, put = self._settle()
        if acl_id in changes:
            return changes[acl_id]
        row = put.row_of(acl_id)
        return self._before(acl_id) if row is None else put.acl(row)

    def _current(self, acl_id: Uuid) -> AppliedAcl | None:
        """As `get`, while there is no fold."""
        changes = self._changes
        return changes[acl_id] if acl_id in changes else self._before(acl_id)

    def _before(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id in the image."""
        cached = self._cached
        if acl_id not in cached:
            cached[acl_id] = self.image.get(acl_id)
        return cached[acl_id]

    def replay_batch(self, batch: LogBatch) -> None:
        """Apply all records of one batch."""
        records = batch.records
        if isinstance(records, tuple):
            for logged in records:
                self.replay(logged)
        else:
            self.replay_table(cast("TableRecords", records))  # the only kind of lazy records

    def replay_table(self, records: TableRecords) -> None:
        """Apply columnar records."""
        fold = self._fold
        if fold is None:
            self._fold = fold = Fold(self._base_rows, fold_at=self.fold_at)
        self._settled = None
        for logged in fold.take_records(records):
            self.replay(logged)

    def replay(self, logged: LogRecord) -> None:
        record = logged.record
        match record:
            case AccessControlEntryRecord():
                self.put(AppliedAcl(record, logged.offset, logged.timestamp_ms))
            case RemoveAccessControlEntryRecord():
                self._remove(record.id)
            case FeatureLevelRecord():
                self._metadata = self.metadata.with_record(record)
            case OtherRecord():
                self._metadata = self.metadata.with_record(record)
                self._counts.ignored += 1
            case (
                ControlRecord() | BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord()
            ):
                self._counts.ignored += 1
            case _:
                assert_never(record)

    def put(self, acl: AppliedAcl) -> None:
        """Add or replace one ACL: an AccessControlEntryRecord, or a row of a snapshot."""
        if self._fold is not None:
            self._settled = None
            self._fold.put(acl)
            return
        acl_id = acl.record.id
        before = self._current(acl_id)
        if before is None:
            self._counts.added += 1
        elif before.record == acl.record:
            # The ACL retains the offset and time of its first record.
            self._counts.repeated += 1
            return
        else:
            self._counts.replaced += 1
            self._digest -= acl_hash(before.record)
        self._digest += acl_hash(acl.record)
        self._changes[acl_id] = acl

    def _remove(self, acl_id: Uuid) -> None:
        if self._fold is not None:
            self._settled = None
            self._fold.remove(acl_id)
            return
        before = self._current(acl_id)
        if before is None:
            self._counts.unknown_removals += 1
            return
        self._counts.removed += 1
        self._digest -= acl_hash(before.record)
        if self._before(acl_id) is not None:
            self._changes[acl_id] = None
        else:
            del self._changes[acl_id]

    def _base_rows(self, heads: Heads) -> AclTable:
        """The ACLs in force before the fold whose ids have one of these sorted heads."""
        image = self.image
        rows = image.columns.rows_among(heads)
        found: list[AppliedAcl] = []
        for changes, later in ((self._changes, {}), (image.changes, self._changes)):
            ids = [*changes]
            for at in np.flatnonzero(heads_in(heads, heads_of(b"".join(ids)))).tolist():
                acl = changes[ids[at]]
                if acl is not None and ids[at] not in later:
                    found.append(acl)
        if len(rows) and (image.changes or self._changes):
            id_of = image.columns.id_of
            changed = [id_of(row) in image.changes or id_of(row) in self._changes for row in rows.tolist()]
            rows = rows[~np.array(changed, np.bool_)]
        return AclTable.concat([image.columns.take(rows), AclTable.of(found)])

    def _settle(self) -> tuple[dict[Uuid, AppliedAcl | None], AclColumns]:
        """The changes, and the put ACLs that are not among them."""
        if self._fold is None:
            if self._after is not None and not len(self.image) and not self._changes:
                self._changes = {acl.record.id: acl for acl in self._after}
            return self._changes, AclColumns.EMPTY
        if self._settled is None:
            fold = self._fold
            fold.settle()
            from records.columns.arrow_arrays import release_memory  # noqa: PLC0415 - pyarrow is loaded by now

            release_memory()
            put = AclColumns.concat([fold.rows])
            changes = {acl_id: acl for acl_id, acl in self._changes.items() if put.row_of(acl_id) is None}
            for acl_id in fold.superseded_ids:
                if acl_id not in self.image:
                    changes.pop(acl_id, None)
                elif put.row_of(acl_id) is None:
                    changes[acl_id] = None
            self._settled = changes, put
        return self._settled

    def apply(self, provenance: Provenance) -> AclsImage:
        """The image with the changes, at ``provenance``."""
        changes, put = self._settle()
        counts, image = self.counts, self.image
        increment = self._digest + (0 if self._fold is None else self._fold.digest)
        return image.with_changes(
            changes,
            put=put,
            count=image.count + counts.added - counts.removed,
            digest=(image.digest + increment) & DIGEST_MASK,
            provenance=provenance,
            metadata=self.metadata,
        )
