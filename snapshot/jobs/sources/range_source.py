"""Spark data source `aclog-log`: ranges of a directory log, or of a cluster's metadata log in its quorum.

    spark.readStream.format("aclog-log").option("path", "/var/lib/kafka/__cluster_metadata-0")
    spark.readStream.format("aclog-log").option("path", "kraft://localhost:9093")

Options: ``path``, a directory, file:DIR or kraft://HOST:PORT; ``clusterId`` and ``topicId``, the expected
identity (both or none); ``startingOffset`` (0 if absent); ``maxOffsetsPerTrigger``; ``kafka.*``, client
settings of the quorum, by the names of `aclog.kafka.*`. Each batch is one SOURCE row, a LogRange
(log_range.py), which the task that folds the log reads.

The offsets that Spark stores are ``{"clusterId", "topicId", "offset", "epoch"}``: a planned range is read
again unchanged, or the query fails. ``epoch`` is that of the batch which ends there; null at the start.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from records.ids import uuid_from_string, uuid_to_string
from records.log.base import LogIdentity
from records.log.directory.log import directory_of
from records.log.open import DIRECTORY, kind_of
from snapshot.errors import CheckpointForeignError
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.log_range import LogRange
from snapshot.jobs.sources.log_ranges import LogRanges, OffsetAndEpoch, describe
from snapshot.jobs.sources.schema import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from snapshot.jobs.sources.logs import FollowedLog

FORMAT: Final = "aclog-log"
_CLIENT: Final = "kafka."
_ISOLATES: Final = "isolatesLogs"


def read_ranges_stream(
    spark: SparkSession,
    log: FollowedLog,
    *,
    max_offsets: int | None,
    starting_offset: int,
    isolates_logs: bool = False,
) -> DataFrame:
    """A stream of a directory's or a quorum's log from an offset on, for a checkpoint without offsets.

    ``isolates_logs``: an error of the log while a batch is planned is a LogsFailedError, which names it.
    """
    _register(spark)
    stream = (
        spark.readStream.format(FORMAT).options(**options_of(log)).option("startingOffset", starting_offset)
    )
    if isolates_logs:
        stream = stream.option(_ISOLATES, "true")
    if max_offsets is not None:
        stream = stream.option("maxOffsetsPerTrigger", max_offsets)
    return stream.load()


def _register(spark: SparkSession) -> None:
    """Register the source with this session.

    Spark checks names in the thread's active session. If that is another session with the source, registering
    it here fails (DATA_SOURCE_ALREADY_EXISTS, Spark 4.2), so this session is made the active one.
    """
    java_session: Any = SparkSession._get_j_spark_session_class(spark._jvm)  # noqa: SLF001 - no public way
    java_session.setActiveSession(spark._jsparkSession)  # noqa: SLF001
    spark.dataSource.register(RangeSource)


def options_of(log: FollowedLog) -> dict[str, str]:
    """The options that name a log."""
    return {
        "path": _path(log.url),
        "clusterId": log.identity.cluster_id,
        "topicId": uuid_to_string(log.identity.topic_id),
        # Spark redacts secrets among them by their names where it shows options.
        **{f"{_CLIENT}{name}": value for name, value in log.kafka.items()},
    }


class RangeSource(DataSource):
    """The data source."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return SOURCE

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - pyspark's name
        return RangeStreamReader(self.options)


class RangeStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream of a log. Plans on the driver, in a separate process."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._url = _path(options.get("path", ""))
        self._client = {
            name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)
        }
        self._identity = _identity(options)
        self._start = _offset(options, "startingOffset") or 0
        self._max_offsets = _offset(options, "maxOffsetsPerTrigger")
        if self._max_offsets == 0:
            raise ValueError("maxOffsetsPerTrigger must be at least 1")
        self._isolates_logs = options.get(_ISOLATES) == "true"
        # Opened by the planning process only: executors get a copy that was made before.
        self._ranges: LogRanges | None = None
        # With Trigger.AvailableNow, the log's end when the query started.
        self._final: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - pyspark's name, as those below
        return self._to_json(OffsetAndEpoch(self._start, None))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._max_offsets is None else ReadMaxRows(self._max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with self._failing_alone():
            self._final = self._opened().high_watermark()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        with self._failing_alone():
            begin = self._from_json(start)
            ranges = self._opened()
            below = ranges.high_watermark() if self._final is None else self._final
            max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            end = ranges.next_end(begin, below=below, max_offsets=max_offsets)
        return start if end == begin else self._to_json(end)

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        with self._failing_alone():
            end = self._opened().high_watermark()
        return self._to_json(OffsetAndEpoch(end, None))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        first, last = self._from_json(start), self._from_json(end)
        if first.offset == last.offset:
            return []
        with self._failing_alone():
            identity, hint = self._opened().identity, self._opened().position_hint(first.offset)
        topic_id = uuid_to_string(identity.topic_id)
        wanted = LogRange(
            self._url, identity.cluster_id, topic_id, first.offset, last.offset, last.epoch, hint
        )
        return [InputPartition(wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield partition.value.to_row()

    def stop(self) -> None:
        if self._ranges is not None:
            self._ranges.close()
            self._ranges = None

    @contextmanager
    def _failing_alone(self) -> Iterator[None]:
        """Name the log in its errors, if the job continues without a log that fails."""
        failures = LogFailures(is_collecting=self._isolates_logs and self._identity is not None)
        with failures.collect("" if self._identity is None else self._identity.cluster_id):
            yield
        failures.check()

    def _opened(self) -> LogRanges:
        if self._ranges is None:
            self._ranges = LogRanges(self._url, self._identity, self._client)
        return self._ranges

    def _to_json(self, position: OffsetAndEpoch) -> dict[str, Any]:
        identity = self._opened().identity
        return {
            "clusterId": identity.cluster_id,
            "topicId": uuid_to_string(identity.topic_id),
            "offset": position.offset,
            "epoch": position.epoch,
        }

    def _from_json(self, stored: Mapping[str, Any]) -> OffsetAndEpoch:
        identity = self._opened().identity
        expected = LogIdentity(stored["clusterId"], uuid_from_string(stored["topicId"]))
        if expected != identity:
            raise CheckpointForeignError(
                f"{self._url}: the checkpoint belongs to {describe(expected)}, but this is "
                f"{describe(identity)}. Follow the new log with another checkpoint"
            )
        return OffsetAndEpoch(stored["offset"], stored["epoch"])


def _path(url: str) -> str:
    """An absolute path for a directory, as executors may have another working directory; else the URL."""
    return str(directory_of(url)) if kind_of(url) == DIRECTORY else url


def _identity(options: Mapping[str, str]) -> LogIdentity | None:
    cluster_id, topic_id = options.get("clusterId"), options.get("topicId")
    if cluster_id is None and topic_id is None:
        return None
    if cluster_id is None or topic_id is None:
        raise ValueError("clusterId and topicId must be given together")
    return LogIdentity(cluster_id, uuid_from_string(topic_id))


def _offset(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{name} must be a whole number from 0 on, not `{text}`")
    return int(text)
