"""The picture of the counts, decoded and measured."""

from __future__ import annotations

import sys
from io import BytesIO

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from snapshot.errors import SparkJobError
from snapshot.jobs.plot import CLUSTERS_MAX, CountLines, draw, require_plotting

# The first two colours of matplotlib's cycle.
BLUE, ORANGE = (31, 119, 180), (255, 127, 14)
DAY_S = 24 * 60 * 60


def lines(**counts: list[int]) -> CountLines:
    """One count a day."""
    length = len(next(iter(counts.values())))
    times = np.arange(length, dtype="int64") * DAY_S + 1_700_000_000
    return CountLines(
        times=times.astype("datetime64[s]"),
        counts={label: np.array(line, np.int64) for label, line in counts.items()},
    )


def pixels(drawn: dict[str, dict[str, CountLines]]) -> npt.NDArray[np.uint8]:
    """The PNG: rows of columns of red, green and blue."""
    with Image.open(BytesIO(draw(drawn, "png"))) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB"))


def heights(picture: npt.NDArray[np.uint8], column: int, colour: tuple[int, int, int]) -> int:
    """How many pixels of a column have a colour."""
    return int((picture[:, column] == colour).all(axis=1).sum())


def test_areas_are_as_high_as_the_counts() -> None:
    """At the right end 30 ALLOW under 10 DENY; in the middle 15 and none; at the left nothing yet."""
    stack = lines(ALLOW=[0, 15, 30, 30], DENY=[0, 0, 10, 10])
    picture = pixels({"permission_type": {"c": stack}})
    coloured = np.flatnonzero((picture == BLUE).all(axis=2).sum(axis=0) > 20)
    left, right = int(coloured[0]), int(coloured[-1])
    at_end = heights(picture, right - 3, BLUE), heights(picture, right - 3, ORANGE)
    assert at_end[0] / at_end[1] == pytest.approx(3, rel=0.1)
    # Counts change at once: the middle of the three days has half of the last one's height, to its end.
    first_day = (right - left) // 2
    for column in (left + 5, left + first_day - 5):
        assert heights(picture, column, BLUE) / at_end[0] == pytest.approx(0.5, rel=0.1)
        assert heights(picture, column, ORANGE) == 0
    # Nothing is drawn on the first day, as wide as the second, but the legend.
    assert left - first_day > 0
    assert (picture[:, left - 10] == BLUE).all(axis=1).sum() == 0


def test_every_cluster_has_a_row_and_every_label_a_column() -> None:
    """The size of the picture follows."""
    by_type = {name: lines(TOPIC=[0, 1, 1]) for name in "abc"}
    by_permission = {name: lines(ALLOW=[0, 1, 1]) for name in "abc"}
    one = pixels({"resource_type": {"a": by_type["a"]}, "permission_type": {"a": by_permission["a"]}})
    three = pixels({"resource_type": by_type, "permission_type": by_permission})
    assert (one.shape, three.shape) == ((360, 1400, 3), (1080, 1400, 3))
    # Both halves of each third have a filled area.
    for row in range(3):
        for column in range(2):
            part = three[row * 360 : (row + 1) * 360, column * 700 : (column + 1) * 700]
            assert (part == BLUE).all(axis=2).sum() > 10_000


def test_a_fleet_is_drawn_by_its_largest_clusters() -> None:
    """No picture grows without bound."""
    fleet = {f"c{number}": lines(TOPIC=[0, number]) for number in range(CLUSTERS_MAX + 9)}
    assert pixels({"resource_type": fleet}).shape == (CLUSTERS_MAX * 360, 1400, 3)


def test_any_cluster_id_and_a_count_below_zero_can_be_drawn() -> None:
    """`$` is no formula, and a removal that is older than its ACL is no area."""
    picture = pixels({"permission_type": {"$x_{": lines(ALLOW=[0, -5, 3])}})
    assert (picture == BLUE).all(axis=2).any()


def test_without_matplotlib_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the job starts, and not at its end."""
    monkeypatch.setattr(sys, "path", [])
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    with pytest.raises(SparkJobError, match=r"pip install 'aclog\[spark\]'"):
        require_plotting("out.png")


def test_the_files_name_says_the_format() -> None:
    """A name that says none that can be drawn is refused before the job starts."""
    require_plotting("out.PNG")
    for name in ("out", "out.parquet", ".png"):
        with pytest.raises(SparkJobError, match=rf"--plot {name}: .*\.png, \.svg, \.pdf"):
            require_plotting(name)
    assert b"<svg" in draw({"resource_type": {"c": lines(TOPIC=[0, 1, 1])}}, "svg")
