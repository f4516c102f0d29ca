"""The figures as text for a terminal, and as Markdown for docs/performance-tables.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.cases import CASES
from benchmarks.figures import Row, Spread, Verdict
from benchmarks.run import Run

# Around what is written of each section.
_BEGIN = "<!-- {}: begin; written by `make bench` -->"
_END = "<!-- {}: end -->"

# (unit, of how many of the row's unit)
_SCALES: dict[str, tuple[tuple[str, float], ...]] = {
    "ns": (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    "/s": (("/s", 1), ("k/s", 1e3), ("M/s", 1e6)),
}
_VERDICTS: tuple[Verdict, ...] = ("MISSED", "met", "aim reached")
_COLUMNS = ("what", "ACLs", "aclog", "beside", "", "times", "goal", "")


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
    return "\n\n".join(filter(None, [*parts, goals(run)]))


def to_markdown(run: Run) -> str:
    """What the goals came to, then tables, one for each case."""
    machine = "; ".join(f"{name} {value}" for name, value in run.machine.items())
    parts = [f"Measured on: {machine}. {_how_to_read(run)}", goals(run)]
    for title, rows in _titled(run):
        lines = [f"### {title}", "", _line(_COLUMNS), _line(("---",) * len(_COLUMNS))]
        parts.append("\n".join([*lines, *(_line(_cells(row)) for row in rows)]))
    return "\n\n".join(filter(None, parts))


def put_between_markers(document: Path, section: str, text: str) -> None:
    """Replace what is between the section's markers. Raises ValueError if they are not there."""
    begin, end = _BEGIN.format(section), _END.format(section)
    before, found_begin, rest = document.read_text(encoding="utf-8").partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"{document} has no markers `{begin}` and `{end}`")
    document.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}", encoding="utf-8")


def goals(run: Run) -> str:
    """How many goals were met, then a line for each, those that were missed first. Empty without goals."""
    judged = [(verdict, _judged(run, verdict)) for verdict in _VERDICTS]
    unmet, bound_only, with_aim = (len(rows) for _, rows in judged)
    total = unmet + bound_only + with_aim
    if not total:
        return ""
    lines = [f"{total - unmet} of {total} goals met, {with_aim} of them with their aim:", ""]
    return "\n".join(lines + [f"- {verdict}: {row}" for verdict, rows in judged for row in rows])


def missed(run: Run) -> list[str]:
    """The goals that were not met, in words."""
    return _judged(run, "MISSED")


def _judged(run: Run, verdict: Verdict) -> list[str]:
    return [
        f"{row.what}, {row.workload}: {_judged_value(row)}, wanted {_goal(row)}"
        for _, rows in _titled(run)
        for row in rows
        if row.verdict == verdict
    ]


def _how_to_read(run: Run) -> str:
    if run.runs == 1:
        return "Medians of the rounds; in brackets the least and the greatest round."
    return f"Medians of {run.runs} runs; in brackets the least and the greatest run."


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
        _goal(row) + (f": {row.verdict}" if row.verdict else ""),
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


def _judged_value(row: Row) -> str:
    return _times(row.ratio) if row.goal is None or row.goal.of == "ratio" else _quantity(row.ours, row.unit)


def _goal(row: Row) -> str:
    """``≥ 8``, ``≤ 60 µs``, and the aim if there is one."""
    goal = row.goal
    if goal is None:
        return ""
    bounds = [
        _number(bound) if goal.of == "ratio" else _quantity(Spread.of(bound), row.unit)
        for bound in (goal.bound, goal.aim)
        if bound is not None
    ]
    return f"{'≥' if goal.kind == 'at least' else '≤'} {', aim '.join(bounds)}"


def _number(value: float) -> str:
    """Three digits that mean something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
