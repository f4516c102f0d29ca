"""Spark data source `aclog-log`: ranges of logs in directories, topics and quorums.

One source has all logs of a job. It plans the range of each log with new records; the task that folds a log
reads its records (log_range.py).

Options: ``logs``, the JSON of a list of SourceLog; ``maxOffsetsPerTrigger``, of all logs; ``kafka.*``, client
settings of the clusters that have the logs, by the names of `aclog.kafka.*`.

The offsets that Spark stores have an entry for each log: ``{CLUSTER_ID: {"topicId", "offset", "epoch"}}``. A
planned range is read again unchanged, or the query fails. ``epoch`` is that of the record batch which ends
there; null for topics and at the start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
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
from records.log.url import DIRECTORY, kind_of
from snapshot.errors import CheckpointForeignError
from snapshot.jobs.sources.log_ranges import OffsetAndEpoch, describe, readable_url
from snapshot.jobs.sources.range_planner import RangePlanner, SourceLog
from snapshot.jobs.sources.schema import SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from snapshot.jobs.sources.logs import FollowedLog

FORMAT: Final = "aclog-log"
_CLIENT: Final = "kafka."
_ISOLATES: Final = "isolatesLogs"


def read_ranges_stream(
    spark: SparkSession,
    logs: Sequence[FollowedLog],
    starts: Mapping[str, int],
    *,
    max_offsets: int | None,
    isolates_logs: bool = False,
) -> DataFrame:
    """A stream of logs; ``starts``: by cluster id, the first offset of a log that is not in the checkpoint.

    ``isolates_logs``: errors of single logs while a batch is planned are a PlanningFailedError.
    """
    _register(spark)
    stream = spark.readStream.format(FORMAT).options(**options_of(logs, starts))
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


def options_of(logs: Sequence[FollowedLog], starts: Mapping[str, int]) -> dict[str, str]:
    """The options that name the logs."""
    of_source = [
        SourceLog(
            readable_url(log.url),
            log.identity.cluster_id,
            uuid_to_string(log.identity.topic_id),
            starts[log.identity.cluster_id],
        )
        for log in logs
    ]
    clients = [log.kafka for log in logs if kind_of(log.url) != DIRECTORY]
    if any(client != clients[0] for client in clients):
        raise ValueError("the clusters of one job have the same client settings")
    # Spark redacts secrets among them by their names where it shows options.
    client = {f"{_CLIENT}{name}": value for each in clients[:1] for name, value in each.items()}
    return {"logs": msgspec.json.encode(of_source).decode(), **client}


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
    """Stream of the logs. Plans on the driver, in a separate process."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._logs = msgspec.json.decode(options["logs"], type=list[SourceLog])
        self._client = {
            name.removeprefix(_CLIENT): value for name, value in options.items() if name.startswith(_CLIENT)
        }
        self._max_offsets = _positive(options, "maxOffsetsPerTrigger")
        self._isolates_logs = options.get(_ISOLATES) == "true"
        # Opened by the planning process only: executors get a copy that was made before.
        self._opened: RangePlanner | None = None
        # With Trigger.AvailableNow, the logs' ends when the query started.
        self._final: Mapping[str, int] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - pyspark's name, as those below
        return {log.cluster_id: _to_json(log, OffsetAndEpoch(log.start, None)) for log in self._logs}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable() if self._max_offsets is None else ReadMaxRows(self._max_offsets)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._final = self._planner().high_watermarks()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        max_offsets = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = self._planner().next_ends(self._from_json(start), below=self._final, max_offsets=max_offsets)
        # Logs without new records have the same entry: Spark compares the text.
        return start | {
            log.cluster_id: _to_json(log, ends[log.cluster_id])
            for log in self._logs
            if log.cluster_id in ends
        }

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        ends = self._planner().high_watermarks()
        return {
            log.cluster_id: _to_json(log, OffsetAndEpoch(ends[log.cluster_id], None)) for log in self._logs
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        begins, ends = self._from_json(start), self._from_json(end)
        ranges = {name: (begins[name].offset, ends[name].offset) for name in begins}
        return [
            InputPartition([(name, first, last) for name, (first, last) in ranges.items() if first < last])
        ]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, int, int]]:
        yield from partition.value

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _planner(self) -> RangePlanner:
        if self._opened is None:
            self._opened = RangePlanner(self._logs, self._client, isolates_logs=self._isolates_logs)
        return self._opened

    def _from_json(self, stored: Mapping[str, Any]) -> dict[str, OffsetAndEpoch]:
        """The position in each log; the first offset of one that is not stored."""
        found = {}
        for log in self._logs:
            entry = stored.get(log.cluster_id)
            if entry is None:
                found[log.cluster_id] = OffsetAndEpoch(log.start, None)
                continue
            expected = LogIdentity(log.cluster_id, uuid_from_string(entry["topicId"]))
            if expected != log.identity:
                raise CheckpointForeignError(
                    f"{log.url}: the checkpoint belongs to {describe(expected)}, but this is "
                    f"{describe(log.identity)}. Follow the new log with another checkpoint"
                )
            found[log.cluster_id] = OffsetAndEpoch(entry["offset"], entry["epoch"])
        return found


def _to_json(log: SourceLog, position: OffsetAndEpoch) -> dict[str, Any]:
    return {"topicId": log.topic_id, "offset": position.offset, "epoch": position.epoch}


def _positive(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"{name} must be a whole number from 1 on, not `{text}`")
    return int(text)
