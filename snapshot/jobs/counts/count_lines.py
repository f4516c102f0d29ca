"""Counts of ACLs as lines over time, the data of a plot.

A line is a step function: a count holds from its time until the next one. Times are the minutes in which ACLs
changed, not the ends of windows: no change is shown later than it happened, or after the log's last record.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from records.acl import AclOperation, AclPermissionType, ResourceType
from snapshot.jobs.counts.count_rows import AclKind
from snapshot.jobs.counts.count_tables import by_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt
    from pyspark.sql import DataFrame

#: The most relevant ACLs for a review, each as a separate line: a few among many would not be visible.
WATCHED: Final[Mapping[str, Callable[[AclKind], bool]]] = {
    "DENY": lambda kind: kind.permission_type == AclPermissionType.DENY.name,
    "ALLOW of operation ALL": lambda kind: (
        kind.permission_type == AclPermissionType.ALLOW.name and kind.operation == AclOperation.ALL.name
    ),
    "ALLOW on CLUSTER": lambda kind: (
        kind.permission_type == AclPermissionType.ALLOW.name
        and kind.resource_type == ResourceType.CLUSTER.name
    ),
}

_MINUTE_S: Final = 60
#: More points than pixel columns are not visible.
_POINTS_MAX: Final = 2_000
#: The windows for automatic choice.
_WINDOWS: Final = tuple(
    timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 6 * 60, 24 * 60, 7 * 24 * 60, 28 * 24 * 60)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLine:
    """One count over time.

    Attributes:
        times: UTC, ascending. The last one is the end of the line, with the same count as before.
        counts: one for each time; temporarily below 0 if a removal is older than the ACL that it removes.
    """

    times: npt.NDArray[np.datetime64]
    counts: npt.NDArray[np.int64]

    @property
    def last(self) -> int:
        """ACLs at the end."""
        return int(self.counts[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLines:
    """The counts of one cluster over time.

    Attributes:
        by_resource_type: by Kafka's name, sorted by the final count, largest first. All lines have equal
        times.
        watched: by the labels of WATCHED.
    """

    by_resource_type: Mapping[str, CountLine]
    watched: Mapping[str, CountLine]

    @property
    def last(self) -> int:
        """ACLs at the end."""
        return sum(line.last for line in self.by_resource_type.values())


def read_lines(
    counts: DataFrame, deltas: DataFrame, window: timedelta | None = None
) -> dict[str, ClusterLines]:
    """Read the lines of each cluster, by cluster id.

    Args:
        counts: from read_counts; has the time up to which a log is known.
        deltas: from read_count_deltas.
        window: the shortest time between two points, in minutes without a rest; None: the shortest with which
            a line has at most some 2,000 points.

    Raises:
        SparkJobError: see by_window.
    """
    ends = {
        row.cluster_id: row.end_s
        for row in counts.groupBy("cluster_id").agg(F.max(_seconds("time")).alias("end_s")).collect()
    }
    if window is None:
        window = _window_of(deltas)
    rows = by_window(deltas, window).withColumn("time_s", _seconds("last_minute")).drop("last_minute")
    of_cluster: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.select("cluster_id", "time_s", *AclKind._fields, "delta").toArrow().to_pylist():
        of_cluster[row["cluster_id"]].append(row)
    return {
        cluster_id: cluster_lines(found, ends.get(cluster_id, 0))
        for cluster_id, found in sorted(of_cluster.items())
    }


def cluster_lines(rows: Iterable[Mapping[str, Any]], end_s: int) -> ClusterLines:
    """The lines of one cluster.

    Args:
        rows: ``time_s``, the columns of AclKind and ``delta``; in any order, at least one.
        end_s: the time of the log's last record, seconds since the epoch.
    """
    changes = [
        (row["time_s"], AclKind(*(row[name] for name in AclKind._fields)), row["delta"]) for row in rows
    ]
    # The last line ends after the minute of its last change, or at the log's last record.
    last_s = max([end_s, *(time_s + _MINUTE_S for time_s, _, _ in changes)])
    times_s = sorted({last_s, *(time_s for time_s, _, _ in changes)})

    def line(is_counted: Callable[[AclKind], bool]) -> CountLine:
        deltas = np.zeros(len(times_s), np.int64)
        for time_s, kind, delta in changes:
            if is_counted(kind):
                deltas[positions[time_s]] += delta
        return CountLine(times=np.array(times_s, "datetime64[s]"), counts=np.cumsum(deltas))

    positions = {time_s: position for position, time_s in enumerate(times_s)}
    types = sorted({kind.resource_type for _, kind, _ in changes})
    by_type = {name: line(lambda kind, name=name: kind.resource_type == name) for name in types}  # type: ignore[misc]
    return ClusterLines(
        by_resource_type=dict(sorted(by_type.items(), key=lambda item: -item[1].last)),
        watched={label: line(is_counted) for label, is_counted in WATCHED.items()},
    )


def _window_of(deltas: DataFrame) -> timedelta:
    spans = deltas.groupBy("cluster_id").agg(
        (F.max(_seconds("minute")) - F.min(_seconds("minute"))).alias("span_s")
    )
    longest = timedelta(seconds=max((row.span_s for row in spans.collect()), default=0))
    return next((window for window in _WINDOWS if longest <= window * _POINTS_MAX), _WINDOWS[-1])


def _seconds(column: str) -> Any:
    return F.col(column).cast("long")
