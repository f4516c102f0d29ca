"""A picture of the counts over time: ACLs in force by resource type and by permission, for each cluster."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from snapshot.errors import SparkJobError
from snapshot.jobs.count_tables import by_window, read_count_deltas, running_counts

if TYPE_CHECKING:
    from datetime import timedelta

    import numpy.typing as npt
    from matplotlib.axes import Axes
    from pyspark.sql import DataFrame, SparkSession

    from snapshot.jobs.count_tables import TableFormat

#: Of a picture that can still be read. A fleet's largest clusters are drawn.
CLUSTERS_MAX: Final = 12

_FORMATS: Final = ("png", "svg", "pdf")
_LABELS: Final = {"resource_type": "resource type", "permission_type": "permission"}
_WIDTH_INCHES: Final = 14.0
_HEIGHT_INCHES: Final = 3.6  # of one cluster
_DOTS_PER_INCH: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CountLines:
    """Counts of one cluster over time, by one label.

    Attributes:
        times: when a count changed, ascending, UTC; they hold until the next.
        counts: by label, as many as times.
    """

    times: npt.NDArray[np.datetime64]
    counts: dict[str, npt.NDArray[np.int64]]

    @property
    def last(self) -> int:
        """ACLs at the end."""
        return sum(int(counts[-1]) for counts in self.counts.values())


def require_plotting(path: str | Path) -> None:
    """See that there is something to draw with, before a long job finds out at its end.

    Raises:
        SparkJobError: matplotlib is not installed, or the file's name is not one of a picture.
    """
    if find_spec("matplotlib") is None:
        raise SparkJobError("--plot needs matplotlib, which is not installed: pip install 'aclog[spark]'")
    if _format_of(path) not in _FORMATS:
        raise SparkJobError(f"--plot {path}: the file's name must end in .{', .'.join(_FORMATS)}")


def _format_of(path: str | Path) -> str:
    return Path(path).suffix.lower().removeprefix(".")


def plot_counts(
    spark: SparkSession,
    output: str,
    path: str | Path,
    *,
    window: timedelta,
    table_format: TableFormat = "parquet",
) -> None:
    """Draw what the tables below ``output`` hold, by this run or by earlier ones.

    Args:
        spark: reads the tables.
        output: of the counts job.
        path: of the picture, a local file; its name says the format, as require_plotting.
        window: as by_window.
        table_format: of the tables.

    Raises:
        SparkJobError: there is nothing to draw, or nothing to draw with.
        OSError: the picture cannot be written.
    """
    require_plotting(path)
    deltas = read_count_deltas(spark, output, table_format).cache()
    try:
        lines = {label: count_lines(running_counts(by_window(deltas, window, [label]))) for label in _LABELS}
    finally:
        deltas.unpersist()
    if not lines["resource_type"]:
        raise SparkJobError(f"there is nothing to plot: {output} has no counts yet")
    Path(path).write_bytes(draw(lines, _format_of(path)))


def count_lines(running: DataFrame) -> dict[str, CountLines]:
    """By cluster id: what running_counts gives of windows that one label tells apart."""
    (label,) = (name for name in running.columns if name in _LABELS)
    rows = running.select(
        "cluster_id",
        running.window_start.cast("long").alias("start_s"),
        running.window_end.cast("long").alias("end_s"),
        label,
        "count",
    ).toArrow()
    of_cluster: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.to_pylist():
        of_cluster[row["cluster_id"]].append(row)
    return {cluster_id: _lines(found, label) for cluster_id, found in sorted(of_cluster.items())}


def _lines(rows: list[dict[str, Any]], label: str) -> CountLines:
    ends = sorted({row["end_s"] for row in rows})
    # Nothing before the first window; and the last count is to be seen too.
    first, length = min(row["start_s"] for row in rows), rows[0]["end_s"] - rows[0]["start_s"]
    times = [first, *ends, ends[-1] + length]
    places = {end: place for place, end in enumerate(ends, 1)}
    counts = {}
    for name in sorted({row[label] for row in rows}):
        line = np.zeros(len(times), np.int64)
        of_label = sorted((places[row["end_s"]], row["count"]) for row in rows if row[label] == name)
        for place, count in of_label:
            line[place:] = count
        counts[name] = line
    return CountLines(times=np.array(times, "datetime64[s]"), counts=counts)


def draw(lines: dict[str, dict[str, CountLines]], picture_format: str) -> bytes:
    """A picture: a row for each cluster, the largest first, and a column for each label."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - only where it is asked for
    from matplotlib.figure import Figure  # noqa: PLC0415

    first = lines[next(iter(lines))]
    clusters = sorted(first, key=lambda cluster_id: (-first[cluster_id].last, cluster_id))
    drawn = clusters[:CLUSTERS_MAX]
    figure = Figure(
        figsize=(_WIDTH_INCHES, _HEIGHT_INCHES * len(drawn)), dpi=_DOTS_PER_INCH, layout="constrained"
    )
    FigureCanvasAgg(figure)
    if len(drawn) < len(clusters):
        figure.suptitle(f"the {len(drawn)} largest of {len(clusters)} clusters")
    all_axes = figure.subplots(len(drawn), len(lines), squeeze=False)
    for row, cluster_id in enumerate(drawn):
        for column, (label, of_cluster) in enumerate(lines.items()):
            axes = all_axes[row, column]
            _draw_stack(axes, of_cluster[cluster_id])
            # An id is any text, and `$` would begin a formula.
            axes.set_title(f"{cluster_id}: ACLs by {_LABELS[label]}", parse_math=False)
    picture = BytesIO()
    figure.savefig(picture, format=picture_format)
    return picture.getvalue()


def _draw_stack(axes: Axes, lines: CountLines) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter  # noqa: PLC0415

    # Late records may make a count negative for a while; an area cannot be.
    heights = [np.maximum(counts, 0) for counts in lines.counts.values()]
    axes.stackplot(lines.times, heights, labels=list(lines.counts), step="post")
    axes.margins(x=0)
    axes.set_ylim(bottom=0)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator, tz=UTC))  # type: ignore[no-untyped-call]
    axes.set_xlabel("time of the records (UTC)")
    axes.set_ylabel("ACLs in force (count)")
    axes.legend(loc="upper left", fontsize="small")
