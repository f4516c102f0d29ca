"""A directory log as rows, for Spark to hand on: what the jobs' source is beside.

The jobs read a directory log in the task that folds it. A job that has only Spark's means would get its
records as rows of a data source; this is that source, planned as the jobs' own, and read by column.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from records.columns.record_spans import find_records
from records.columns.values import pieces
from records.ids import uuid_from_string
from records.log.base import LogIdentity
from snapshot.jobs.sources.log_ranges import open_ranged
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.jobs.sources.range_source import RangeSource, RangeStreamReader, options_of
from snapshot.jobs.sources.schema import SOURCE_ARROW

_NAME = "aclog-directory-rows"


def read_rows_stream(spark: SparkSession, log: FollowedLog, *, max_offsets: int) -> DataFrame:
    """SOURCE rows of a log of plain batches, followed; each record is a row."""
    spark.dataSource.register(DirectoryRowsSource)
    stream = spark.readStream.format(_NAME).options(**options_of(log))
    return stream.option("maxOffsetsPerTrigger", max_offsets).load()


class DirectoryRowsSource(RangeSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return _NAME

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        return _RowsReader(self.options)


class _RowsReader(RangeStreamReader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted = partition.value
        with closing(
            open_ranged(wanted.url, LogIdentity(wanted.cluster_id, uuid_from_string(wanted.topic_id)), {})
        ) as log:
            if wanted.position_hint is not None:
                log.use_position_hint(wanted.position_hint)
            position = wanted.start
            while position < wanted.end:
                batches = [batch for batch in log.read_raw(position) if batch.base_offset < wanted.end]
                spans, _ = find_records(batches)
                assert spans is not None  # the benchmark's logs hold plain batches
                (values,) = pieces(spans.data, (spans.value_starts, spans.value_ends))
                columns = {
                    "cluster_id": pa.repeat(pa.scalar(wanted.cluster_id), len(values)),
                    "topic_id": pa.repeat(pa.scalar(wanted.topic_id), len(values)),
                    "partition": pa.repeat(pa.scalar(0, pa.int32()), len(values)),
                    "offset": _numbers(pa.int64(), spans.offsets()),
                    "timestamp": _numbers(
                        SOURCE_ARROW.field("timestamp").type, spans.record_timestamps_ms() * 1000
                    ),
                    "key": pa.nulls(len(values), pa.binary()),
                    "value": values,
                }
                yield pa.RecordBatch.from_arrays(list(columns.values()), schema=SOURCE_ARROW)
                position = batches[-1].end_offset


def _numbers(kind: pa.DataType, values: np.ndarray) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])
