"""Output of ``aclog blame``: the first answer, every change of it, the answer now, and notes.

The notes are about a request or an ACL that is probably mistyped, as those of ``aclog check``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.history.blame import NewRelease, RequestSubject
from authorizer.analysis.history.history import change_json
from authorizer.api.acl_json import applied_acl_json
from authorizer.cli.rendering.acls import acl_line
from authorizer.cli.rendering.output import answer, note, print_fact, print_json, shown, utc
from authorizer.cli.rendering.terminal import bad, good
from authorizer.cli.request_notes import principal_note, request_notes, resource_note
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import WILDCARD, PatternType, ResourceType
from records.ids import uuid_to_string
from records.principal import EVERYONE, parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.history.blame import AclSubject, AnswerChange, Change, SubjectAnswer
    from authorizer.analysis.history.history import HistoryStep
    from authorizer.cli.blame.log_history import NamedHistory
    from authorizer.cli.workspace import Workspace
    from records.columns.acl_table import AppliedAcl


#: Width of a line's label.
_LABEL_WIDTH: Final = 9
_SIGNS: Final = {"added": "+", "replaced": "~", "removed": "-"}


class Report:
    """Prints changes as the history is read."""

    def __init__(self, history: NamedHistory, subject: RequestSubject | AclSubject, *, as_json: bool) -> None:
        self._history = history.extent
        self._subject = subject
        self._as_json = as_json
        #: Whether a change or missing records were printed.
        self.has_changes = False
        # The last record that changed the answer.
        self._since: Change | NewRelease | None = None
        # No record is missing from this offset on.
        self._known_from = self._history.begin

    def begin(self, first: SubjectAnswer) -> None:
        history = self._history
        if isinstance(self._subject, RequestSubject) and self._subject.is_of_super_user:
            note("the principal is a super user: no ACL affects it")
        if self._as_json:
            print_json(
                {
                    "begin": history.begin,
                    "origin": history.origin,
                    "whole": history.is_complete,
                    **_json(first),
                }
            )
            return
        print_fact("history", f"{shown(history.name)}, from {shown(history.origin)}", _LABEL_WIDTH)
        before = (
            ""
            if history.is_complete
            else f" at offset {history.begin}; earlier records are not in this history"
        )
        print_fact("first", f"{_answer_text(first)}{before}", _LABEL_WIDTH)
        _print_acls(first)

    def unknown(self, first: int, end: int) -> None:
        """Print that records are missing, so that the answers between two offsets are unknown."""
        self.has_changes = True
        self._known_from, self._since = end, None
        if self._as_json:
            print_json({"unknownFrom": first, "endOffset": end})
        else:
            answer(
                f"  ? offset {first} to {end - 1}: records are missing, so answers in between are unknown",
                indent=4,
            )

    def change(self, step: HistoryStep, change: AnswerChange) -> None:
        """Print a change of the answer, or of the ACLs that decide it."""
        self.has_changes = True
        if change.is_decision_change and step.unknown_from is None:
            self._since = change.changes[-1]
        direction = None
        if change.is_decision_change:
            names = ("granted", "revoked") if change.after.decision is not None else ("added", "removed")
            direction = names[0] if change.after.holds else names[1]
        if self._as_json:
            print_json(
                {
                    "flip": direction,
                    "endOffset": step.end_offset,
                    "records": [change_json(each) for each in change.changes],
                    "before": _json(change.before),
                    "after": _json(change.after),
                }
            )
            return
        title = "still" if direction is None else (good if change.after.holds else bad)(direction.upper())
        for record in change.changes:
            if isinstance(record, NewRelease):
                answer(
                    f"  * {_offset_text(record.offset, record.timestamp_ms)}: by the rules of Kafka "
                    f"{record.version} from here on, as brokers registered; before that, of "
                    f"{record.previous}",
                    6,
                )
                continue
            answer(
                f"  {_SIGNS[record.kind]} {_offset_text(record.offset, record.timestamp_ms)}: "
                f"{record.kind} {acl_line(record.acl)} ({uuid_to_string(record.acl.id)})",
                6,
            )
            if record.replaced is not None:
                answer(f"    was {acl_line(record.replaced)}", 6)
        answer(f"    {title}  {_answer_text(change.before)}, then {_answer_text(change.after)}", 6)

    def end(self, last: SubjectAnswer) -> None:
        """Print the answer now, since when, and the ACLs that decide it."""
        since = self._since
        if self._as_json:
            print_json(
                {
                    "end": self._history.end,
                    "since": None if since is None else since.offset,
                    "knownFrom": self._known_from,
                    **_json(last),
                    "by": [applied_acl_json(acl) for acl in last.by],
                }
            )
            return
        if since is not None:
            when = f"since {_offset_text(since.offset, since.timestamp_ms)}"
        elif self._known_from == 0:
            when = "since the beginning"
        else:
            when = f"since offset {self._known_from} at the latest; earlier records are not in this history"
        print_fact("now", f"{_answer_text(last)}, {when}", _LABEL_WIDTH)
        _print_acls(last)


def _json(current: SubjectAnswer) -> dict[str, Any]:
    decision = current.decision
    if decision is None:
        return {"inForce": current.holds}
    return decision.to_json() | {"acl": None if decision.acl is None else applied_acl_json(decision.acl)}


def _answer_text(current: SubjectAnswer) -> str:
    """The answer with the offset and id of its ACL; the content was printed when it was added."""
    decision = current.decision
    if decision is None:
        return "in force" if current.holds else "not in force"
    by = decision.rule if decision.acl is None else f"the ACL of {_source_text(decision.acl)}"
    return f"{decision.result.value} by {by}"


def _print_acls(current: SubjectAnswer) -> None:
    for acl in current.by:
        answer(f"  by {_source_text(acl)}: {acl_line(acl.record)}", 6)


def _offset_text(offset: int, timestamp_ms: int) -> str:
    return f"offset {offset}" + (f", {utc(timestamp_ms)}" if timestamp_ms >= 0 else "")


def _source_text(acl: AppliedAcl) -> str:
    source = "a checkpoint" if acl.offset is None else _offset_text(acl.offset, acl.timestamp_ms)
    return f"{source} ({uuid_to_string(acl.record.id)})"


def note_unknown_subject(
    workspace: Workspace, history: NamedHistory, subject: RequestSubject | AclSubject, current: SubjectAnswer
) -> None:
    """Print notes about a subject whose answer never changed."""
    if isinstance(subject, RequestSubject):
        principal = subject.context.principal
        if any(each.record.principal == str(principal) for each in current.by):
            return  # an ACL names it: the other ACLs, which take a load, need not be known
        state = _last_state(history, subject.settings)
        found = request_notes(state, principal, subject.action, is_allowed=current.holds)
    elif current.holds:
        return
    elif subject.content is None:
        found = (f"this history has no ACL with the id {uuid_to_string(subject.id or b'')}",)
    else:
        settings = AuthorizerSettings.from_configs(workspace.config.properties)
        found = tuple(_acl_notes(_last_state(history, settings), *subject.content[:4]))
    note(*found)


def _last_state(history: NamedHistory, settings: AuthorizerSettings) -> AuthorizerState | None:
    image = history.last_image()
    if image is None:
        return None
    return AuthorizerState(settings.index(image), settings)


def _acl_notes(
    state: AuthorizerState | None, resource_type: int, name: str, pattern_type: int, principal: str
) -> Iterator[str]:
    """Yield notes about an ACL that was never in force."""
    found = []
    if principal != str(EVERYONE):
        found.append(principal_note(state, parse_kafka_principal(principal), is_allowed=False))
    if pattern_type == PatternType.LITERAL and name != WILDCARD:
        found.append(resource_note(state, ResourceType(resource_type), name, is_allowed=False))
    return (shown(each) for each in found if each is not None)
