"""A job's fold without Spark: logs as decoded rows, folded shard by shard onto the stored state before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from snapshot.image import Provenance
from snapshot.jobs.engine.job import LogPlan, LogResult
from snapshot.jobs.engine.log_fold import LogFold
from snapshot.jobs.engine.log_result import log_result
from snapshot.jobs.engine.schema import DECODED_ARROW, KIND_ACL, KIND_FEATURE, KIND_REMOVAL
from snapshot.jobs.engine.sharding import shards_of
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.snapshots import IDENTITY


@dataclass(frozen=True, slots=True)
class Counted:
    """A record that counts, and from which offset on."""

    logged: LogRecord
    applied_offset: int


def counted(records: Iterable[LogRecord]) -> list[Counted]:
    """What counts, in the order in which it does (KIP-868); transactions are whole."""
    found: list[Counted] = []
    waiting: list[LogRecord] | None = None
    for logged in records:
        match logged.record:
            case BeginTransactionRecord():
                waiting = []
            case EndTransactionRecord():
                found += [Counted(before, logged.offset) for before in waiting or ()]
                waiting = None
            case AbortTransactionRecord():
                waiting = None
            case _ if waiting is not None:
                waiting.append(logged)
            case _:
                found.append(Counted(logged, logged.offset))
    return found


def _row(found: Counted, shards: int) -> dict[str, Any] | None:
    """One decoded row; None for a record that makes none."""
    record: MetadataRecord | Any = found.logged.record
    row: dict[str, Any] = {
        "cluster_id": IDENTITY.cluster_id,
        "shard": 0,
        "offset": found.logged.offset,
        "applied_offset": found.applied_offset,
        "timestamp_ms": found.logged.timestamp_ms,
    }
    match record:
        case AccessControlEntryRecord():
            fields = msgspec.structs.asdict(record)
            return row | fields | {"kind": KIND_ACL, "shard": int(shards_of(record.id, shards)[0])}
        case RemoveAccessControlEntryRecord():
            shard = int(shards_of(record.id, shards)[0])
            return row | {"kind": KIND_REMOVAL, "id": record.id, "shard": shard}
        case FeatureLevelRecord():
            return row | {"kind": KIND_FEATURE, "resource_name": record.name, "feature_level": record.level}
        case _:
            return None


def decoded(records: Iterable[Counted], shards: int) -> pa.RecordBatch:
    """The rows of all shards, in log order."""
    rows = [row for found in records if (row := _row(found, shards)) is not None]
    return pa.RecordBatch.from_pylist(rows, schema=DECODED_ARROW)


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


def folded(of: LogPlan, records: Sequence[Counted], rows_at_once: int = 3) -> tuple[LogResult, list[Any]]:
    """The log's result, and the change rows of all shards in log order."""
    changes: list[Any] = []
    fold = LogFold(of)
    rows = decoded(records, of.shards)
    for at in range(0, rows.num_rows, rows_at_once):
        fold.take(rows.slice(at, rows_at_once))
    summaries = fold.finish(lambda plan, found: changes.extend(found.to_pylist()))
    # Of one transaction all count from one offset: their own order is per shard.
    return log_result(of, summaries), sorted(changes, key=lambda change: (change["offset"], change["id"]))
