"""Notes: unknown facts that a denial depends on.

Each note is a sentence: what may differ on the brokers, and what to set. The brokers give the same answer as
a denial without a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.api.ip_network import STRICTEST
from authorizer.api.kafka_version import KAFKA_VERSION_CONFIG
from authorizer.api.principal_lists import ALLOW_EVERYONE_CONFIG, SUPER_USERS_CONFIG
from authorizer.engine.decisions.by_release import release_difference

if TYPE_CHECKING:
    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState

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
