"""Where the time of one authorize() goes: CPU step by step, and the bytecodes that each function executes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from authorizer.api.authorizer_api import (
    Action,
    AuthorizableRequestContext,
    AuthorizationResult,
    RequestContext,
)
from benchmarks.arena import Arena, Asked, Authorize, timed_calls
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
    arena.have_everyone_asked()
    authorize = arena.ours.authorizer.authorize
    requests = arena.requests(_LIST)
    askers = [request.context for request in requests]
    as_asked: list[Asked] = [(request.context, request.actions) for request in requests]

    def timed(call: Authorize, asked: Sequence[Asked]) -> Callable[[], float]:
        return timed_calls(call, asked, arena.settings.round_s)

    steps: dict[str, Callable[[], float]] = {
        "a loop that calls a function that returns []": timed(_nothing, as_asked),
        "authorize without actions: state, super users, the asker's rights": timed(
            authorize, [(asker, []) for asker in askers]
        ),
        "one action on a type without ACLs: its fields, result, count": timed(
            authorize, [(asker, [_NO_ACLS]) for asker in askers]
        ),
        "one action as asked: look-ups of names, prefixes and hosts": timed(authorize, as_asked),
        "the same, with context and action made for it: by the caller": timed(_anew(authorize), as_asked),
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
    """With objects of its own for each question, as a gateway has them."""

    def ask(context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[AuthorizationResult]:
        (action,) = actions
        asker, pattern = context.principal, action.resource_pattern
        principal = KafkaPrincipal(asker.principal_type, asker.name)
        pattern = ResourcePattern(pattern.resource_type, pattern.name, pattern.pattern_type)
        return authorize(
            RequestContext(principal, context.client_address),
            [Action(action.operation, pattern, 1, action.log_if_allowed, action.log_if_denied)],
        )

    return ask


def _nothing(context: AuthorizableRequestContext, actions: Sequence[Action]) -> list[AuthorizationResult]:
    del context, actions
    return []
