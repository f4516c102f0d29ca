"""authorize(context, [action]): CPU for each call, beside Kafka's own, on the same requests."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.arena import Arena
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.settings import progress

_GOALS = {
    "w3": Goal("at least", 1.5, 2),
    "w2": Goal("at least", 10, 15),
    "w1": Goal("at least", 220, 400),
    "fleet": Goal("at least", 10),
    "strangers": Goal("at least", 4),
    "mesh": Goal("at least", 12),
}


def measure(arena: Arena) -> Iterator[Row]:
    lists = ["zipf", "distinct"] + (["jmh"] if arena.workload in {"w1", "w1s"} else [])
    for name in lists:
        compared = arena.check_decisions(name)
        progress(f"{arena.workload}: authorize, {name}")
        theirs, ours = alternate(arena.settings.rounds, arena.java_round(name), arena.our_round(name))
        yield Row(
            what=f"authorize(context, [action]), {name}",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java",
            ratio=faster(theirs, ours),
            goal=_GOALS.get(arena.workload) if name != "jmh" else None,
            note=f"{compared} decisions equal",
        )
