"""The figures as text for a terminal, as Markdown for docs/performance.md, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.figures import Goal, Row, Spread

BEGIN = "<!-- benchmarks: begin; written by `make bench` -->"
END = "<!-- benchmarks: end -->"

# (unit, of how many of the row's unit)
_SCALES: dict[str, tuple[tuple[str, float], ...]] = {
    "ns": (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    "/s": (("/s", 1), ("k/s", 1e3), ("M/s", 1e6)),
}
_COLUMNS = ("what", "ACLs", "aclog", "beside", "", "times", "goal", "")


@dataclass(frozen=True, slots=True)
class Run:
    """What one run measured.

    Attributes:
        machine: see benchmarks.machine.
        rows: of each case, by its name.
    """

    machine: Mapping[str, str]
    rows: Mapping[str, Sequence[Row]]


def to_text(run: Run) -> str:
    """Aligned columns."""
    parts = []
    for title, rows in _titled(run):
        table = [_COLUMNS, *map(_cells, rows)]
        widths = [max(len(line[column]) for line in table) for column in range(len(_COLUMNS))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table
        ]
        parts.append("\n".join([title, *(line.rstrip() for line in lines)]))
    return "\n\n".join(parts)


def to_markdown(run: Run) -> str:
    """Tables, one for each case."""
    machine = "; ".join(f"{name} {value}" for name, value in run.machine.items())
    parts = [f"Measured on: {machine}."]
    for title, rows in _titled(run):
        lines = [f"### {title}", "", _line(_COLUMNS), _line(("---",) * len(_COLUMNS))]
        parts.append("\n".join([*lines, *(_line(_cells(row)) for row in rows)]))
    return "\n\n".join(parts)


def to_json(run: Run) -> str:
    """Everything that was measured, every round."""
    content = {
        "machine": dict(run.machine),
        "cases": {name: [asdict(row) for row in rows] for name, rows in run.rows.items()},
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def put_between_markers(document: Path, text: str) -> None:
    """Replace what is between the markers. Raises ValueError if they are not there."""
    before, begin, rest = document.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{document} has no markers `{BEGIN}` and `{END}`")
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def missed(run: Run) -> list[str]:
    """The goals that were not reached, in words."""
    return [
        f"{row.what}, {row.workload}: {_times(row.ratio)}, wanted {_goal(row.goal)}"
        for rows in run.rows.values()
        for row in rows
        if row.goal is not None and row.ratio is not None and not row.goal.is_met(row.ratio.median)
    ]


def _titled(run: Run) -> Iterable[tuple[str, Sequence[Row]]]:
    return [(case.title, run.rows[case.name]) for case in CASES if run.rows.get(case.name)]


def _cells(row: Row) -> tuple[str, ...]:
    beside = "" if row.other is None else _quantity(row.other, row.unit)
    return (
        row.what,
        row.workload,
        _quantity(row.ours, row.unit),
        beside,
        row.against,
        _times(row.ratio),
        _goal(row.goal) + _verdict(row),
        row.note,
    )


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _quantity(spread: Spread, unit: str) -> str:
    """``1.23 µs (1.20-1.31)``; without the range where there is one value."""
    median = spread.median
    unit, scale = max(
        (each for each in _SCALES.get(unit, ((unit, 1),)) if each[1] <= abs(median) or each[1] == 1),
        key=lambda each: each[1],
    )
    text = f"{_number(median / scale)} {unit}".rstrip()
    if len(spread.values) == 1:
        return text
    return f"{text} ({_number(spread.low / scale)}-{_number(spread.high / scale)})"


def _times(ratio: Spread | None) -> str:
    if ratio is None:
        return ""
    text = _number(ratio.median)
    return text if len(ratio.values) == 1 else f"{text} ({_number(ratio.low)}-{_number(ratio.high)})"


def _goal(goal: Goal | None) -> str:
    if goal is None:
        return ""
    sign = "≥" if goal.kind == "at least" else "≤"
    return f"{sign} {_number(goal.bound)}, aim {_number(goal.aim)}"


def _verdict(row: Row) -> str:
    if row.goal is None or row.ratio is None:
        return ""
    return "" if row.goal.is_met(row.ratio.median) else " (missed)"


def _number(value: float) -> str:
    """Three digits that mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
