"""Notes about requests that are probably mistyped: a principal or a name that no ACL and no record has.

Every request has an answer, so a mistyped one has one, too. A note may need a search of all names, which only
commands make.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from authorizer.cli.rendering.output import shown
from authorizer.engine.decisions.search import mentioned_names, mentioned_principals
from records.acl import WILDCARD, ResourceType
from records.principal import EVERYONE
from records.topic_name import TOPIC_LENGTH_MAX, is_topic_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from authorizer.api.authorizer_api import Action
    from authorizer.engine.decisions.state import AuthorizerState
    from records.principal import KafkaPrincipal

#: Least similarity of a name to propose, as of difflib.
_SIMILARITY_MIN: Final = 0.75
#: Most names that difflib compares, in 0.1 s.
_COMPARED_MAX: Final = 2000


def request_notes(
    state: AuthorizerState | None, principal: KafkaPrincipal, action: Action, *, is_allowed: bool
) -> tuple[str, ...]:
    """Return the notes about a request; ``state`` is None if its ACLs are not known here."""
    pattern = action.resource_pattern
    parts = [
        principal_note(state, principal, is_allowed=is_allowed),
        resource_note(state, pattern.resource_type, pattern.name, is_allowed=is_allowed),
    ]
    if state is not None and not state.index.resources.count and not is_allowed:
        parts = ["there are no ACLs in this state"]
    return tuple(shown(each) for each in parts if each is not None)


def principal_note(
    state: AuthorizerState | None, principal: KafkaPrincipal, *, is_allowed: bool
) -> str | None:
    """Return a note about a caller that no ACL, super user or credential has.

    If the request is allowed, only a similar principal is worth a note.
    """
    if principal.name == WILDCARD:
        return (
            f"no client has the principal {principal}: in ACLs {EVERYONE} stands for all principals; name "
            "one, such as User:alice"
        )
    similar = None
    if state is not None:
        if _is_known(state, str(principal)):
            return None
        known = mentioned_principals(state.index) | state.index.image.metadata.known_principals
        similar = _similar_principal(principal, known | state.settings.super_users)
    user = EVERYONE.principal_type
    if similar is None and principal.principal_type.lower() == user.lower():
        similar = f"{user}:{principal.name}"
    if similar == str(principal):
        similar = None
    if similar is None:
        return None if state is None or is_allowed else f"no ACL names {principal}"
    unknown = [] if state is None else [f"no ACL names {principal}"]
    if similar.casefold() == str(principal).casefold():
        unknown.append("principals are case-sensitive")
    return f"{', and '.join(unknown)}; did you mean {similar}?"


def resource_note(
    state: AuthorizerState | None, resource_type: ResourceType, name: str, *, is_allowed: bool
) -> str | None:
    """Return a note about a name that no ACL has, and no topic; and about a pattern in place of a name.

    If the request is allowed, only a similar name is worth a note, unless the log has all topics.
    """
    is_topic = resource_type is ResourceType.TOPIC
    kind = resource_type.name.lower().replace("_", " ")
    is_literal = state is not None and state.index.resources.has((resource_type, name))
    if name.endswith(WILDCARD) and (name == WILDCARD or not is_literal):
        return f"{name} is taken as the name of one {kind}; `aclog who-can` answers for all with a prefix"
    if is_topic and not is_topic_name(name):
        return (
            f"no topic can have the name {name}: topics have up to {TOPIC_LENGTH_MAX} letters, digits, `.`, "
            "`_` and `-`"
        )
    if state is None or is_literal or resource_type is ResourceType.CLUSTER:
        return None
    topics = state.index.image.metadata.known_topics if is_topic else None
    if topics is not None and name in topics:
        return None
    if topics is None and any(True for _ in state.index.resources.prefixes_of(resource_type, name)):
        return None
    similar = _similar(name, mentioned_names(state.index, resource_type).union(topics or ()))
    unknown = f"no ACL names {kind} {name}" if topics is None else f"the log has no topic {name}"
    if similar is not None:
        return f"{unknown}; did you mean {similar}?"
    is_covered = state.index.resources.covers(resource_type, name)
    return unknown if topics is not None or not (is_allowed or is_covered) else None


def _is_known(state: AuthorizerState, principal: str) -> bool:
    index = state.index
    return (
        len(index.rows_of(principal)) > 0
        or principal in state.settings.super_users
        or principal in index.image.metadata.known_principals
        or any(True for _ in index.added_of(principal))
    )


def _similar_principal(principal: KafkaPrincipal, known: Collection[str]) -> str | None:
    """A principal that differs in case alone, or in its type, or has a similar name; in this order."""
    for differs in (str.casefold, _name_of):
        same = [each for each in known if differs(each) == differs(str(principal))]
        if same:
            return min(same)
    prefix = f"{principal.principal_type}:"
    names = [each.removeprefix(prefix) for each in known if each.startswith(prefix)]
    similar = _similar(principal.name, names)
    return None if similar is None else prefix + similar


def _name_of(principal: str) -> str:
    return principal.partition(":")[2]


def _similar(name: str, known: Collection[str]) -> str | None:
    """The most similar name; of very many, among those that share half of it."""
    folded = name.casefold()
    same = [each for each in known if each.casefold() == folded]
    if same:
        return min(same)
    if len(known) > _COMPARED_MAX:
        half = (len(name) + 1) // 2
        begin, end = name[:half], name[-half:]
        known = sorted(each for each in known if each.startswith(begin) or each.endswith(end))[:_COMPARED_MAX]
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=_SIMILARITY_MIN)), None)
