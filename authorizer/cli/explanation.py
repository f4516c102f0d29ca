"""An explanation as text: the decision, what decided, what nearly did, and what would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from authorizer.cli.output import shown, utc
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.decision import Decision
    from authorizer.explain import Explanation
    from records.acl import ResourcePattern
    from snapshot.image import AppliedAcl


def decision_line(decision: Decision, end_offset: int) -> str:
    """One line: ``ALLOWED by MatchingAcl(acl=StandardAcl[...]) at end offset 281``."""
    return f"{decision.result.value} by {shown(str(decision))} at end offset {end_offset}"


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """All of it."""
    context, action, decision = explanation.context, explanation.action, explanation.decision
    yield decision_line(decision, explanation.end_offset)
    yield (
        f"  asked: may {shown(str(context.principal))} {action.operation.name} "
        f"{_resource(action.resource_pattern)} from {shown(context.client_address)}"
    )
    yield f"  because {explanation.reason}"
    if decision.acl is not None:
        yield f"  decided by {_acl(decision.acl)}"
    for acl in explanation.also_matched:
        yield f"  also matched: {_acl(acl)}"
    for miss in explanation.near_misses:
        yield f"  near miss, {miss.field} is {shown(miss.has)} and not {shown(miss.asked)}: {_acl(miss.acl)}"
    if explanation.fix:
        yield "  would allow it (aclog acls takes the same flags):"
    for command in explanation.fix:
        yield f"    {shown(command)}"


def _resource(pattern: ResourcePattern) -> str:
    return f"{pattern.resource_type.title}:{pattern.pattern_type.name}:{shown(pattern.name)}"


def _acl(acl: AppliedAcl) -> str:
    record = acl.record
    # With a place in the log, the time is that of the record which wrote it.
    written = "from a checkpoint" if acl.offset is None else f"offset {acl.offset}, {utc(acl.timestamp_ms)}"
    return f"{shown(record.standard_acl())} ({uuid_to_string(record.id)}, {written})"
