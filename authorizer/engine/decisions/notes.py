"""Notes: unknown facts that a denial depends on.

Each note is a sentence: what may differ on the brokers, and what to set. The brokers give the same answer as
a denial without a note. If the brokers' release is not known, the state decides by the strictest rules:
ALLOWED means that every release allows. A denial may be the answer of some releases only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.ip_address import EXACT_HOSTS, NETWORK_HOSTS, STRICTEST, NetworkRules
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG, NEWEST
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import is_super_user, verdict
from authorizer.engine.index.masks import REQUEST_BITS

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState


class ReleaseDifference(NamedTuple):
    """The results of the releases that do not match networks, and of those that do."""

    allowed_before: bool
    allowed_since: bool

    def __str__(self) -> str:
        """``ALLOWED from Kafka 4.4 on, DENIED before``."""
        before, since = ("ALLOWED" if each else "DENIED" for each in self)
        return f"{since} from Kafka {NEWEST.value} on, {before} before"


def release_difference(decided: DecidedAction) -> ReleaseDifference | None:
    """Return the results of the possible releases for one decision if they differ; else None."""
    # A mask that is an int depends on no host; operations without a mask are decided ACL by ACL.
    if (
        type(decided.cover.combined) is type(decided.wildcard_cover.combined) is int
        and REQUEST_BITS[decided.action.operation]
    ):
        return None
    state, context, action = decided.state, decided.context, decided.action
    if state.index.rows.networks != STRICTEST or decided.is_allowed:
        return None
    found = ReleaseDifference(
        *(is_allowed_by(state, context, action, each) for each in (EXACT_HOSTS, NETWORK_HOSTS))
    )
    return None if found.allowed_before is found.allowed_since else found


def is_allowed_by(
    state: AuthorizerState, context: AuthorizableRequestContext, action: Action, networks: NetworkRules
) -> bool:
    """Return the result by these network rules, ACL by ACL. Slow."""
    settings, pattern = state.settings, action.resource_pattern
    if is_super_user(settings.super_names, context.principal):
        return True
    matching = [acl.record for acl in matching_acls(state.index, context, action, networks)]
    is_covered = bool(matching) or state.index.resources.covers(pattern.resource_type, pattern.name)
    is_allowed, _ = verdict(matching, is_covered=is_covered, allow_everyone=settings.allow_everyone)
    return is_allowed


_ALLOWED: Final = AuthorizationResult.ALLOWED
_UNKNOWN: Final = {
    SUPER_USERS_CONFIG: "super users are allowed everything",
    ALLOW_EVERYONE_CONFIG: "if it is true, everyone is allowed what no ACL covers",
}


def unknown_setting(key: str) -> str:
    """Return the note for an unknown setting of the brokers."""
    return f"{key} is unknown here: {_UNKNOWN[key]}; set it in --config as the brokers have it"


def unknown_settings(settings: AuthorizerSettings) -> tuple[str, ...]:
    """Return the notes for all unknown settings."""
    return tuple(unknown_setting(key) for key in _UNKNOWN if key in settings.unknown_keys)


def unknown_release(state: AuthorizerState) -> tuple[str, ...]:
    """Return the note for ACLs that releases match differently, if the release is not known."""
    rows, changes = state.index.rows, state.index.image.changes.values()
    added = (each for each in changes if each is not None)
    if rows.networks != STRICTEST or not (
        rows.may_have_networks or any("/" in each.record.host for each in added)
    ):
        return ()
    text = (
        "ACLs have networks as their hosts, and the release of the brokers is not known here (Kafka "
        f"{state.version.label}): ALLOWED is what each of these releases allows; say which by "
        f"{KAFKA_VERSION_CONFIG} or --as"
    )
    return (text,)


def notes(decided: DecidedAction) -> tuple[str, ...]:
    """Return the notes of one decision; none if it is ALLOWED, as no unknown setting denies."""
    if decided.result is _ALLOWED:
        return ()
    difference, unknown = release_difference(decided), decided.state.settings.unknown_keys
    if difference is None and not unknown:
        return ()
    found = []
    if difference is not None:
        found.append(
            f"{difference}: an ACL has a network as its host, and the release of the brokers is not known "
            f"here; say which by {KAFKA_VERSION_CONFIG} or --as"
        )
    if SUPER_USERS_CONFIG in unknown:
        found.append(unknown_setting(SUPER_USERS_CONFIG))
    if ALLOW_EVERYONE_CONFIG in unknown and is_decided_by_default(decided):
        found.append(unknown_setting(ALLOW_EVERYONE_CONFIG))
    return tuple(found)


def is_decided_by_default(decided: DecidedAction) -> bool:
    """Return whether no ACL of any principal covers the name, so that the default decides."""
    pattern, resources = decided.action.resource_pattern, decided.state.index.resources
    return not decided.answer and not resources.covers(pattern.resource_type, pattern.name)
