"""What a benchmark says: measurements with their spread, and how they compare with a goal."""

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
        return Spread(tuple(mine / theirs for mine, theirs in zip(self.values, other.values, strict=True)))


#: Of a goal; the one that is not met must be seen in a long table.
Verdict = Literal["aim reached", "met", "MISSED"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What the ratio of a row should be: at least, or at most, ``bound``; and what it had better be."""

    kind: Literal["at least", "at most"]
    bound: float
    aim: float

    def verdict(self, ratio: float) -> Verdict:
        if self._reaches(ratio, self.aim):
            return "aim reached"
        return "met" if self._reaches(ratio, self.bound) else "MISSED"

    def _reaches(self, ratio: float, bound: float) -> bool:
        return ratio >= bound if self.kind == "at least" else ratio <= bound


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
        goal: of issue 4.
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
    def verdict(self) -> Verdict | None:
        """By the median; None without a goal, or without what it compares."""
        if self.goal is None or self.ratio is None:
            return None
        return self.goal.verdict(self.ratio.median)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value that so many of the ascending ones do not exceed: 100 is the last one."""
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
