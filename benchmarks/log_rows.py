"""A log as rows that Spark reads, for comparison with the jobs.

The jobs read a log in the task that folds it. A job that has only Spark's means would get its records as rows
of a data source; this is that source, planned as the jobs' own, and read by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from records.columns.record_spans import find_records
from records.columns.values import pieces
from records.log.base import BatchLog
from records.log.url import TOPIC, kind_of, parse_topic_url
from snapshot.jobs.sources.log_range import LogRange
from snapshot.jobs.sources.log_ranges import open_ranged
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.jobs.sources.range_source import RangeSource, RangeStreamReader, options_of

_NAME = "aclog-log-rows"
_ROWS = "offset long, timestamp_ms long, value binary"
_ROWS_ARROW = pa.schema([("offset", pa.int64()), ("timestamp_ms", pa.int64()), ("value", pa.binary())])


def read_rows_stream(spark: SparkSession, log: FollowedLog, *, max_offsets: int) -> DataFrame:
    """Rows of a log of plain batches, or of a topic; each record is a row."""
    spark.dataSource.register(LogRowsSource)
    stream = spark.readStream.format(_NAME).options(**options_of([log], {log.identity.cluster_id: 0}))
    return stream.option("maxOffsetsPerTrigger", max_offsets).load()


class LogRowsSource(RangeSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def schema(self) -> str:
        return _ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        return _RowsReader(self.options)


class _RowsReader(RangeStreamReader):
    _batch_log: BatchLog | None = None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        (log,) = self._logs
        begin, last = (self._from_json(each)[log.cluster_id] for each in (start, end))
        hint = None
        if kind_of(log.url) != TOPIC:
            # Kept open: it then knows the position where the previous batch ended.
            if self._batch_log is None:
                self._batch_log = open_ranged(log.url, log.identity, {})
            self._batch_log.read_raw(begin.offset, max_bytes=1)
            hint = self._batch_log.position_hint(begin.offset)
        wanted = LogRange(
            url=log.url,
            identity=log.identity,
            start=begin.offset,
            end=last.offset,
            end_epoch=last.epoch,
            position_hint=hint,
        )
        return [InputPartition(wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = partition.value
        yield from (_of_topic if kind_of(wanted.url) == TOPIC else _of_batches)(wanted)


def _of_batches(wanted: LogRange) -> Iterator[pa.RecordBatch]:
    with closing(open_ranged(wanted.url, wanted.identity, {})) as log:
        if wanted.position_hint is not None:
            log.use_position_hint(wanted.position_hint)
        position = wanted.start
        while position < wanted.end:
            batches = [batch for batch in log.read_raw(position) if batch.base_offset < wanted.end]
            spans, _ = find_records(batches)
            assert spans is not None  # the benchmark's logs hold plain batches
            (values,) = pieces(spans.data, (spans.value_starts, spans.value_ends))
            columns = [_numbers(spans.offsets()), _numbers(spans.record_timestamps_ms()), values]
            yield pa.RecordBatch.from_arrays(columns, schema=_ROWS_ARROW)
            position = batches[-1].end_offset


def _of_topic(wanted: LogRange) -> Iterator[pa.RecordBatch]:
    where = parse_topic_url(wanted.url)
    settings = {
        "bootstrap.servers": where.bootstrap_servers,
        "group.id": _NAME,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
    }
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(where.topic, 0, wanted.start)])
        position = wanted.start
        while position < wanted.end:
            messages = []
            for message in consumer.consume(10_000, 0) or consumer.consume(1, 1.0):
                error, offset = message.error(), message.offset() or 0
                if error is not None and error.name() != "_PARTITION_EOF":
                    raise RuntimeError(error)
                position = max(position, offset + (error is None))
                if error is None and offset < wanted.end:
                    messages.append(message)
            columns = [
                pa.array([message.offset() for message in messages], pa.int64()),
                pa.array([message.timestamp()[1] for message in messages], pa.int64()),
                pa.array([message.value() for message in messages], pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_ROWS_ARROW)


def _numbers(values: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])
