"""LogRange: a range of a log of batches, planned on the driver and read by the task that folds it.

It is sent as one SOURCE row, so that the records do not pass through the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import msgspec
import pyarrow as pa

from records.columns.batches import to_log_batches
from records.errors import LogError, OffsetOutOfRangeError
from records.ids import uuid_from_string
from records.log.base import BatchPosition, LogIdentity
from records.log_batch import LogBatch
from snapshot.jobs.sources.log_ranges import open_ranged, out_of_range
from snapshot.jobs.sources.logs import ends_early
from snapshot.jobs.sources.schema import SOURCE_ARROW


class LogRange(msgspec.Struct, frozen=True):
    """A range to read.

    Attributes:
        url: of the log; client settings, which may hold secrets, are not in a row.
        cluster_id, topic_id: the expected identity; the topic id as Kafka's 22 characters.
        start, end: offsets.
        end_epoch: of the batch that ends at ``end``.
        position_hint: position in the log's files from which to seek ``start``.
    """

    url: str
    cluster_id: str
    topic_id: str
    start: int
    end: int
    end_epoch: int | None
    position_hint: BatchPosition | None = None

    def to_row(self) -> pa.RecordBatch:
        row = {
            "cluster_id": self.cluster_id,
            "topic_id": self.topic_id,
            "partition": 0,
            "offset": self.start,
            "timestamp": 0,
            "value": msgspec.json.encode(self),
        }
        return pa.RecordBatch.from_pylist([row], SOURCE_ARROW)


def read_ranges(rows: pa.RecordBatch, start: int, client: Mapping[str, str]) -> Iterator[LogBatch]:
    """Read the batches of ranges.

    Args:
        rows: of `LogRange.to_row`.
        start: first offset to read; it may lie before the ranges.
        client: client settings of the log's cluster.

    Raises:
        DecodeError: a damaged batch, or a record that cannot be decoded; with file or log, and offset.
        LogError: the log has changed since the range was planned, or is out of reach.
        SparkJobError: it was trimmed or truncated.
    """
    for value in rows.column("value").to_pylist():
        yield from _read(msgspec.json.decode(value, type=LogRange), start, client)


def _read(wanted: LogRange, start: int, client: Mapping[str, str]) -> Iterator[LogBatch]:
    identity = LogIdentity(wanted.cluster_id, uuid_from_string(wanted.topic_id))
    with closing(open_ranged(wanted.url, identity, client)) as log:
        if wanted.position_hint is not None and start >= wanted.start:
            log.use_position_hint(wanted.position_hint)
        position, epoch = start, None
        while position < wanted.end:
            try:
                read = log.read_raw(position)
            except OffsetOutOfRangeError as error:
                raise out_of_range(wanted.url, error) from error
            if not read:
                raise ends_early(wanted.url, position, wanted.end)
            read = [batch for batch in read if batch.base_offset < wanted.end]
            batches, problem = to_log_batches(
                [batch for batch in read if not batch.is_control], columns_from=0
            )
            yield from batches
            if problem is not None:
                raise problem.located(source=wanted.url)
            position, epoch = read[-1].end_offset, read[-1].epoch
        if (position, epoch) != (wanted.end, wanted.end_epoch):
            raise LogError(
                f"{wanted.url}: the log was truncated and rewritten: offset {wanted.end} was the end of a "
                f"batch of epoch {wanted.end_epoch}; now a batch of epoch {epoch} ends at {position}. Start "
                f"again with another checkpoint"
            )
