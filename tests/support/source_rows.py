"""Rows of a log as a Spark source returns them, in Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from snapshot.jobs.sources.schema import SOURCE_ARROW

CLUSTER_ID = "c-1"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


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
    """The rows as batches that end at these positions: slices of one Arrow batch."""
    whole = source_batch(rows)
    bounds = sorted({0, len(rows), *(cut for cut in cuts if cut <= len(rows))})
    return [whole.slice(start, end - start) for start, end in pairwise(bounds)]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows, as Python values."""
    return [row for batch in batches for row in batch.to_pylist()]
