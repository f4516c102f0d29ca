"""authorize(): the results of actions, counted and audited. The hot path.

One loop for one action or ten thousand: the mask of all ACLs that cover the name, and the bits of the
operation. The deciding ACL is found only when it is needed (`decision`, `reason`). The rules that this loop
follows are stated in `rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.audit_levels import DEBUG, INFO, OFF, TRACE, audit_level
from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.decision import BY_SUPER_USER, DecidedAction, DecisionCounts
from authorizer.engine.decisions.reason import answer_acl_by_acl
from authorizer.engine.decisions.rules import require_literal, require_ready
from authorizer.engine.index.covers import NO_COVER
from authorizer.engine.index.masks import REQUEST_BITS, denies, leaf_mask
from authorizer.engine.index.rights import NO_RIGHTS_OF_TYPE
from records.acl import PatternType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.decisions.decision import Decision
    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.rights import Rights

# Looked up once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL


def decide(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Decision:
    """Return one decision with its reason, neither counted nor audited; raises as `authorize_actions`."""
    return authorize_action(state, context, action).decision()


def authorize_action(
    state: AuthorizerState, context: AuthorizableRequestContext, action: Action
) -> DecidedAction:
    """Return the same without the reason, which is computed when it is requested."""
    decided: list[DecidedAction] = []
    authorize_actions(state, context, (action,), AuditLog(OFF), DecisionCounts(), decided)
    return decided[0]


def authorize_actions(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
    decided: list[DecidedAction] | None = None,
) -> list[AuthorizationResult]:
    """Return one result for each action, all by one state; counted, and audited if the level is enabled.

    ``decided``, if it is given, gets a DecidedAction for each.

    Raises:
        ValueError: a resource is not LITERAL; the actions before it are counted and audited.
        AuthorizerNotReadyError: not ready, and not a super user.
    """
    principal = context.principal
    settings = state.settings
    # rules.is_super_user, without a call.
    if principal.name in settings.super_names.get(principal.principal_type, ()):
        return _authorize_super_user(state, context, actions, audit, counts, decided)
    if not state.is_ready:
        for action in actions:
            require_literal(action)
            counts.not_ready += 1
            require_ready(state.not_ready_reason)
    # Read once: if it is off, an action without a matching ACL needs no call.
    allow_everyone = settings.allow_everyone
    threshold = audit.threshold if decided is None else TRACE
    own, everyone = state.index.principals.rights_for(principal)
    host = context.client_address
    mask = 0
    last = last_type = None
    own_rights: Rights = NO_RIGHTS_OF_TYPE
    common_rights: Rights = NO_RIGHTS_OF_TYPE
    own_cover = common = NO_COVER
    results = []
    for action in actions:
        pattern = action.resource_pattern
        if pattern is not last:
            if pattern.pattern_type is not _LITERAL:
                require_literal(action)
            if pattern.resource_type is not last_type:
                last_type = pattern.resource_type
                own_rights, common_rights = own[last_type], everyone[last_type]
            name = pattern.name
            # index.rights.cover_of, without a call for a name that is known.
            own_cover = own_rights.named.get(name, own_rights.others) or own_rights.cover(name)
            common = common_rights.named.get(name, common_rights.others) or common_rights.cover(name)
            leaf, common_leaf = own_cover.combined, common.combined
            mask = leaf if type(leaf) is int else leaf_mask(leaf, host)
            mask |= common_leaf if type(common_leaf) is int else leaf_mask(common_leaf, host)
            last = pattern
        request_bits = REQUEST_BITS[action.operation]
        authorize_action = (
            mask & request_bits if request_bits else answer_acl_by_acl(state.index, context, action)
        )
        if authorize_action:
            if denies(authorize_action):
                result = _DENIED
                counts.acl_denied += 1
            else:
                result = _ALLOWED
                counts.acl_allowed += 1
        elif allow_everyone and state.allows_by_default(pattern):
            result = _ALLOWED
            counts.default_allowed += 1
        else:
            result = _DENIED
            counts.default_denied += 1
        results.append(result)
        # audit.audit_level, without a call for what is not written.
        if result is _DENIED:
            level = INFO if action.log_if_denied else TRACE
        else:
            level = DEBUG if action.log_if_allowed else TRACE
        if level >= threshold:
            answered = DecidedAction(
                state, context, action, level, authorize_action, result, own_cover, common
            )
            if decided is not None:
                decided.append(answered)
            if level >= audit.threshold:
                audit.write(answered)
    return results


def _authorize_super_user(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
    decided: list[DecidedAction] | None,
) -> list[AuthorizationResult]:
    for action in actions:
        require_literal(action)
        counts.super_user_allowed += 1
        level = audit_level(action, allowed=True)
        answered = DecidedAction(
            state, context, action, level, 0, _ALLOWED, NO_COVER, NO_COVER, BY_SUPER_USER
        )
        if decided is not None:
            decided.append(answered)
        if level >= audit.threshold:
            audit.write(answered)
    return [_ALLOWED] * len(actions)
