"""A range of a directory log as rows of SOURCE, in Arrow; runs on executors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from records.columns.walk import raw_columns
from records.errors import DecodeError, LogError, OffsetOutOfRangeError
from records.ids import uuid_from_string
from records.log.base import LogIdentity
from snapshot.jobs.sources.directory_ranges import open_directory, out_of_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from records.columns.walk import RawColumns
    from records.log.directory.segments import BatchPlace

#: schema.SOURCE as pyspark wants it from a data source.
SOURCE_ARROW: Final = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)

# Spark keeps microseconds.
_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class DirectoryRange:
    """What to read: plain values, for they travel to executors.

    Attributes:
        path: of the log's directory.
        cluster_id, topic_id: whose it must be; the topic id as Kafka's 22 characters.
        start, end: offsets.
        end_epoch: of the batch that ends at ``end``; None: any, and ``end`` may be within a batch.
        near: where to look for ``start``, if that is known.
    """

    path: str
    cluster_id: str
    topic_id: str
    start: int
    end: int
    end_epoch: int | None
    near: BatchPlace | None = None


def read_rows(wanted: DirectoryRange) -> Iterator[pa.RecordBatch]:
    """All records but control records, in offset order.

    Raises:
        DecodeError: a damaged batch, with file and offset.
        LogError: the log is not what it was when the range was planned, or out of reach.
    """
    identity = LogIdentity(wanted.cluster_id, uuid_from_string(wanted.topic_id))
    with open_directory(wanted.path, identity) as log:
        if wanted.near is not None:
            log.start_near(wanted.near)
        position, epoch = wanted.start, None
        while position < wanted.end:
            try:
                batches = log.read_raw(position)
            except OffsetOutOfRangeError as error:
                raise LogError(out_of_range(wanted.path, error)) from error
            if not batches:
                raise LogError(f"{wanted.path}: the log ends at offset {position} now, not at {wanted.end}")
            batches = [batch for batch in batches if batch.base_offset < wanted.end]
            try:
                columns = raw_columns(batch for batch in batches if not batch.is_control)
            except DecodeError as error:
                raise error.located(source=wanted.path) from error
            for piece in columns:
                yield _rows(piece, wanted)
            position, epoch = batches[-1].end_offset, batches[-1].epoch
        if wanted.end_epoch is not None and (position, epoch) != (wanted.end, wanted.end_epoch):
            raise LogError(
                f"{wanted.path}: the log was truncated and written anew: offset {wanted.end} was the end of "
                f"a batch of epoch {wanted.end_epoch}; one of epoch {epoch} ends at {position} now. Start "
                f"again with another checkpoint"
            )


def _rows(piece: RawColumns, wanted: DirectoryRange) -> pa.RecordBatch:
    count = len(piece.offsets)
    too_far = np.abs(piece.timestamps_ms) > _TIMESTAMP_MS_MAX
    if too_far.any():
        first = int(np.argmax(too_far))
        raise DecodeError(
            f"timestamp {piece.timestamps_ms[first]} is beyond what Spark can hold",
            source=wanted.path,
            offset=int(piece.offsets[first]),
        )
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(wanted.cluster_id), count),
            pa.repeat(pa.scalar(wanted.topic_id), count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(piece.offsets)]),
            pa.Array.from_buffers(
                SOURCE_ARROW.field("timestamp").type, count, [None, pa.py_buffer(piece.timestamps_ms * 1000)]
            ),
            piece.keys,
            piece.values,
        ],
        schema=SOURCE_ARROW,
    )
    first, last = np.searchsorted(piece.offsets, (wanted.start, wanted.end)).tolist()
    return rows.slice(first, last - first)
