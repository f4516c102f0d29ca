"""The picture of the counts: its lines, and the decoded and measured pixels."""

from __future__ import annotations

import re
import sys
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from authorizer.cli.failure import ExitCode, failure_of
from snapshot.errors import PlotUnsupportedError
from snapshot.jobs.counts.plot import CLUSTERS_MAX, ClusterLines, cluster_lines, draw, require_plotting

DAY_S = 24 * 60 * 60
BEGIN_S = 1_700_000_040  # a whole minute
#: The first colour of the areas, and that below the line of DENY's strip.
BLUE, PALE = (0, 114, 178), (242, 207, 178)
WIDTH, HEIGHT = 1400, 420


def change(time_s: int, delta: int, **kind: str) -> dict[str, Any]:
    """By default of an ordinary ACL."""
    ordinary = {
        "resource_type": "TOPIC",
        "pattern_type": "LITERAL",
        "permission_type": "ALLOW",
        "operation": "READ",
    }
    return {"time_s": BEGIN_S + time_s, "delta": delta, **ordinary, **kind}


def steps(line: Any) -> list[tuple[int, int]]:
    """Seconds after BEGIN_S, and the count from then on."""
    return [
        (int(time) - BEGIN_S, int(count))
        for time, count in zip(line.times.astype("int64"), line.counts, strict=True)
    ]


def pixels(lines: dict[str, ClusterLines], **names: str) -> npt.NDArray[np.uint8]:
    """The PNG: rows of columns of red, green and blue."""
    with Image.open(BytesIO(draw(lines, "png", names))) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB"))


def count_of(picture: npt.NDArray[np.uint8], colour: tuple[int, int, int]) -> int:
    """Pixels of this colour, as far as it can be rounded."""
    return int((np.abs(picture.astype(int) - colour) <= 1).all(axis=2).sum())


def test_times_are_those_of_the_changes_and_end_with_the_log() -> None:
    """Not the ends of windows, and nothing after the last record."""
    rows = [change(0, 3), change(600, -1), change(600, 5, resource_type="GROUP")]
    lines = cluster_lines(rows, end_s=BEGIN_S + 7200)
    assert steps(lines.by_resource_type["TOPIC"]) == [(0, 3), (600, 2), (7200, 2)]
    assert steps(lines.by_resource_type["GROUP"]) == [(0, 0), (600, 5), (7200, 5)]
    assert lines.last == 7


def test_a_log_that_ends_with_its_last_change_is_shown_to_the_end_of_that_minute() -> None:
    """A change is known to the minute: the minute itself is the least that a picture can show."""
    assert steps(cluster_lines([change(0, 1)], end_s=BEGIN_S + 7).by_resource_type["TOPIC"]) == [
        (0, 1),
        (60, 1),
    ]


def test_broad_and_denying_acls_have_separate_lines() -> None:
    """DENY, ALLOW of ALL, and ALLOW on CLUSTER, each by itself; there with 0, too."""
    rows = [
        change(0, 60_000),
        change(0, 2, permission_type="DENY", operation="ALL"),
        change(60, 3, operation="ALL"),
        change(120, 1, resource_type="CLUSTER", operation="ALTER"),
        change(180, -1, permission_type="DENY", operation="ALL"),
    ]
    watched = cluster_lines(rows, end_s=0).watched
    assert {label: [count for _, count in steps(line)] for label, line in watched.items()} == {
        "DENY": [2, 2, 2, 1, 1],
        "ALLOW of operation ALL": [0, 3, 3, 3, 3],
        "ALLOW on CLUSTER": [0, 0, 1, 1, 1],
    }
    assert [line.last for line in cluster_lines([change(0, 1)], end_s=0).watched.values()] == [0, 0, 0]


def test_the_largest_area_comes_first() -> None:
    """The largest area lies at the bottom, whatever its name."""
    rows = [change(0, 1, resource_type="CLUSTER"), change(0, 9), change(0, 4, resource_type="GROUP")]
    assert list(cluster_lines(rows, end_s=0).by_resource_type) == ["TOPIC", "GROUP", "CLUSTER"]


