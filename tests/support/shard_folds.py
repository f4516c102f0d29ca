"""A job's fold without Spark: rows of a log, folded onto a stored state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from records.entries import ControlRecord
from records.ids import uuid_to_string
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from snapshot.image import Provenance
from snapshot.jobs.folding.log_fold import LogFold, fold_logs
from snapshot.jobs.folding.log_plan import LogPlan, LogResult, LogSummary, log_result
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.column_logs import frame_of
from support.naive_transactions import effective_records
from support.snapshots import IDENTITY
from support.source_rows import Row, source_batch


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
        identity=identity,
        has_ranges=False,
        start=base_end if start is None else start,
        end=end,
        provenance=Provenance(end, 1, 1_000 * (end - 1)),
        log_end_time_ms=5,
        shards=shards,
        attempt="job-1",
        store_url=store.url,
        base=base,
        before=before,
        wants_changes=wants_changes,
        wants_count_deltas=wants_count_deltas,
    )


def folded(of: LogPlan, records: Sequence[LogRecord], rows_at_once: int = 3) -> tuple[LogResult, list[Any]]:
    """The result that a task computes from Spark's rows, and its changes."""
    changes: list[Any] = []

    def write_changes(_of: LogPlan, found: pa.Table) -> None:
        changes.extend(found.to_pylist())

    rows = source_rows(of.identity, records)
    batches = [source_batch(rows[at : at + rows_at_once]) for at in range(0, len(rows), rows_at_once)]
    made = list(fold_logs(batches, plans={of.identity.cluster_id: of}, write_changes=write_changes))
    if made:
        ((text,),) = [batch.column("summary").to_pylist() for batch in made]
        summary = msgspec.json.decode(text, type=LogSummary)
    else:
        summary = LogFold(of).finish(write_changes)
    # The changes of one transaction have one offset.
    return log_result(of, summary), sorted(changes, key=lambda change: (change["offset"], change["id"]))


def source_rows(identity: LogIdentity, records: Iterable[LogRecord]) -> list[Row]:
    """The records as frames in a topic."""
    topic_id = uuid_to_string(identity.topic_id)
    rows = []
    for logged in records:
        assert not isinstance(logged.record, ControlRecord)
        value = frame_of(logged.record)
        rows.append(Row(logged.offset, logged.timestamp_ms, None, value, identity.cluster_id, topic_id))
    return rows
