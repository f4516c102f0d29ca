"""The first question of a principal after a start: what it was granted is worked out then, and kept.

Java has no such thing: beside it stands what each of its decisions on these questions costs.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arena import Arena
from benchmarks.cases.start import cold_start
from benchmarks.figures import Row, Spread, faster, percentile
from benchmarks.requests import PRINCIPALS
from benchmarks.settings import progress

_PERCENTILES = (50.0, 99.0, 100.0)


def measure(arena: Arena) -> Iterator[Row]:
    compared = arena.check_decisions(PRINCIPALS)
    starts = [cold_start(arena) for _ in range(arena.settings.loads)]
    progress(f"{arena.workload}: Java on the same questions")
    java_round = arena.java_round(PRINCIPALS)
    theirs = Spread(tuple(java_round() for _ in range(arena.settings.rounds)))
    for percent in _PERCENTILES:
        first = Spread(tuple(percentile(start.first_ns, percent) for start in starts))
        again = Spread(tuple(percentile(start.again_ns, percent) for start in starts))
        name = "max" if percent == 100 else f"p{percent:g}"
        yield Row(
            what=f"first question of a principal, {name}",
            workload=arena.workload,
            unit="ns",
            ours=first,
            other=theirs,
            against="Java, mean of all its decisions",
            ratio=faster(theirs, first),
            note=f"of {len(starts[0].first_ns):,} principals; asked again {again.median / 1000:.3g} µs; "
            f"{compared} decisions equal",
        )
