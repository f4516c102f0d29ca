"""Text form of an explanation: the decision, its reason, near misses and commands that would allow it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from authorizer.api.acl_text import pattern_text
from authorizer.cli.rendering.acls import acl_line, decided_by
from authorizer.cli.rendering.output import shown, utc
from authorizer.cli.rendering.terminal import bad, good, wrapped, wrapped_command
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.explanation.explain import Explanation
    from records.columns.acl_table import AppliedAcl

#: Column of the text after a label.
_INDENT: Final = 14
_COMMAND_LABELS: Final = ("to allow it", "or in Kafka")


def decision_line(explanation: Explanation, at_offset: int | None = None, source: str | None = None) -> str:
    """One line: ``DENIED by DefaultDeny at end offset 281: User:a READ on TOPIC:LITERAL:t from 10.0.0.1``."""
    decision = explanation.decision
    state = _state(explanation, at_offset, source)
    return f"{_result(decision)} by {decided_by(decision)} {state}: {_request(explanation)}"


def explanation_lines(
    explanation: Explanation,
    *,
    columns: int | None,
    commands: Sequence[Sequence[str]],
    at_offset: int | None = None,
    uncommitted_from: int | None = None,
    host_assumed: bool = False,
    source: str | None = None,
) -> Iterator[str]:
    """The lines of an explanation; each ACL has its offset and id.

    ``columns``: where to wrap; None for a pipe, which gets one line for each item. ACLs from
    ``uncommitted_from`` on are marked. ``source``: name of a set of ACLs without offsets; None for a log.
    """
    decision = explanation.decision
    yield f"{_result(decision)} by {decision.rule.value} {_state(explanation, at_offset, source)}"
    for label, text in _lines(explanation, uncommitted_from, source, host_assumed=host_assumed):
        yield wrapped(f"  {label:11} {text}", columns, _INDENT)
    command_columns = None if columns is None else columns - _INDENT
    for label, words in zip(_COMMAND_LABELS, commands, strict=False):
        for number, flags in enumerate(explanation.fix):
            command = wrapped_command([*words, *map(shown, flags)], command_columns, indent=4)
            yield f"  {'' if number else label:11} " + command.replace("\n", "\n" + " " * _INDENT)


def _lines(
    explanation: Explanation, uncommitted_from: int | None, source: str | None, *, host_assumed: bool
) -> Iterator[tuple[str, str]]:
    """Label and text of each line below the decision."""
    decision = explanation.decision
    yield "asked", _request(explanation) + (" (assumed: --host was not given)" if host_assumed else "")
    yield "because", explanation.reason
    yield "rules of", str(explanation.kafka_version)
    for each in explanation.notes:
        yield "note", each
    if decision.acl is not None:
        yield "decided by", _acl(decision.acl, uncommitted_from, source)
    for acl in explanation.also_matched:
        yield "matches too", _acl(acl, uncommitted_from, source)
    for miss in explanation.near_misses:
        yield "near miss", _acl(miss.acl, uncommitted_from, source)
        yield " ", f"{miss.field} would have to be {shown(miss.requested)}, not {shown(miss.value)}"


def _state(explanation: Explanation, at_offset: int | None, source: str | None) -> str:
    if source is not None:
        return f"in {shown(source)}"
    after = "" if at_offset is None else f", after the record at offset {at_offset}"
    return f"at end offset {explanation.end_offset}{after}"


def _request(explanation: Explanation) -> str:
    context, action = explanation.context, explanation.action
    pattern = action.resource_pattern
    resource = pattern_text(
        {
            "resourceType": pattern.resource_type.name,
            "patternType": pattern.pattern_type.name,
            "resourceName": shown(pattern.name),
        }
    )
    principal, host = shown(str(context.principal)), shown(context.client_address)
    return f"{principal} {action.operation.name} on {resource} from {host}"


def _result(decision: Decision) -> str:
    return (good if decision.is_allowed else bad)(decision.result.value)


def _acl(acl: AppliedAcl, uncommitted_from: int | None, source: str | None) -> str:
    record = acl.record
    if source is not None:
        return acl_line(record)
    # A checkpoint has neither the offset nor the time of the record that added an ACL.
    place = "from a checkpoint" if acl.timestamp_ms >= 0 else "brokers do not say when it was written"
    if acl.offset is not None:
        place = f"offset {acl.offset}, {utc(acl.timestamp_ms)}"
    if acl.offset is not None and uncommitted_from is not None and acl.offset >= uncommitted_from:
        place += ", not known to be committed"
    return f"{acl_line(record)} ({place}, {uuid_to_string(record.id)})"
