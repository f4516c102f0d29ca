"""The offsets of a micro-batch in each log, from the running query.

They are not read from ``<checkpoint>/offsets/<batch>``, because another job may replace that file. The query
gives them in the file's format: a version, metadata, and a line with the batch's end in each log
(range_source.py). A batch begins where the previous one ended.

    v1
    {"batchWatermarkMs":0,"batchTimestampMs":1795222871590,"conf":{...}}
    {"CLUSTER_ID":{"topicId":"...","offset":266,"epoch":1}}
"""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from snapshot.errors import SparkJobError
from snapshot.jobs.sources.log_ranges import OffsetAndEpoch

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
    ends: Mapping[str, OffsetAndEpoch]


class PlannedRange(NamedTuple):
    """The range of one log; ``end_epoch`` as OffsetAndEpoch."""

    start: int
    end: int
    end_epoch: int | None


@dataclass(frozen=True, slots=True)
class PlannedOffsets:
    """The offset ranges of one batch.

    ``ranges``: by cluster id; only ranges that are not empty.
    """

    timestamp_ms: int
    ranges: Mapping[str, PlannedRange]


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
            return parse_ends(stream.toString("UTF-8"))

        planned, before = ends(batch.endOffsets()), ends(batch.startOffsets()).ends
        ranges = {}
        for cluster_id in (log.identity.cluster_id for log in logs):
            begin, end = before.get(cluster_id), planned.ends.get(cluster_id)
            start = starts[cluster_id] if begin is None else begin.offset
            if end is not None and start < end.offset:
                ranges[cluster_id] = PlannedRange(start, end.offset, end.epoch)
        return PlannedOffsets(planned.timestamp_ms, ranges)


def parse_ends(text: str) -> PlannedEnds:
    """Parse offsets in the format of one file of Spark's offset log.

    Raises:
        SparkJobError: it does not match a job's query.
    """
    version, _, rest = text.partition("\n")
    if version.strip() != _VERSION:
        raise SparkJobError(
            f"Spark's offset log has version `{version.strip()}`, and aclog reads {_VERSION}: use the "
            "pyspark version that aclog requires, or another --checkpoint"
        )
    metadata, *lines = rest.rstrip("\n").split("\n")
    if len(lines) != 1:
        raise SparkJobError(
            f"Spark's checkpoint has {len(lines)} sources, the job has 1: start with another --checkpoint"
        )
    ends = {} if lines[0].strip() == _NOTHING else ends_of(lines[0])
    return PlannedEnds(int(json.loads(metadata)["batchTimestampMs"]), ends)


def ends_of(text: str) -> dict[str, OffsetAndEpoch]:
    """Ends by cluster id in the offsets of the source, which may be null before its first batch."""
    return {
        cluster_id: OffsetAndEpoch(int(entry["offset"]), entry["epoch"])
        for cluster_id, entry in (json.loads(text) or {}).items()
    }
