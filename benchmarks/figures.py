"""Results of a benchmark: measurements with their spread, and their comparison with a goal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Spread:
    """Measurements of one thing, in the order of the rounds."""

    values: tuple[float, ...]

    @classmethod
    def of(cls, *values: float) -> Spread:
        return cls(values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        return min(self.values)

    @property
    def high(self) -> float:
        return max(self.values)

    def over(self, other: Spread) -> Spread:
        """Round by round: what slows down the machine for a while slows down both."""
        if len(self.values) != len(other.values):
            return Spread.of(self.median / other.median)
        return Spread(
            tuple(
                our_value / their_value
                for our_value, their_value in zip(self.values, other.values, strict=True)
            )
        )


#: Of a goal; the one that is not met must be seen in a long table.
Verdict = Literal["aim reached", "met", "MISSED"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a row should say: at least, or at most, ``bound``; and what it had better be, if that is more.

    Attributes:
        of: the row's ratio, or what was measured of aclog, in the row's unit: that holds on machines like the
            one that the goal was set on.
    """

    kind: Literal["at least", "at most"]
    bound: float
    aim: float | None = None
    of: Literal["ratio", "ours"] = "ratio"

    def verdict(self, value: float) -> Verdict:
        if self.aim is not None and self._reaches(value, self.aim):
            return "aim reached"
        return "met" if self._reaches(value, self.bound) else "MISSED"

    def _reaches(self, value: float, bound: float) -> bool:
        return value >= bound if self.kind == "at least" else value <= bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        what: that was measured.
        workload: on which ACLs.
        unit: of ``ours`` and ``other``: "ns", "ms", "s", "MB", "/s", "" for a count.
        ours: measured of aclog.
        other: measured of what it is compared with.
        against: what that is.
        ratio: of the two, as ``goal`` is stated; how many times better where there is no goal.
        goal: of ``ratio``, or of ``ours``.
        note: what one has to know to read it.
    """

    what: str
    workload: str
    unit: str
    ours: Spread
    other: Spread | None = None
    against: str = ""
    ratio: Spread | None = None
    goal: Goal | None = None
    note: str = ""

    @property
    def judged(self) -> Spread | None:
        """What the goal is of; None without a goal, or without what it compares."""
        if self.goal is None:
            return None
        return self.ratio if self.goal.of == "ratio" else self.ours

    @property
    def verdict(self) -> Verdict | None:
        """By the median; None where nothing is judged."""
        if self.goal is None or self.judged is None:
            return None
        return self.goal.verdict(self.judged.median)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that this many percent of the ascending ones do not exceed: 100 is the last one."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def faster(other: Spread, ours: Spread) -> Spread:
    """How many times less ``ours`` takes, round by round."""
    return other.over(ours)


def alternate(rounds: int, *sides: Callable[[], float]) -> list[Spread]:
    """The measurements of each side. They take turns; who begins changes from round to round."""
    values: list[list[float]] = [[] for _ in sides]
    order: Sequence[int] = range(len(sides))
    for _ in range(rounds):
        for side in order:
            values[side].append(sides[side]())
        order = order[::-1]
    return [Spread(tuple(of_side)) for of_side in values]
