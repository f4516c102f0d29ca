"""A job's fold without Spark: records of a log, folded onto a stored state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from records.entries import ControlRecord
from records.log.base import LogIdentity
from records.log.topic.codec import decode_messages
from records.log_batch import LogBatch, LogRecord
from snapshot.jobs.folding.log_fold import fold_logs
from snapshot.jobs.folding.log_plan import LogPlan, LogResult, log_result
from snapshot.jobs.sources.log_range import LogRange
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.column_logs import frame_of
from support.naive_transactions import effective_records
from support.snapshots import IDENTITY


@dataclass(frozen=True, slots=True)
class Counted:
    """A record that takes effect, and the offset at which it does."""

    logged: LogRecord
    applied_offset: int


def counted(records: Iterable[LogRecord]) -> list[Counted]:
    """The records that take effect, in order (KIP-868); transactions must be complete."""
    return [
        Counted(each, logged.offset) for logged, effective in effective_records(records) for each in effective
    ]


def plan(
    store: SnapshotStore,
    end: int,
    *,
    base: SnapshotManifest | None,
    shards: int = 1,
    start: int | None = None,
    before: SnapshotManifest | None = None,
    wants_changes: bool = False,
    wants_count_deltas: bool = False,
    identity: LogIdentity = IDENTITY,
) -> LogPlan:
    base_end = 0 if base is None else base.provenance.end_offset
    return LogPlan(
        range=LogRange(url="kafka://b:9092/acls", identity=identity, start=base_end, end=end, end_epoch=None),
        start=base_end if start is None else start,
        log_end_time_ms=5,
        shards=shards,
        attempt="job-1",
        store_url=store.url,
        base=base,
        before=before,
        wants_changes=wants_changes,
        wants_count_deltas=wants_count_deltas,
    )


def folded(of: LogPlan, records: Sequence[LogRecord], batch_size: int = 3) -> tuple[LogResult, list[Any]]:
    """The result that a task computes from a log's records, and its changes."""
    changes: list[Any] = []

    def write_changes(_of: LogPlan, found: pa.Table) -> None:
        changes.extend(found.to_pylist())

    logs = [(of.identity.cluster_id, batches(records, batch_size))]
    (made,) = fold_logs(logs, plans={of.identity.cluster_id: of}, write_changes=write_changes)
    assert made.summary is not None
    # The changes of one transaction have one offset.
    return log_result(of, made.summary), sorted(changes, key=lambda change: (change["offset"], change["id"]))


def batches(records: Sequence[LogRecord], batch_size: int, epoch: int = 1) -> list[LogBatch]:
    """The records, by columns, in batches of this size as a reader returns them."""
    return [batch_of(records[at : at + batch_size], epoch) for at in range(0, len(records), batch_size)]


def batch_of(records: Sequence[LogRecord], epoch: int = 1) -> LogBatch:
    """A batch with these records, by columns."""
    values = [frame_of(logged.record) for logged in records if not isinstance(logged.record, ControlRecord)]
    offsets = [logged.offset for logged in records]
    timestamps_ms = [logged.timestamp_ms for logged in records]
    found, problem = decode_messages([None] * len(values), values, offsets, timestamps_ms, columns_from=1)
    assert problem is None
    size_bytes = sum(map(len, values))
    return LogBatch(offsets[0], offsets[-1] + 1, epoch, timestamps_ms[-1], size_bytes, found)
