"""The results of each possible release, if the brokers' release is not known.

The state decides by the strictest rules: ALLOWED means that every release allows. A denial may be the answer
of some releases only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from authorizer.api.ip_network import EXACT_HOSTS, NETWORK_HOSTS, STRICTEST, NetworkRules
from authorizer.api.kafka_version import NEWEST
from authorizer.engine.decisions.reason import matching_acls
from authorizer.engine.decisions.rules import is_super_user, verdict
from authorizer.engine.index.masks import REQUEST_BITS

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.engine.decisions.state import AuthorizerState


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
