"""Which offsets of each log a micro-batch has: from Spark's own offset log in the checkpoint.

Spark writes ``<checkpoint>/offsets/<batch>`` before the batch runs: a version, metadata, and a line for each
source in the plan's order, which says where the batch ends. It begins where the one before ended.

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
# What Spark writes for a source that had nothing to say yet.
_NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class PlannedEnds:
    """Where one batch ends.

    Attributes:
        timestamp_ms: when the batch was planned, since the epoch.
        ends: end offset by cluster id, of the logs that the batch knows.
    """

    timestamp_ms: int
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """One batch.

    Attributes:
        timestamp_ms: when it was planned, since the epoch.
        ranges: [start, end) by cluster id, of each log that it has offsets of.
    """

    timestamp_ms: int
    ranges: Mapping[str, tuple[int, int]]


class OffsetLog:
    """Spark's offset log in a checkpoint, read through Hadoop, which knows whatever URL Spark knows."""

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - pyspark has no other way to Hadoop's files
        self._io = jvm.org.apache.commons.io.IOUtils
        self._path = jvm.org.apache.hadoop.fs.Path
        self._offsets = f"{checkpoint.rstrip('/')}/offsets"
        root = self._path(self._offsets)
        self._files = root.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())  # noqa: SLF001

    def planned(
        self, batch_id: int, logs: Sequence[FollowedLog], starts: Mapping[str, int]
    ) -> PlannedOffsets:
        """What a batch has.

        Args:
            batch_id: Spark's number of it.
            logs: of the job.
            starts: offsets by cluster id with which a log begins that no batch before this had.

        Raises:
            SparkJobError: the offset log is not one of these logs.
        """
        here = parse_ends(self._read(batch_id), logs)
        before = parse_ends(self._read(batch_id - 1), logs).ends if batch_id else {}
        ranges = {
            cluster_id: (before.get(cluster_id, starts[cluster_id]), end)
            for cluster_id, end in here.ends.items()
        }
        return PlannedOffsets(
            here.timestamp_ms, {log: place for log, place in ranges.items() if place[0] < place[1]}
        )

    def _read(self, batch_id: int) -> str:
        stream = self._files.open(self._path(f"{self._offsets}/{batch_id}"))
        try:
            return str(self._io.toString(stream, "UTF-8"))
        finally:
            stream.close()


def parse_ends(text: str, logs: Sequence[FollowedLog]) -> PlannedEnds:
    """One file of the offset log.

    Raises:
        SparkJobError: it is not one of a query on these logs.
    """
    version, _, rest = text.partition("\n")
    if version.strip() != _VERSION:
        raise SparkJobError(f"Spark's offset log has version `{version.strip()}`, and aclog knows {_VERSION}")
    metadata, *lines = rest.rstrip("\n").split("\n")
    sources = sources_of(logs)
    if len(lines) != len(sources):
        raise SparkJobError(
            f"Spark's checkpoint is of {len(lines)} sources, the job has {len(sources)}: start with another "
            "--checkpoint"
        )
    ends: dict[str, int] = {}
    for source, line in zip(sources, lines, strict=True):
        if line.strip() == _NOTHING:
            continue
        offsets = json.loads(line)
        strangers = sorted(offsets.keys() - {log.topic for log in source}) if source[0].topic else []
        if strangers:
            raise SparkJobError(
                f"topics that the job does not know appeared after its start: {', '.join(strangers)}. Start "
                "the job again to follow them"
            )
        for log in source:
            end = end_of(log, offsets)
            if end is not None:
                ends[log.identity.cluster_id] = end
    return PlannedEnds(int(json.loads(metadata)["batchTimestampMs"]), ends)


def end_of(log: FollowedLog, offsets: Mapping[str, Any]) -> int | None:
    """Where the batch ends in a log; None for a topic that the source did not know yet."""
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
