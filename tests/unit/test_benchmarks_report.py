"""Reports of the benchmarks: spreads, goals, tables."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.anchor import ROOT
from benchmarks.figures import Goal, Row, Spread, Verdict, alternate, faster, percentile
from benchmarks.report import missed, put_between_markers, to_markdown, to_text
from benchmarks.run import Run, combined, read_runs, write_runs

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


def test_sides_alternate() -> None:
    """A B, B A, A B: neither is always first, so neither always follows the other's garbage."""
    calls: list[str] = []

    def side(name: str) -> float:
        calls.append(name)
        return float(len(calls))

    a, b = alternate(3, lambda: side("a"), lambda: side("b"))
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert (a.values, b.values) == ((1, 4, 5), (2, 3, 6))


def test_a_ratio_is_computed_for_each_round() -> None:
    """A round that was slow for both sides is not a spread of their ratio."""
    ours, theirs = Spread.of(1, 10, 2), Spread.of(3, 30, 6)
    assert theirs.over(ours).values == (3, 3, 3)
    assert theirs.over(Spread.of(2)).values == (3,)  # not in rounds: of the medians


@pytest.mark.parametrize(
    ("goal", "ratio", "verdict"),
    [
        (Goal("at least", 8, 15), 15.0, "aim reached"),
        (Goal("at least", 8, 15), 8.0, "met"),
        (Goal("at least", 8, 15), 7.9, "MISSED"),
        (Goal("at most", 0.6, 0.2), 0.2, "aim reached"),
        (Goal("at most", 0.6, 0.2), 0.6, "met"),
        (Goal("at most", 0.6, 0.2), 0.7, "MISSED"),
        (Goal("at least", 8), 100.0, "met"),
        (Goal("at least", 8), 7.9, "MISSED"),
    ],
)
def test_a_goal_has_a_direction(goal: Goal, ratio: float, verdict: Verdict) -> None:
    """A value equal to the goal, or to the aim, suffices."""
    assert goal.verdict(ratio) == verdict


def test_a_percentile_is_an_observed_value() -> None:
    """The greatest is the 100th; few values have no more percentiles than values."""
    values = list(range(1, 1_001))
    assert [percentile(values, percent) for percent in (50, 99, 99.9, 100)] == [501, 991, 1_000, 1_000]
    assert percentile([7], 99) == 7


def test_a_line_has_every_value() -> None:
    """Median and spread of both sides, the ratio, the goal and whether it was met."""
    run = Run({"cpu": "two"}, {"authorize": [ROW]})
    cells = "w2 | 2 µs (1-3) | 20 µs (11-27) | Java | 10 (9-11) | ≥ 8, aim 15: met | 4000 decisions equal"
    assert f"| authorize | {cells} |" in to_markdown(run)
    assert "Measured on: cpu two. Medians of the rounds" in to_markdown(run)
    assert "2 µs (1-3)  20 µs (11-27)  Java" in to_text(run)


def test_goals_are_summarized() -> None:
    """Missed ones first, and in the list that makes the command fail; a row without a ratio is no goal."""
    slow = Row(
        what="w",
        workload="w3",
        unit="s",
        ours=Spread.of(1),
        ratio=Spread.of(0.9),
        goal=Goal("at most", 0.6, 0.2),
    )
    alone = replace(slow, ratio=None)
    run = Run({}, {"authorize": [ROW], "start": [slow, alone]})
    assert missed(run) == ["w, w3: 0.9, wanted ≤ 0.6, aim 0.2"]
    summary = """\
1 of 2 goals met, 0 of them with their aim:

- MISSED: w, w3: 0.9, wanted ≤ 0.6, aim 0.2
- met: authorize, w2: 10 (9-11), wanted ≥ 8, aim 15"""
    assert to_text(run).endswith(summary)
    assert summary in to_markdown(run)
    assert "≤ 0.6, aim 0.2: MISSED" in to_markdown(run)
    assert "goals" not in to_text(Run({}, {"start": [alone]}))


def test_a_goal_may_bound_the_measured_value() -> None:
    """Its bound is in the row's unit, and it needs no second side."""
    row = replace(ROW, other=None, ratio=None, goal=Goal("at most", 2_500, of="ours"))
    assert row.verdict == "met"
    assert "| ≤ 2.5 µs: met |" in to_markdown(Run({}, {"authorize": [row]}))
    slow = Run({}, {"authorize": [replace(row, ours=Spread.of(3_000))]})
    assert missed(slow) == ["authorize, w2: 3 µs, wanted ≤ 2.5 µs"]


