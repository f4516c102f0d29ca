"""Plot of counts over time: for each cluster DENY and wide grants, and all ACLs by resource type.

DENY and wide grants have separate strips with their own scales: three among 60,000 would not be visible. The
colours are those of Okabe and Ito, which are safe for colour-blind readers. The legend has the order of the
areas.
"""

from __future__ import annotations

from datetime import UTC
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from records.install_command import install_command
from snapshot.errors import PlotUnsupportedError, SparkJobError
from snapshot.jobs.counts.count_lines import read_lines
from snapshot.jobs.counts.count_tables import read_count_deltas, read_counts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure
    from pyspark.sql import SparkSession

    from snapshot.jobs.counts.count_lines import ClusterLines, CountLine
    from snapshot.jobs.counts.count_tables import TableFormat

#: The largest clusters are drawn; more would not be legible.
CLUSTERS_MAX: Final = 12

_FORMATS: Final = ("png", "svg", "pdf")
_WIDTH_INCHES: Final = 14.0
_HEIGHT_INCHES: Final = 4.2  # of one cluster
_DOTS_PER_INCH: Final = 100
_PALETTE: Final = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
#: Of the strips, in the order of count_lines.WATCHED: the warmest for DENY.
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
