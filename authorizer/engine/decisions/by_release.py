"""What each release answers, where it is not known which one the brokers are.

The state decides by the strictest rules: ALLOWED is what every release allows. A denial may then be one by
some of the releases alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from authorizer.api.ip_network import EXACT_HOSTS, NETWORK_HOSTS, STRICTEST
from authorizer.api.kafka_version import NEWEST
from authorizer.engine.decisions.reason import allows, matching_acls
from authorizer.engine.index.masks import REQUEST_BITS

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.api.ip_network import NetworkRules
    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.engine.decisions.state import AuthorizerState


class ReleaseDifference(NamedTuple):
    """What the releases answer that do not match networks, and those that do."""

    allowed_before: bool
    allowed_since: bool

    def __str__(self) -> str:
        """``ALLOWED from Kafka 4.4 on, DENIED before``."""
        before, since = ("ALLOWED" if each else "DENIED" for each in self)
        return f"{since} from Kafka {NEWEST.value} on, {before} before"


def release_difference(answered: DecidedAction) -> ReleaseDifference | None:
    """What the releases that it may be answer to one question, if that is not the same; else None."""
    # A mask that is an int depends on no host; operations without a mask are decided ACL by ACL.
    if (
        type(answered.own.said) is type(answered.common.said) is int
        and REQUEST_BITS[answered.action.operation]
    ):
        return None
    state, context, action = answered.state, answered.context, answered.action
    if state.index.rows.networks != STRICTEST or answered.is_allowed:
        return None
    found = ReleaseDifference(
        *(is_allowed_by(state, context, action, each) for each in (EXACT_HOSTS, NETWORK_HOSTS))
    )
    return None if found.allowed_before is found.allowed_since else found


def is_allowed_by(
    state: AuthorizerState, context: AuthorizableRequestContext, action: Action, networks: NetworkRules
) -> bool:
    """What these rules answer: for what is rare, ACL by ACL."""
    principal, settings = context.principal, state.settings
    if principal.name in settings.super_names.get(principal.principal_type, ()):
        return True
    matching = matching_acls(state.index, context, action, networks)
    if matching:
        return all(allows(acl.record) for acl in matching)
    return state.allows_by_default(action.resource_pattern)