def test_a_table_of_runs_has_the_spread_between_them() -> None:
    """The median of each run is one value; the verdict is on the median of the runs."""
    fast = replace(
        ROW, ours=Spread.of(1_000), other=Spread.of(16_000), ratio=Spread.of(16, 16, 16), note="fast"
    )
    slow = replace(ROW, ours=Spread.of(4_000), other=Spread.of(28_000), ratio=Spread.of(7, 7, 6), note="slow")
    only_here = replace(ROW, what="another", other=None, ratio=None)
    runs = [
        Run({"cpu": "two", "date": "1st"}, {"authorize": [slow]}),
        Run({"cpu": "two", "date": "2nd"}, {"authorize": [fast, only_here]}),
        Run({"cpu": "two", "date": "3rd"}, {"authorize": [ROW]}),
    ]
    table = combined(runs)
    row, other_row = table.rows["authorize"]
    assert row.ours.values == (4_000, 1_000, 2_000)
    assert row.other is not None
    assert row.other.values == (28_000, 16_000, 20_000)
    assert row.ratio is not None
    assert row.ratio.values == (7, 16, 10)
    assert row.verdict == "met"
    assert row.note == ROW.note  # of the run in the middle
    assert (other_row.ours.values, other_row.other) == ((2_000,), None)
    assert table.machine == {"cpu": "two", "date": "1st, 2nd, 3rd"}
    assert "Medians of 3 runs" in to_markdown(table)


def test_one_run_is_its_own_table() -> None:
    """Its spread is that of its rounds."""
    run = Run({}, {"authorize": [ROW]})
    assert combined([run]) == run


def test_runs_are_stored_with_every_round(tmp_path: Path) -> None:
    """Stored runs are read back, so that runs of different days can be combined."""
    runs = [Run({"cpu": "two"}, {"authorize": [ROW], "noise": [replace(ROW, goal=None)]}), Run({}, {})]
    write_runs(tmp_path / "runs.json", runs)
    assert read_runs(tmp_path / "runs.json") == runs


def test_the_command_combines_files(tmp_path: Path) -> None:
    """Nothing is measured; a goal that the runs miss together makes it fail, as after measuring."""
    slow = replace(ROW, ratio=Spread.of(7))
    files = [tmp_path / "1.json", tmp_path / "2.json"]
    write_runs(files[0], [Run({}, {"authorize": [ROW]})])
    write_runs(files[1], [Run({}, {"authorize": [slow]}), Run({}, {"authorize": [slow]})])

    def combine(*chosen: Path) -> subprocess.CompletedProcess[str]:
        arguments = [argument for file in chosen for argument in ("--combine", str(file))]
        command = [sys.executable, "-m", "benchmarks", *arguments]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, cwd=ROOT)

    one, all_three = combine(files[0]), combine(*files)
    assert one.returncode == 0
    assert "- met: authorize, w2: 10 (9-11)" in one.stdout
    assert all_three.returncode == 1
    assert "- MISSED: authorize, w2: 7 (7-10)" in all_three.stdout


def test_only_the_text_between_the_markers_is_replaced(tmp_path: Path) -> None:
    """Text around it and other sections do not change; a second replacement changes nothing."""
    document = tmp_path / "performance.md"
    one = "<!-- one: begin; written by `make bench` -->\n{}\n<!-- one: end -->"
    other = "<!-- other: begin; written by `make bench` -->\n{}\n<!-- other: end -->"
    document.write_text(f"before\n{one.format('old')}\n{other.format('old')}\nafter\n", encoding="utf-8")
    put_between_markers(document, "other", "new")
    put_between_markers(document, "other", "new")
    written = f"before\n{one.format('old')}\n{other.format(chr(10) + 'new' + chr(10))}\nafter\n"
    assert document.read_text(encoding="utf-8") == written


def test_a_document_without_markers_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("mine", encoding="utf-8")
    with pytest.raises(ValueError, match="no markers"):
        put_between_markers(document, "one", "new")
    assert document.read_text(encoding="utf-8") == "mine"
