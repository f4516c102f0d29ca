"""A run: what was measured, on what; several of them as one, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

import msgspec

from benchmarks.figures import Row, Spread


@dataclass(frozen=True, slots=True)
class Run:
    """What one run measured, or several together.

    Attributes:
        machine: see benchmarks.machine.
        rows: of each case, by its name.
        runs: how many it is made of.
    """

    machine: Mapping[str, str]
    rows: Mapping[str, Sequence[Row]]
    runs: int = 1


def combined(runs: Sequence[Run]) -> Run:
    """One run whose rounds are the runs: each row has the median of every run.

    A row that only some of them have is made of these. What a note says is of the run in the middle.
    """
    if len(runs) == 1:
        return runs[0]
    machine = {
        name: ", ".join(dict.fromkeys(run.machine[name] for run in runs if name in run.machine))
        for name in _in_order(run.machine for run in runs)
    }
    rows = {
        case: _combined_rows([run.rows[case] for run in runs if case in run.rows])
        for case in _in_order(run.rows for run in runs)
    }
    return Run(machine, rows, len(runs))


def write_runs(file: Path, runs: Sequence[Run]) -> None:
    """Everything that was measured, every round of every run."""
    file.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")


def read_runs(file: Path) -> list[Run]:
    """What ``write_runs`` wrote. Raises msgspec.DecodeError: it is something else."""
    return msgspec.json.decode(file.read_bytes(), type=list[Run])


def _combined_rows(of_runs: Sequence[Sequence[Row]]) -> list[Row]:
    by_key: dict[tuple[str, str, str], list[Row]] = {}
    for row in chain.from_iterable(of_runs):
        by_key.setdefault((row.what, row.workload, row.against), []).append(row)
    return [_combined_row(same) for same in by_key.values()]


def _combined_row(rows: Sequence[Row]) -> Row:
    middle = sorted(rows, key=lambda row: row.ours.median)[len(rows) // 2]
    return replace(
        middle,
        ours=_medians(row.ours for row in rows),
        other=None if middle.other is None else _medians(row.other for row in rows if row.other is not None),
        ratio=None if middle.ratio is None else _medians(row.ratio for row in rows if row.ratio is not None),
    )


def _medians(spreads: Iterable[Spread]) -> Spread:
    return Spread(tuple(spread.median for spread in spreads))


def _in_order(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """All keys, as they come first."""
    return list(dict.fromkeys(chain.from_iterable(mappings)))
