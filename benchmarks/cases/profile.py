"""Where the time of one authorize() goes: CPU step by step, and the bytecodes that each function executes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from authorizer.api.authorizer_api import (
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    RequestContext,
)
from benchmarks.arena import Arena, Authorize, RequestArguments, timed_calls
from benchmarks.counting import BytecodeCounter
from benchmarks.figures import Row, Spread, alternate
from benchmarks.settings import progress
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.principal import KafkaPrincipal

_LIST = "zipf"
_TRACED = 1_000

#: No workload has ACLs of this type.
_NO_ACLS = Action(
    AclOperation.DESCRIBE_TOKENS,
    ResourcePattern(ResourceType.USER, "nobody", PatternType.LITERAL),
    log_if_allowed=False,
    log_if_denied=False,
)


def measure(arena: Arena) -> Iterator[Row]:
    progress(f"{arena.workload}: profile")
    arena.warm_up_principals()
    authorize = arena.ours.authorizer.authorize
    requests = arena.requests(_LIST)
    callers = [request.context for request in requests]
    requested_calls: list[RequestArguments] = [(request.context, request.actions) for request in requests]

    def timed(call: Authorize, calls: Sequence[RequestArguments]) -> Callable[[], float]:
        return timed_calls(call, calls, arena.settings.round_s)

    steps: dict[str, Callable[[], float]] = {
        "a loop that calls a function that returns []": timed(_nothing, requested_calls),
        "authorize without actions: state, super users, the caller's rights": timed(
            authorize, [(caller, []) for caller in callers]
        ),
        "one action on a type without ACLs: its fields, result, count": timed(
            authorize, [(caller, [_NO_ACLS]) for caller in callers]
        ),
        "one action as requested: lookups of names, prefixes and hosts": timed(authorize, requested_calls),
        "the same, with context and action made for it: by the caller": timed(
            _anew(authorize), requested_calls
        ),
    }
    before: Spread | None = None
    for (what, _), ours in zip(steps.items(), alternate(arena.settings.rounds, *steps.values()), strict=True):
        added = "" if before is None else f"+{ours.median - before.median:.0f} ns"
        yield Row(what=what, workload=arena.workload, unit="ns", ours=ours, note=added)
        before = ours
    traced = requests[:_TRACED]
    with BytecodeCounter() as counter:
        for request in traced:
            authorize(request.context, request.actions)
    for name, count in counter.by_function.most_common():
        if name.startswith("authorizer."):
            ours = Spread.of(count / len(traced))
            yield Row(what=f"bytecodes in {name}", workload=arena.workload, unit="", ours=ours)


def _anew(authorize: Authorize) -> Authorize:
    """With new objects for each request, as in a gateway."""

    def ask(context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[AuthorizationResult]:
        (action,) = actions
        caller, pattern = context.principal, action.resource_pattern
        principal = KafkaPrincipal(caller.principal_type, caller.name)
        pattern = ResourcePattern(pattern.resource_type, pattern.name, pattern.pattern_type)
        return authorize(
            RequestContext(principal, context.client_address),
            [Action(action.operation, pattern, 1, action.log_if_allowed, action.log_if_denied)],
        )

    return ask


def _nothing(context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[AuthorizationResult]:
    del context, actions
    return []
