"""500 actions in one call, beside as many calls with one action each, and beside Kafka's own with 500."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.arena import Arena, timed_calls
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.requests import BULK, BULK_ACTIONS
from benchmarks.settings import progress

_GOALS = {"w3": Goal("at least", 2.5), "w2": Goal("at least", 80)}


def measure(arena: Arena) -> Iterator[Row]:
    compared = arena.check_decisions(BULK)
    progress(f"{arena.workload}: authorize, {BULK_ACTIONS} actions")
    together = arena.requests(BULK)
    one_by_one = [(request.context, [action]) for request in together for action in request.actions]
    single = timed_calls(arena.ours.authorizer.authorize, one_by_one, arena.settings.round_s)
    rounds = (_each(arena.java_round(BULK)), single, _each(arena.our_round(BULK)))
    java, singles, bulk = alternate(arena.settings.rounds, *rounds)
    yield Row(
        what=f"authorize(context, {BULK_ACTIONS} actions), per action",
        workload=arena.workload,
        unit="ns",
        ours=bulk,
        other=singles,
        against=f"{BULK_ACTIONS} single calls",
        ratio=faster(singles, bulk),
        note=f"{compared} decisions equal",
    )
    yield Row(
        what=f"authorize(context, {BULK_ACTIONS} actions), per action",
        workload=arena.workload,
        unit="ns",
        ours=bulk,
        other=java,
        against="Java",
        ratio=faster(java, bulk),
        goal=_GOALS.get(arena.workload),
    )


def _each(a_round: Callable[[], float]) -> Callable[[], float]:
    return lambda: a_round() / BULK_ACTIONS
