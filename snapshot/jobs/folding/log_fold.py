"""Fold of logs onto their stored states, one log after another in a Spark task.

A log is one sequence: one task reads it in order, because folding records costs less than shuffling them.
Parallel are only logs, and the reading and writing of files: a task writes small states while it folds the
next log. The task reads its logs itself.

Records are folded by columns (snapshot.fold), or one by one if each change is recorded (AclsDelta). KRaft
metadata transactions (KIP-868) are resolved here: their records count from the end marker on, those of
aborted ones never. The sources guarantee that a task sees complete transactions.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import uuid4

import numpy as np

from records.columns.acl_table import AclTable, AppliedAcl
from records.entries import (
    AccessControlEntryRecord,
    ControlRecord,
    FeatureLevelRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError
from records.log_batch import LazyRecords, LogBatch, LogRecord
from records.transactions import Marker, MisplacedMarkerError, Transaction
from snapshot.columns import heads_of
from snapshot.delta import AclsDelta
from snapshot.digest import DIGEST_MASK, digest_to_string
from snapshot.errors import SparkJobError
from snapshot.fold import DeltaCounts, Fold
from snapshot.image import NOWHERE, AclsImage, Provenance
from snapshot.jobs.folding.change_recorder import ChangeRecorder
from snapshot.jobs.folding.log_plan import AclCount, LogPlan, LogSummary
from snapshot.jobs.folding.stored_state import StoredState
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.metadata_image import MetadataImage
from snapshot.store.layout import SnapshotRef
from snapshot.store.metadata_file import put_metadata
from snapshot.store.reading import read_metadata
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from records.columns.record_table import TableRecords

# Records that are buffered as objects, if they are folded one by one.
_BUFFERED_MAX: Final = 1 << 16
# Small states that are written at a time, beside the fold of the next log: a write waits for the disk, or for
# the object store.
_FINISHED_AT_A_TIME: Final = 4


class FoldedLog(NamedTuple):
    """What a task returns about a log; ``summary``: None if there is a failure."""

    cluster_id: str
    summary: LogSummary | None
    failure: str | None


def fold_logs(
    logs: Iterable[tuple[str, Iterable[LogBatch]]],
    *,
    plans: Mapping[str, LogPlan],
    write_changes: Callable[[LogPlan, pa.Table], None] | None,
    isolates_logs: bool = False,
) -> Iterator[FoldedLog]:
    """The work of one task: fold logs.

    Args:
        logs: cluster id and batches of each log, in offset order; see sources.log_range.read_ranges.
        plans: by cluster id.
        write_changes: called once for each log with changes, which are rows of CHANGES_ARROW in any order,
            by several threads; see JobSink.
        isolates_logs: return an error of a log as its ``failure``, and fold the others.

    Raises:
        DecodeError: a record that cannot be decoded, with log and offset.
        LogError: a log changed since the batch was planned.
        SnapshotError: a base is damaged, or a store cannot be read or written.
        SparkJobError: records out of order or beyond a plan's end: the log was trimmed or truncated.
    """
    failures = LogFailures(is_collecting=isolates_logs)

    def finished(cluster_id: str, fold: LogFold) -> FoldedLog:
        summary: LogSummary | None = None
        with failures.collect(cluster_id):
            summary = fold.finish(write_changes)
        return FoldedLog(cluster_id, summary, failures.by_cluster.get(cluster_id))

    with ThreadPoolExecutor(_FINISHED_AT_A_TIME) as pool:
        pending = deque[Future[FoldedLog]]()
        for cluster_id, batches in logs:
            plan = plans[cluster_id]
            with failures.collect(cluster_id):
                fold = LogFold(plan)
                for batch in batches:
                    fold.take(batch)
            if cluster_id in failures.by_cluster:
                yield FoldedLog(cluster_id, None, failures.by_cluster[cluster_id])
            else:
                pending.append(pool.submit(finished, cluster_id, fold))
            # A large state is written alone, as several of them may not fit in memory.
            while len(pending) > (_FINISHED_AT_A_TIME if plan.is_small else 0):
                yield pending.popleft().result()
        for each in pending:
            yield each.result()


class LogFold:
    """The fold of one log."""

    def __init__(self, plan: LogPlan) -> None:
        """Read the plan's base. Raises SnapshotError: the base is damaged, or the store cannot be read."""
        self._plan = plan
        self._storage = Storage(plan.store_url)
        self._state = StoredState.read(self._storage, plan.base, plan.shards)
        self._digest = 0 if plan.base is None else plan.base.digest
        self._metadata = MetadataImage.EMPTY if plan.base is None else read_metadata(self._storage, plan.base)
        self._counts = DeltaCounts()
        self._fold = Fold(self._state.rows_with_heads)
        self._recorder = ChangeRecorder(plan)
        # Changes are recorded one by one; with `before`, as a difference at the end.
        self._is_recording = (plan.wants_changes or plan.wants_count_deltas) and plan.before is None
        self._buffered: list[LogRecord] = []
        self._transaction = Transaction[LogRecord]()
        self._marker = -1
        # Offset of the last record, and the last batch with records.
        self._last = plan.range.start - 1
        self._last_batch: LogBatch | None = None
        self._records = 0

    def take(self, batch: LogBatch) -> None:
        """Take the next batch.

        Raises:
            DecodeError: a misplaced transaction marker.
            SnapshotCorruptError: the base holds an id twice.
            SparkJobError: records out of order, or beyond the plan's end.
        """
        records = batch.records
        if not records:
            return
        self._check_order(records)
        self._last_batch = batch
        if isinstance(records, tuple) and isinstance(records[0].record, ControlRecord):
            return
        self._records += len(records)
        if isinstance(records, LazyRecords) and not records.has_markers and not self._transaction.is_open:
            self._count(records)
            return
        for logged in records:
            try:
                visible = self._transaction.take(logged, logged.record)
            except MisplacedMarkerError as error:
                raise self._misplaced(str(error), logged.offset) from error
            if isinstance(logged.record, Marker):
                self._marker = logged.offset
                if self._plan.wants_changes:
                    # A history has the offset from which an ACL was in force.
                    visible = [LogRecord(logged.offset, each.timestamp_ms, each.record) for each in visible]
            if visible:
                self._count(tuple(visible))

    def _check_order(self, records: tuple[LogRecord, ...] | LazyRecords) -> None:
        first, last = (
            records.offsets if isinstance(records, LazyRecords) else (records[0].offset, records[-1].offset)
        )
        if not self._last < first <= last < self._plan.end:
            raise SparkJobError(
                f"cluster {self._plan.identity.cluster_id}: records of offsets {first} to {last} after "
                f"{self._last}, in a batch that ends at {self._plan.end}"
            )
        self._last = last

    def _misplaced(self, problem: str, offset: int) -> DecodeError:
        return DecodeError(f"a metadata {problem}", source=self._plan.source, offset=offset)

    def _count(self, records: tuple[LogRecord, ...] | LazyRecords) -> None:
        """Fold, or buffer, records that count."""
        if self._is_recording:
            self._buffered += records
            if len(self._buffered) >= _BUFFERED_MAX:
                self._fold_and_record()
            return
        single = (
            records if isinstance(records, tuple) else self._fold.take_records(cast("TableRecords", records))
        )
        for logged in single:
            match logged.record:
                case AccessControlEntryRecord() as record:
                    self._fold.put(AppliedAcl(record, logged.offset, logged.timestamp_ms))
                case RemoveAccessControlEntryRecord() as record:
                    self._fold.remove(record.id)
                case FeatureLevelRecord() | OtherRecord() as record:
                    self._metadata = self._metadata.with_record(record)

    def _fold_and_record(self) -> None:
        """Fold the buffered records one by one, and record the change of each."""
        plan, state = self._plan, self._state
        buffered, self._buffered = self._buffered, []
        ids = [
            logged.record.id
            for logged in buffered
            if isinstance(logged.record, AccessControlEntryRecord | RemoveAccessControlEntryRecord)
        ]
        delta = AclsDelta(
            AclsImage.restored(
                state.rows_with_heads(np.unique(heads_of(b"".join(ids)))),
                digest=self._digest,
                provenance=NOWHERE,
                metadata=self._metadata,
            )
        )
        for logged in buffered:
            if not isinstance(logged.record, AccessControlEntryRecord | RemoveAccessControlEntryRecord):
                delta.replay(logged)
                continue
            before = delta.get(logged.record.id)
            delta.replay(logged)
            if logged.offset >= plan.start:
                self._recorder.record_change(
                    before, delta.get(logged.record.id), logged.offset, logged.timestamp_ms
                )
        changed = delta.changes
        state.apply(changed, AclTable.of([acl for acl in changed.values() if acl is not None]))
        after = delta.apply(NOWHERE)
        self._digest, self._metadata = after.digest, after.metadata
        self._counts.add(delta.counts)

    def finish(self, write_changes: Callable[[LogPlan, pa.Table], None] | None) -> LogSummary:
        """Write the files of the state and the changes; see ``fold_logs``.

        Raises:
            DecodeError: a metadata transaction has no end.
            SnapshotError: the store cannot be written, or the base holds an id twice.
        """
        plan, state = self._plan, self._state
        if self._transaction.is_open:
            raise self._misplaced(
                "transaction begins here and has no end in this batch of the query", self._marker
            )
        if self._buffered:
            self._fold_and_record()
        self._fold.settle()
        state.apply(self._fold.superseded_ids, self._fold.rows)
        self._digest = (self._digest + self._fold.digest) & DIGEST_MASK
        self._counts.add(self._fold.counts)
        provenance = self._provenance()
        if plan.before is not None:
            before = StoredState.read(self._storage, plan.before, plan.shards)
            recorded = self._recorder.record_difference(before.rows(), state.rows(), provenance.timestamp_ms)
            if plan.wants_changes:
                state = StoredState(plan.shards, recorded)
        # Spark may run a task twice: each run writes files with unique names.
        attempt = f"{plan.attempt}-{uuid4().hex[:8]}"
        ref = SnapshotRef(cluster_id=plan.identity.cluster_id, epoch=provenance.epoch, end_offset=plan.end)
        summary = LogSummary(
            provenance=provenance,
            parts=state.put(self._storage, ref, attempt=attempt),
            digest=digest_to_string(self._digest),
            features=dict(self._metadata.features),
            brokers=dict(self._metadata.brokers),
            metadata=put_metadata(self._storage, ref, self._metadata, attempt=attempt),
            records=self._records,
            counts=self._counts,
            acl_counts=[AclCount(*kind, count) for kind, count in sorted(state.count_by_kind().items())],
            count_deltas=self._recorder.count_deltas(),
        )
        changes = self._recorder.changes()
        if len(changes) and write_changes is not None:
            write_changes(plan, changes)
        return summary

    def _provenance(self) -> Provenance:
        """Of the new state: by the last batch with records, or by the base if there is none."""
        end, batch, base = self._plan.end, self._last_batch, self._plan.base
        if batch is not None:
            return Provenance(end, batch.epoch, batch.timestamp_ms, end - self._last - 1)
        before = NOWHERE if base is None else base.provenance
        tail = end - before.end_offset + before.empty_tail
        return Provenance(end, before.epoch, before.timestamp_ms, tail)