def test_few_denies_among_many_acls_are_as_plain_as_many() -> None:
    """Three among 60,000 fill a strip of their own; without any, the strip is empty."""
    many = change(0, 60_000)
    with_deny = pixels({"c": cluster_lines([many, change(0, 3, permission_type="DENY")], BEGIN_S + DAY_S)})
    without = pixels({"c": cluster_lines([many], BEGIN_S + DAY_S)})
    assert count_of(with_deny, PALE) > 20_000
    assert count_of(without, PALE) == 0


def test_areas_have_the_height_of_the_counts_and_change_in_steps() -> None:
    """The first half of the time has half of the height, to its end."""
    lines = cluster_lines([change(0, 15), change(DAY_S, 15)], end_s=BEGIN_S + 2 * DAY_S)
    picture = pixels({"c": lines})[:, WIDTH // 2 :]
    heights = (picture == BLUE).all(axis=2).sum(axis=0)
    # The colour of the legend is no area.
    columns = np.flatnonzero(heights > HEIGHT // 5)
    first, last = int(columns[0]), int(columns[-1])
    middle = (first + last) // 2
    for column in (first + 5, middle - 5):
        assert heights[column] / heights[last - 5] == pytest.approx(0.5, rel=0.05)
    assert heights[middle + 5] == pytest.approx(heights[last - 5], rel=0.02)


def test_every_cluster_has_a_row() -> None:
    """The size of the picture follows."""
    lines = cluster_lines([change(0, 1)], end_s=0)
    assert pixels({"a": lines}).shape == (HEIGHT, WIDTH, 3)
    three = pixels({"a": lines, "b": lines, "c": lines})
    assert three.shape == (3 * HEIGHT, WIDTH, 3)
    for row in range(3):
        assert count_of(three[row * HEIGHT : (row + 1) * HEIGHT], BLUE) > 10_000


def test_a_fleet_is_drawn_by_its_largest_clusters() -> None:
    """No picture grows without bound."""
    fleet = {f"c{number}": cluster_lines([change(0, number)], 0) for number in range(CLUSTERS_MAX + 2)}
    assert pixels(fleet).shape == (CLUSTERS_MAX * HEIGHT, WIDTH, 3)


def test_a_cluster_is_called_by_its_name() -> None:
    """And by its id alone where there is none."""
    lines = {"WwOO": cluster_lines([change(0, 1)], 0)}
    assert b"<!-- kafka://b1:9092/acls (cluster WwOO) -->" in draw(
        lines, "svg", {"WwOO": "kafka://b1:9092/acls"}
    )
    assert b"<!-- cluster WwOO -->" in draw(lines, "svg")


def test_any_cluster_id_and_a_count_below_zero_can_be_drawn() -> None:
    """`$` is no formula, and a removal that is older than its ACL is no area."""
    picture = pixels({"$x_{": cluster_lines([change(0, -5), change(DAY_S, 8)], end_s=BEGIN_S + 2 * DAY_S)})
    assert count_of(picture, BLUE) > 10_000


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 60, 61_234])
def test_counts_have_whole_numbers_as_ticks(count: int) -> None:
    """A small range has fewer ticks, not the same rounded number twice; every axis of counts has its 0."""
    rows = [change(0, 1), change(60, -1), change(60, count, permission_type="DENY")]
    svg = draw({"c": cluster_lines(rows, end_s=BEGIN_S + DAY_S)}, "svg").decode()
    axes = re.split(r'id="matplotlib\.axis_\d+"', svg)[2::2]
    assert len(axes) == 4
    for axis in axes:
        ticks = [int(text.replace(",", "")) for text in re.findall(r"<!-- ([\d,]+) -->", axis)]
        assert ticks[0] == 0
        assert ticks == sorted(set(ticks))
        assert len(ticks) > 1


def test_without_matplotlib_the_message_has_the_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the job starts, and not at its end."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    with pytest.raises(PlotUnsupportedError, match=r"not installed: .* install .*spark"):
        require_plotting("out.png")


def test_the_files_name_says_the_format() -> None:
    """A name that says none that can be drawn is wrong usage, before the job starts."""
    require_plotting("out.PNG")
    for name in ("out", "out.parquet", ".png", "x.bmp"):
        with pytest.raises(PlotUnsupportedError, match=rf"--plot {name}: .*\.png, \.svg, \.pdf") as caught:
            require_plotting(name)
        failure = failure_of(caught.value)
        assert (failure.code, failure.hint) == (ExitCode.USAGE, "")
