"""Notes of ``aclog blame`` about a request or an ACL that is probably mistyped, as of ``aclog check``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.analysis.history.blame import RequestSubject
from authorizer.cli.rendering.output import note, shown
from authorizer.cli.request_notes import principal_note, request_notes, resource_note
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import WILDCARD, PatternType, ResourceType
from records.ids import uuid_to_string
from records.principal import EVERYONE, parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.analysis.history.blame import AclSubject, SubjectAnswer
    from authorizer.cli.blame.log_history import NamedHistory
    from authorizer.cli.workspace import Workspace


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
