"""Rows of a log as a Spark source gives them, in Arrow, and what they say when each is decoded by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

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
from snapshot.jobs.engine.schema import KIND_ACL, KIND_FEATURE, KIND_REMOVAL
from snapshot.jobs.engine.sharding import shards_of
from snapshot.jobs.sources.directory_rows import SOURCE_ARROW

CLUSTER_ID = "c-1"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SHARDS = 5


class Row(NamedTuple):
    """One record of a log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    cluster_id: str | None = CLUSTER_ID
    topic_id: str = TOPIC_ID


def source_batch(rows: Iterable[Row]) -> pa.RecordBatch:
    """SOURCE rows."""
    return pa.RecordBatch.from_pylist(
        [
            {
                "cluster_id": row.cluster_id,
                "topic_id": row.topic_id,
                "partition": 0,
                "offset": row.offset,
                "timestamp": row.timestamp_ms * 1000,
                "key": row.key,
                "value": row.value,
            }
            for row in rows
        ],
        SOURCE_ARROW,
    )


def split_batches(rows: Sequence[Row], cuts: Iterable[int]) -> list[pa.RecordBatch]:
    """The rows as batches that end at these places; slices of one batch, as Arrow has them."""
    whole = source_batch(rows)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    return [whole.slice(start, end - start) for start, end in pairwise(bounds)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows, as Python values."""
    return [row for batch in batches for row in batch.to_pylist()]


def expected_rows(
    records: Iterable[tuple[int, int, MetadataRecord]],
    *,
    cluster_id: str = CLUSTER_ID,
    topic_id: str = TOPIC_ID,
) -> list[dict[str, Any]]:
    """DECODED rows of (offset, timestamp, record), one record after another."""
    rows: list[dict[str, Any]] = []
    transaction: list[dict[str, Any]] | None = None
    for offset, timestamp_ms, record in records:
        fields: dict[str, Any] = dict.fromkeys(
            (
                "id",
                "resource_type",
                "resource_name",
                "pattern_type",
                "principal",
                "host",
                "operation",
                "permission_type",
                "feature_level",
            )
        )
        match record:
            case BeginTransactionRecord():
                transaction = []
                continue
            case EndTransactionRecord():
                rows += [{**row, "applied_offset": offset} for row in transaction or ()]
                transaction = None
                continue
            case AbortTransactionRecord():
                transaction = None
                continue
            case AccessControlEntryRecord():
                fields |= {name: getattr(record, name) for name in record.__struct_fields__}
                kind = KIND_ACL
            case RemoveAccessControlEntryRecord():
                fields["id"] = record.id
                kind = KIND_REMOVAL
            case FeatureLevelRecord():
                fields |= {"resource_name": record.name, "feature_level": record.level}
                kind = KIND_FEATURE
            case _:
                continue
        shard = 0 if kind == KIND_FEATURE else int(shards_of(fields["id"], SHARDS)[0])
        row = {
            "cluster_id": cluster_id,
            "topic_id": topic_id,
            "shard": shard,
            "kind": kind,
            "offset": offset,
            "applied_offset": offset,
            "timestamp_ms": timestamp_ms,
            **fields,
        }
        (rows if transaction is None else transaction).append(row)
    assert transaction is None
    return rows
