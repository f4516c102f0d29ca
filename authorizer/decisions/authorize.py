"""authorize(): results, as fast as Python allows, counted and audited.

One loop for one action or ten thousand: what all ACLs of a name say together, as a mask, asked for the
operation. Which of the ACLs decided is looked for only if the caller or the audit log wants to know
(`decision`, `reason`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api import AuthorizationResult
from authorizer.decisions.audit import AuditLog
from authorizer.decisions.audit_levels import DEBUG, INFO, OFF, TRACE, audit_level
from authorizer.decisions.decision import BY_SUPER_USER, Answered, require_literal, require_ready
from authorizer.decisions.decision_counts import DecisionCounts
from authorizer.decisions.reason import answer_acl_by_acl
from authorizer.index.masks import ASKED, denies, leaf_mask
from records.acl import PatternType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decisions.decision import Decision
    from authorizer.decisions.reason import Askers
    from authorizer.decisions.state import AuthorizerState

# Looked up once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL


def decide(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Decision:
    """One decision with its reason, neither counted nor audited; raises as `authorize_actions`."""
    decisions: list[Decision] = []
    authorize_actions(state, context, (action,), AuditLog(OFF), DecisionCounts(), decisions)
    return decisions[0]


def authorize_actions(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
    decisions: list[Decision] | None = None,
) -> list[AuthorizationResult]:
    """One result for each action, all by one state; counted, and audited if the audit log wants to know.

    ``decisions``, if it is given, gets the results with their reasons.

    Raises:
        ValueError: a resource is not LITERAL; the actions before it are counted and audited.
        AuthorizerNotReadyError: not ready, and not a super user.
    """
    principal = context.principal
    settings = state.settings
    if principal.name in settings.super_names.get(principal.principal_type, ()):
        return _authorize_super_user(state, context, actions, audit, counts, decisions)
    if not state.is_ready:
        for action in actions:
            require_literal(action)
            counts.not_ready += 1
            require_ready(state)
    # Read once: where it is off, an action that no ACL answers needs no call to find that out.
    allow_everyone = settings.allow_everyone
    threshold = audit.threshold if decisions is None else TRACE
    own, everyone = state.index.principals.rights_for(principal)
    host = context.client_address
    mask = 0
    last = last_type = None
    askers: Askers = (None, None)
    results = []
    for action in actions:
        pattern = action.resource_pattern
        if pattern is not last:
            if pattern.pattern_type is not _LITERAL:
                require_literal(action)
            if pattern.resource_type is not last_type:
                last_type = pattern.resource_type
                askers = own[last_type], everyone[last_type]
            name = pattern.name
            mask = 0
            for rights in askers:
                if rights is not None:
                    # index.rights.said, without a call for a name that is known.
                    leaf = rights.named.get(name)
                    if leaf is None:
                        leaf = rights.leaf(name)
                    mask |= leaf if type(leaf) is int else leaf_mask(leaf, host)
            last = pattern
        asked = ASKED[action.operation]
        answer = mask & asked if asked else answer_acl_by_acl(state.index, context, action)
        if answer:
            if denies(answer):
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
            answered = Answered(answer, result, askers)
            decided: Answered | Decision = answered
            if decisions is not None:
                decided = answered.decision(state, context, action)
                decisions.append(decided)
            if level >= audit.threshold:
                audit.write(level, state, context, action, decided)
    return results


def _authorize_super_user(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
    decisions: list[Decision] | None,
) -> list[AuthorizationResult]:
    for action in actions:
        require_literal(action)
        counts.super_user_allowed += 1
        if decisions is not None:
            decisions.append(BY_SUPER_USER)
        level = audit_level(action, allowed=True)
        if level >= audit.threshold:
            audit.write(level, state, context, action, BY_SUPER_USER)
    return [_ALLOWED] * len(actions)
