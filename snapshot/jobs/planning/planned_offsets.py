"""The offsets of a micro-batch in each log, from the running query.

They are not read from ``<checkpoint>/offsets/<batch>``, because another job may replace that file. The query
gives them in the file's format: a version, metadata, and for each source in the plan's order a line with the
batch's end offset. A batch begins where the previous one ended.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1795222871590,"conf":{...}}
    {"acls-a":{"0":1200},"acls-b":{"0":77}}
    {"clusterId":"...","topicId":"...","offset":266,"epoch":1}
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapshot.errors import SparkJobError
from snapshot.jobs.sources.logs import sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from snapshot.jobs.sources.logs import FollowedLog

_VERSION: Final = "v1"
# Spark writes this for a source that has no offset yet.
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class PlannedEnds:
    """The ends of one batch."""

    timestamp_ms: int
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """The offset ranges of one batch.

    ``ranges``: [start, end) by cluster id; only ranges that are not empty.
    """

    timestamp_ms: int
    ranges: Mapping[str, tuple[int, int]]


class QueryOffsets:
    """The offsets of a query's current batch.

    ``query``: set when Spark has started it, which may be after the start of its first batch.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public API for offsets
        self.query: Future[StreamingQuery] = Future()

    def planned(
        self, batch_id: int, logs: Sequence[FollowedLog], starts: Mapping[str, int]
    ) -> PlannedOffsets:
        """The offset ranges of the current batch. Call it while the batch runs.

        Args:
            batch_id: Spark's number of it.
            logs: of the job.
            starts: first offsets by cluster id, for logs that no earlier batch had.

        Raises:
            SparkJobError: the query's offsets do not match these logs.
        """
        execution: Any = self.query.result()._jsq.streamingQuery()  # noqa: SLF001
        batch = execution.getLatestExecutionContext()
        if batch.batchId() != batch_id:
            raise SparkJobError(f"Spark runs batch {batch.batchId()} instead of {batch_id}")

        def ends(offsets: Any) -> PlannedEnds:
            stream = self._jvm.java.io.ByteArrayOutputStream()
            by_source = offsets.toOffsetSeq(execution.sources(), batch.offsetSeqMetadata())
            execution.offsetLog().serialize(by_source, stream)
            return parse_ends(stream.toString("UTF-8"), logs)

        planned, before = ends(batch.endOffsets()), ends(batch.startOffsets()).ends
        ranges = {
            cluster_id: (before.get(cluster_id, starts[cluster_id]), end)
            for cluster_id, end in planned.ends.items()
        }
        return PlannedOffsets(
            planned.timestamp_ms, {log: (start, end) for log, (start, end) in ranges.items() if start < end}
        )


def parse_ends(text: str, logs: Sequence[FollowedLog]) -> PlannedEnds:
    """Parse offsets in the format of one file of Spark's offset log.

    Raises:
        SparkJobError: it does not match a query on these logs.
    """
    version, _, rest = text.partition("\n")
    if version.strip() != _VERSION:
        raise SparkJobError(
            f"Spark's offset log has version `{version.strip()}`, and aclog reads {_VERSION}: use the "
            "pyspark version that aclog requires, or another --checkpoint"
        )
    metadata, *lines = rest.rstrip("\n").split("\n")
    sources = sources_of(logs)
    if len(lines) != len(sources):
        raise SparkJobError(
            f"Spark's checkpoint has {len(lines)} sources, the job has {len(sources)}: start with another "
            "--checkpoint"
        )
    ends: dict[str, int] = {}
    for source, line in zip(sources, lines, strict=True):
        if line.strip() == _NOTHING:
            continue
        offsets = json.loads(line)
        unknown = sorted(offsets.keys() - {log.topic for log in source}) if source[0].topic else []
        if unknown:
            raise SparkJobError(
                f"topics were created after the job's start: {', '.join(unknown)}. Start the job again to "
                "follow them"
            )
        for log in source:
            end = end_of(log, offsets)
            if end is not None:
                ends[log.identity.cluster_id] = end
    return PlannedEnds(int(json.loads(metadata)["batchTimestampMs"]), ends)


def end_of(log: FollowedLog, offsets: Mapping[str, Any]) -> int | None:
    """The batch's end offset in a log; None for a topic that the source did not have yet."""
    topic = log.topic
    if topic is not None:
        partitions = offsets.get(topic)
        return None if partitions is None else int(partitions["0"])
    if offsets["clusterId"] != log.identity.cluster_id:
        raise SparkJobError(
            f"Spark's checkpoint has cluster {offsets['clusterId']} where the job has "
            f"{log.identity.cluster_id} ({log.url}): start with another --checkpoint"
        )
    return int(offsets["offset"])
