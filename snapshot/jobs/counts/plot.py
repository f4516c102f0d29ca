"""Plot of counts over time: for each cluster DENY and wide grants, and all ACLs by resource type.

DENY and wide grants have separate strips with their own scales: three among 60,000 would not be visible. The
colours are those of Okabe and Ito, which are safe for colour-blind readers. The legend has the order of the
areas.

A line is a step function: a count holds from its time until the next one. Times are the minutes in which ACLs
changed, not the ends of windows: no change is shown later than it happened, or after the log's last record.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, timedelta
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from records.acl import AclOperation, AclPermissionType, ResourceType
from records.install_command import install_command
from snapshot.errors import PlotUnsupportedError, SparkJobError
from snapshot.jobs.counts.count_rows import AclKind
from snapshot.jobs.counts.count_tables import by_window, read_count_deltas, read_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from pyspark.sql import DataFrame, SparkSession

    from snapshot.jobs.counts.count_tables import TableFormat


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


# --- drawing -----------------------------------------------------------------------------------------------

#: The largest clusters are drawn; more would not be legible.
CLUSTERS_MAX: Final = 12

_FORMATS: Final = ("png", "svg", "pdf")
_WIDTH_INCHES: Final = 14.0
_HEIGHT_INCHES: Final = 4.2  # of one cluster
_DOTS_PER_INCH: Final = 100
_PALETTE: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
#: Of the strips, in the order of WATCHED: the warmest for DENY.
_WATCHED_PALETTE: Final = ("#D55E00", "#0072B2", "#CC79A7")
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


def require_plotting(path: str | Path) -> None:
    """Check that the plot can be drawn, before a long job fails at its end.

    Raises:
        PlotUnsupportedError: matplotlib is not installed, or the file's extension is not supported.
    """
    if find_spec("matplotlib") is None:
        raise PlotUnsupportedError(
            f"--plot needs matplotlib, which is not installed: {install_command('spark')}"
        )
    if _format_of(path) not in _FORMATS:
        raise PlotUnsupportedError(f"--plot {path}: the file's name must end in .{', .'.join(_FORMATS)}")


def _format_of(path: str | Path) -> str:
    return Path(path).suffix.lower().removeprefix(".")


def plot_counts(
    spark: SparkSession,
    output: str,
    path: str | Path,
    *,
    window: timedelta | None = None,
    table_format: TableFormat = "parquet",
    names: Mapping[str, str] = _NO_NAMES,
) -> None:
    """Plot the tables below ``output``, including earlier runs.

    Raises:
        PlotUnsupportedError: see require_plotting.
        SparkJobError: there are no counts.
        OSError: the plot cannot be written.
    """
    require_plotting(path)
    deltas = read_count_deltas(spark, output, table_format).cache()
    try:
        lines = read_lines(read_counts(spark, output, table_format), deltas, window)
    finally:
        deltas.unpersist()
    if not lines:
        raise SparkJobError(f"cannot plot: {output} has no counts yet. Run aclog spark counts first")
    Path(path).write_bytes(draw(lines, _format_of(path), names))


def draw(
    lines: Mapping[str, ClusterLines], picture_format: str, names: Mapping[str, str] = _NO_NAMES
) -> bytes:
    """A plot with a row for each cluster, the largest first."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - optional
    from matplotlib.figure import Figure  # noqa: PLC0415

    clusters = sorted(lines, key=lambda cluster_id: (-lines[cluster_id].last, cluster_id))
    drawn = clusters[:CLUSTERS_MAX]
    figure = Figure(
        figsize=(_WIDTH_INCHES, _HEIGHT_INCHES * len(drawn)), dpi=_DOTS_PER_INCH, layout="constrained"
    )
    FigureCanvasAgg(figure)
    if len(drawn) < len(clusters):
        figure.suptitle(f"the {len(drawn)} largest of {len(clusters)} clusters")
    rows: Any = figure.subfigures(len(drawn), 1, squeeze=False)
    for [row], cluster_id in zip(rows, drawn, strict=True):
        name = names.get(cluster_id)
        title = f"cluster {cluster_id}" if name is None else f"{name} (cluster {cluster_id})"
        # An id is any text, and `$` would start a formula.
        row.suptitle(title, fontweight="bold", parse_math=False)
        _draw_cluster(row, lines[cluster_id])
    picture = BytesIO()
    figure.savefig(picture, format=picture_format)
    return picture.getvalue()


def _draw_cluster(figure: Figure | SubFigure, lines: ClusterLines) -> None:
    grid = figure.add_gridspec(len(lines.watched), 2)
    stack = figure.add_subplot(grid[:, 1])
    _draw_stack(stack, lines.by_resource_type)
    for row, (label, line) in enumerate(lines.watched.items()):
        strip = figure.add_subplot(grid[row, 0], sharex=stack)
        _draw_strip(strip, label, line, _WATCHED_PALETTE[row])
        strip.tick_params(labelbottom=row == len(lines.watched) - 1)
    figure.supxlabel("time of the records (UTC)", fontsize="medium")


def _draw_stack(axes: Axes, lines: Mapping[str, CountLine]) -> None:
    from matplotlib.patches import Patch  # noqa: PLC0415

    times = next(iter(lines.values())).times
    colours = [_PALETTE[index % len(_PALETTE)] for index in range(len(lines))]
    # Late records may make a count temporarily negative, which an area cannot show.
    heights = [np.maximum(line.counts, 0) for line in lines.values()]
    axes.stackplot(times, heights, colors=colours, step="post", edgecolor="white", linewidth=0.4)
    axes.set_title("ACLs in force, by resource type")
    _count_axis(axes, sum(heights), ticks=8)
    patches = [
        Patch(color=colour, label=f"{name}  {line.last:,}")
        for colour, (name, line) in zip(colours, lines.items(), strict=True)
    ]
    # Next to the data, never over it; the topmost area first.
    axes.legend(
        handles=patches[::-1], loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small"
    )
    _over_time(axes, times)


def _draw_strip(axes: Axes, label: str, line: CountLine, colour: str) -> None:
    counts = np.maximum(line.counts, 0)
    axes.fill_between(line.times, counts, step="post", color=colour, alpha=0.3, linewidth=0)
    axes.step(line.times, counts, where="post", color=colour, linewidth=1.6)
    axes.set_title(f"{label}: {line.last:,}", loc="left", fontsize="medium")
    axes.grid(axis="y", alpha=0.3)
    _count_axis(axes, counts, ticks=3)
    _over_time(axes, line.times)


def _count_axis(axes: Axes, counts: Any, ticks: int) -> None:
    """Scale the y axis to ``counts``, with about so many ticks, all of them whole numbers."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter  # noqa: PLC0415

    axes.yaxis.set_major_locator(MaxNLocator(nbins=ticks, integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    # A line at 0 must not look like an empty strip.
    axes.set_ylim(0, max(1.0, 1.15 * float(counts.max())))


def _over_time(axes: Axes, times: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    # From just before the first change, so that its step is visible, to the last record.
    axes.set_xlim(times[0] - (times[-1] - times[0]) / 50, times[-1])
    axes.spines[["top", "right"]].set_visible(False)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
