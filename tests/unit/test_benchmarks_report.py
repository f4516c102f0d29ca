"""What the benchmarks say: spreads, goals, tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.figures import Goal, Row, Spread, alternate, faster
from benchmarks.report import BEGIN, END, Run, missed, put_between_markers, to_json, to_markdown, to_text

ROW = Row(
    what="authorize",
    workload="w2",
    unit="ns",
    ours=Spread.of(2_000, 1_000, 3_000),
    other=Spread.of(20_000, 11_000, 27_000),
    against="Java",
    ratio=faster(Spread.of(20_000, 11_000, 27_000), Spread.of(2_000, 1_000, 3_000)),
    goal=Goal("at least", 8, 15),
    note="4000 decisions equal",
)


def test_sides_take_turns() -> None:
    """A B, B A, A B: neither is always first, so neither always follows the other's garbage."""
    calls: list[str] = []

    def side(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    a, b = alternate(3, lambda: side("a"), lambda: side("b"))
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (a.values, b.values) == ((1, 4, 5), (2, 3, 6))


def test_a_ratio_is_taken_round_by_round() -> None:
    """A round that was slow for both sides is not a spread of their ratio."""
    ours, theirs = Spread.of(1, 10, 2), Spread.of(3, 30, 6)
    assert theirs.over(ours).values == (3, 3, 3)
    assert theirs.over(Spread.of(2)).values == (3,)  # not in rounds: of the medians


@pytest.mark.parametrize(
    ("goal", "ratio", "is_met"),
    [
        (Goal("at least", 8, 15), 8.0, True),
        (Goal("at least", 8, 15), 7.9, False),
        (Goal("at most", 0.6, 0.2), 0.6, True),
        (Goal("at most", 0.6, 0.2), 0.7, False),
    ],
)
def test_a_goal_has_a_direction(goal: Goal, ratio: float, is_met: bool) -> None:
    assert goal.is_met(ratio) is is_met


def test_a_line_says_it_all() -> None:
    """Median and spread of both, what it is beside, the ratio, the goal."""
    run = Run({"cpu": "two"}, {"authorize": [ROW]})
    cells = "w2 | 2 µs (1-3) | 20 µs (11-27) | Java | 10 (9-11) | ≥ 8, aim 15 | 4000 decisions equal"
    assert f"| authorize | {cells} |" in to_markdown(run)
    assert "Measured on: cpu two." in to_markdown(run)
    assert "2 µs (1-3)  20 µs (11-27)  Java" in to_text(run)


def test_a_missed_goal_is_told() -> None:
    """In the table, and in the list that makes the command fail."""
    slow = Row(
        what="w",
        workload="w3",
        unit="s",
        ours=Spread.of(1),
        ratio=Spread.of(0.9),
        goal=Goal("at most", 0.6, 0.2),
    )
    run = Run({}, {"authorize": [ROW], "start": [slow]})
    assert missed(run) == ["w, w3: 0.9, wanted ≤ 0.6, aim 0.2"]
    assert "≤ 0.6, aim 0.2 (missed)" in to_markdown(run)


def test_json_has_every_round() -> None:
    content = json.loads(to_json(Run({"cpu": "two"}, {"authorize": [ROW]})))
    assert content["cases"]["authorize"][0]["ours"]["values"] == [2_000, 1_000, 3_000]
    assert content["machine"] == {"cpu": "two"}


def test_only_what_is_between_the_markers_is_replaced(tmp_path: Path) -> None:
    """What people wrote around it stays; twice is the same as once."""
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    put_between_markers(document, "new")
    put_between_markers(document, "new")
    assert document.read_text(encoding="utf-8") == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"


def test_a_document_without_markers_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="no markers"):
        put_between_markers(document, "new")
    assert document.read_text(encoding="utf-8") == "mine"
