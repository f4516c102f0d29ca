"""What the machine does to the figures: each side against itself, as if it were two."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arena import Arena
from benchmarks.figures import Row, alternate
from benchmarks.settings import progress

_LIST = "zipf"


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: noise")
    for side, a_round, again in (
        ("aclog", arena.our_round(_LIST), arena.our_round(_LIST)),
        ("Java", arena.java_round(_LIST), arena.java_round(_LIST)),
    ):
        first, second = alternate(arena.settings.rounds, a_round, again)
        yield Row(
            what=f"noise: authorize of {side} against itself",
            workload=arena.workload,
            unit="ns",
            ours=second,
            other=first,
            against="itself",
            ratio=first.over(second),
        )
