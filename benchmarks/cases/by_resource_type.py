"""authorize_by_resource_type: may this principal read any topic at all?"""

from __future__ import annotations

import time
from collections.abc import Iterator

from authorizer.api.authorizer_api import AuthorizationResult
from benchmarks.arena import Arena, DecisionsDifferError, sampled
from benchmarks.figures import Goal, Row, alternate, faster
from benchmarks.requests import Request
from benchmarks.settings import progress
from records.acl import AclOperation, ResourceType

_GOALS = {"w2": Goal("at least", 100, 1_000)}
_LIST = "zipf"
# In each round; Java looks at every ACL each time.
_JAVA_CALLS = 5
_JAVA_CALLS_SMALL = 500
_OUR_CALLS = 2_000


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: authorize_by_resource_type")
    arena.give_java(_LIST)
    arena.java.tell("configure", allow=False)
    requests = arena.requests(_LIST)
    java_calls = _JAVA_CALLS if len(arena.ours.image) > 10_000 else _JAVA_CALLS_SMALL
    theirs = arena.java.tell("by-resource-type", list=_LIST, count=java_calls)["results"]
    ours, _ = _decide(arena, sampled(requests, java_calls))
    if ours != theirs:
        raise DecisionsDifferError(f"{arena.workload}, authorize_by_resource_type: {ours} is not {theirs}")
    many = sampled(requests, _OUR_CALLS)
    java_ns, our_ns = alternate(
        arena.settings.rounds,
        lambda: float(arena.java.tell("by-resource-type", list=_LIST, count=java_calls)["ns"]),
        lambda: _decide(arena, many)[1],
    )
    yield Row(
        what="authorize_by_resource_type(READ, TOPIC)",
        workload=arena.workload,
        unit="ns",
        ours=our_ns,
        other=java_ns,
        against="Java",
        ratio=faster(java_ns, our_ns),
        goal=_GOALS.get(arena.workload),
        note=f"{java_calls} decisions equal",
    )


def _decide(arena: Arena, requests: list[Request]) -> tuple[str, float]:
    """A letter for each, and the CPU of one call in ns."""
    authorize = arena.ours.authorizer.authorize_by_resource_type
    began = time.thread_time_ns()
    results = [authorize(request.context, AclOperation.READ, ResourceType.TOPIC) for request in requests]
    took = time.thread_time_ns() - began
    letters = "".join("A" if result is AuthorizationResult.ALLOWED else "D" for result in results)
    return letters, took / len(requests)
