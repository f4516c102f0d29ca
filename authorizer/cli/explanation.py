"""An explanation as text: the decision, what decided, what nearly did, and what would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from authorizer.cli.output import shown, utc
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.ids import uuid_to_string
from snapshot.code_names import code_to_name

if TYPE_CHECKING:
    from authorizer.decision import Decision
    from authorizer.explanation.explain import Explanation
    from snapshot.rows import AppliedAcl


def decision_line(decision: Decision, end_offset: int) -> str:
    """One line: ``ALLOWED by MatchingAcl(acl=StandardAcl[...]) at end offset 281``."""
    return f"{decision.result.value} by {shown(str(decision))} at end offset {end_offset}"


def explanation_lines(explanation: Explanation) -> Iterator[str]:
    """All of it; the ACLs in words, each with its place in the log and its id."""
    context, action, decision = explanation.context, explanation.action, explanation.decision
    yield f"{decision.result.value} by {decision.rule.value} at end offset {explanation.end_offset}"
    pattern = action.resource_pattern
    resource = f"{pattern.resource_type.title}:{pattern.pattern_type.name}:{shown(pattern.name)}"
    who, where = shown(str(context.principal)), shown(context.client_address)
    yield f"  asked       {who} {action.operation.name} on {resource} from {where}"
    yield f"  because     {explanation.reason}"
    if decision.acl is not None:
        yield f"  decided by  {_acl(decision.acl)}"
    for acl in explanation.also_matched:
        yield f"  matches too {_acl(acl)}"
    for miss in explanation.near_misses:
        yield f"  near miss   {_acl(miss.acl)}"
        yield f"              {miss.field} would have to be {shown(miss.asked)}, not {shown(miss.has)}"
    for number, command in enumerate(explanation.fix):
        yield f"  {'' if number else 'to allow it':11} {shown(command)}"


def _acl(acl: AppliedAcl) -> str:
    record = acl.record
    text = (
        f"{code_to_name(AclPermissionType, record.permission_type)} {record.principal} "
        f"{code_to_name(AclOperation, record.operation)} on "
        f"{ResourceType.from_code(record.resource_type).title}:"
        f"{code_to_name(PatternType, record.pattern_type)}:{record.resource_name} from {record.host}"
    )
    # A checkpoint keeps neither the offset nor the time of the record that wrote an ACL.
    place = "from a checkpoint" if acl.offset is None else f"offset {acl.offset}, {utc(acl.timestamp_ms)}"
    return f"{shown(text)} ({place}, {uuid_to_string(record.id)})"
