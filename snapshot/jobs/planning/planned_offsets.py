"""The offsets of a micro-batch in each log, from Spark's offset log in the checkpoint.

Spark writes ``<checkpoint>/offsets/<batch>`` before the batch runs: a version, metadata, and for each source
in the plan's order a line with the batch's end offset. A batch begins where the previous one ended.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1795222871590,"conf":{...}}
    {"acls-a":{"0":1200},"acls-b":{"0":77}}
    {"clusterId":"...","topicId":"...","offset":266,"epoch":1}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapshot.errors import SparkJobError
from snapshot.jobs.sources.logs import sources_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from snapshot.jobs.sources.logs import FollowedLog

_VERSION: Final = "v1"
# Spark writes this for a source that has no offset yet.
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class PlannedEnds:
    """The ends of one batch.

    Attributes:
        timestamp_ms: when the batch was planned, since the epoch.
        ends: end offset by cluster id, of the logs in the batch.
    """

    timestamp_ms: int
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """The offset ranges of one batch.

    Attributes:
        timestamp_ms: when it was planned, since the epoch.
        ranges: [start, end) by cluster id; only ranges that are not empty.
    """

    timestamp_ms: int
    ranges: Mapping[str, tuple[int, int]]


class OffsetLog:
    """Spark's offset log in a checkpoint, read through Hadoop, which supports the same URLs as Spark."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no public API for Hadoop's files
        self._io = jvm.org.apache.commons.io.IOUtils
        self._path = jvm.org.apache.hadoop.fs.Path
        self._offsets = f"{checkpoint.rstrip('/')}/offsets"
        root = self._path(self._offsets)
        self._files = root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001

    def planned(
        self, batch_id: int, logs: Sequence[FollowedLog], starts: Mapping[str, int]
    ) -> PlannedOffsets:
        """The offset ranges of a batch.

        Args:
            batch_id: Spark's number of it.
            logs: of the job.
            starts: first offsets by cluster id, for logs that no earlier batch had.

        Raises:
            SparkJobError: the offset log does not match these logs.
        """
        planned = parse_ends(self._read(batch_id), logs)
        before = parse_ends(self._read(batch_id - 1), logs).ends if batch_id else {}
        ranges = {
            cluster_id: (before.get(cluster_id, starts[cluster_id]), end)
            for cluster_id, end in planned.ends.items()
        }
        return PlannedOffsets(
            planned.timestamp_ms, {log: (start, end) for log, (start, end) in ranges.items() if start < end}
        )

    def _read(self, batch_id: int) -> str:
        stream = self._files.open(self._path(f"{self._offsets}/{batch_id}"))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()


def parse_ends(text: str, logs: Sequence[FollowedLog]) -> PlannedEnds:
    """Parse one file of the offset log.

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
