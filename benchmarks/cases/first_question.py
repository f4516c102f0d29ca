"""The first request of a principal after a start, which is answered from the rows.

It is compared with the mean of Java's decisions on the same requests. Further rows repeat the requests, also
when the rights of all principals are cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean

from benchmarks.arena import Arena
from benchmarks.cases.start import cold_start
from benchmarks.figures import Goal, Row, Spread, alternate, faster, percentile
from benchmarks.requests import PRINCIPALS
from benchmarks.settings import progress

_MEAN = "mean"
_PERCENTILES = {"p50": 50.0, "p99": 99.0, "max": 100.0}
_GOALS = {
    ("w2", "p50"): Goal("at most", 60_000, of="ours"),
    ("w2", "max"): Goal("at most", 5_000_000, of="ours"),
    ("fleet", _MEAN): Goal("at least", 1),
}
_AGAIN_GOALS = {"fleet": Goal("at least", 10)}


def measure(arena: Arena) -> Iterator[Row]:
    compared = arena.check_decisions(PRINCIPALS)
    starts = [cold_start(arena) for _ in range(arena.settings.loads)]
    progress(f"{arena.workload}: asked again")
    theirs, ours = alternate(arena.settings.rounds, arena.java_round(PRINCIPALS), arena.our_round(PRINCIPALS))
    firsts = {_MEAN: Spread(tuple(mean(start.first_ns) for start in starts))} | {
        name: Spread(tuple(percentile(start.first_ns, percent) for start in starts))
        for name, percent in _PERCENTILES.items()
    }
    second = Spread(tuple(mean(start.second_ns) for start in starts))
    for name, first in firsts.items():
        yield Row(
            what=f"first request of a principal, {name}",
            workload=arena.workload,
            unit="ns",
            ours=first,
            other=theirs,
            against="Java, mean of all its decisions",
            ratio=faster(theirs, first),
            goal=_GOALS.get((arena.workload, name)),
            note=f"of {len(starts[0].first_ns):,} principals; {compared} decisions equal",
        )
    yield Row(
        what="the same request a second time, mean",
        workload=arena.workload,
        unit="ns",
        ours=second,
        other=theirs,
        against="Java",
        ratio=faster(theirs, second),
    )
    yield Row(
        what="the same request when all principals have sent many, mean",
        workload=arena.workload,
        unit="ns",
        ours=ours,
        other=theirs,
        against="Java",
        ratio=faster(theirs, ours),
        goal=_AGAIN_GOALS.get(arena.workload),
    )
