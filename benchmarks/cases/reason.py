"""decide(context, action): a decision with its reason, as the sidecar answers and the audit log has it.

Java has no such call; beside it stands its authorize, which has the rule in hand for its audit log.
"""

from __future__ import annotations

from collections.abc import Iterator

from authorizer.api.authorizer_api import AuthorizationResult
from benchmarks.arena import Arena, DecisionsDifferError, sampled, timed_calls
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.settings import progress

_GOALS = {"w3": Goal("at most", 4_000, of="ours"), "w2": Goal("at most", 9_000, of="ours")}


def measure(arena: Arena) -> Iterator[Row]:
    decide = arena.ours.authorizer.decide
    for name in ("zipf", "distinct"):
        arena.check_decisions(name)
        compared = check_results(arena, name)
        progress(f"{arena.workload}: decide, {name}")
        arena.warm_up_principals()
        calls = [(request.context, request.actions[0]) for request in arena.requests(name)]
        theirs, ours = alternate(
            arena.settings.rounds,
            arena.java_round(name),
            timed_calls(decide, calls, arena.settings.round_s),
        )
        yield Row(
            what=f"decide(context, action), with its reason, {name}",
            workload=arena.workload,
            unit="ns",
            ours=ours,
            other=theirs,
            against="Java's authorize",
            ratio=faster(theirs, ours),
            goal=_GOALS.get(arena.workload),
            note=f"{compared} results as authorize has them",
        )


def check_results(arena: Arena, name: str) -> int:
    """Of a sample; returns how many. Raises DecisionsDifferError."""
    requests = sampled(arena.requests(name), min(arena.settings.decisions_checked, len(arena.requests(name))))
    expected = arena.ours.decide(requests, allow_everyone=False)
    decide = arena.ours.authorizer.decide
    results = [decide(request.context, request.actions[0]).result for request in requests]
    found = "".join("A" if result is AuthorizationResult.ALLOWED else "D" for result in results)
    if found != expected:
        raise DecisionsDifferError(f"{arena.workload} {name}: decide does not answer as authorize does")
    return len(requests)
