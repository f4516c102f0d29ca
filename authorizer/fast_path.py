"""authorize(): the decisions of `authorizer.decision`, as fast as Python allows.

One function, because calls are what costs most here. It asks the index for masks (what all ACLs of a name say
together); `authorizer.decision` finds the same results ACL by ACL, and tests hold the two against each other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from authorizer.api import AuthorizationResult
from authorizer.audit import DEBUG, INFO, TRACE, audit_level
from authorizer.decision import Decision, Rule, decide, require_literal, require_ready
from authorizer.masks import ASKED, DENY_BASE
from records.acl import WILDCARD, PatternType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.audit import AuditLog
    from authorizer.decision_counts import DecisionCounts
    from authorizer.state import AuthorizerState

# Looked up once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL


def authorize_actions(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
) -> list[AuthorizationResult]:
    """One result for each action, all by one state; counted, and audited if the audit log wants to know.

    Raises:
        ValueError: a resource is not LITERAL.
        AuthorizerNotReadyError: not ready, and not a super user.
    """
    settings = state.settings
    principal = context.principal
    threshold = audit.threshold
    writes_all, writes_allowed, writes_denied = threshold <= TRACE, threshold <= DEBUG, threshold <= INFO
    super_names = settings.super_names.get(principal.principal_type)
    if super_names is not None and principal.name in super_names:
        return _authorize_super_user(state, context, actions, audit, counts)
    if not state.is_ready:
        for action in actions:
            require_literal(action)
            counts.not_ready += 1
            require_ready(state)

    index = state.index
    names = index.principals.get(principal.principal_type)
    own = None if names is None else names.get(principal.name)
    askers = (index.everyone,) if own is None else (own, index.everyone)
    host = context.client_address
    results = []
    for action in actions:
        pattern = action.resource_pattern
        if pattern.pattern_type is not _LITERAL:
            require_literal(action)
        resource_type = pattern.resource_type
        name = pattern.name
        mask = 0
        for rights_by_type in askers:
            rights = rights_by_type[resource_type]
            if rights is None:
                continue
            # What covers a name: the literal *, the name itself, its prefixes.
            leaf = rights.star
            if leaf is not None:
                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
            leaf = rights.literals.get(name)
            if leaf is not None:
                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
            prefixes = rights.prefixes
            if prefixes is not None:
                # PrefixRanges.mask, where all ranges are in one chunk and the leaf is worked out.
                chunk = prefixes.only
                leaf = None if chunk is None else chunk.leaves[bisect_right(chunk.bounds, name)]
                if isinstance(leaf, int):
                    mask |= leaf
                elif leaf is not None:
                    mask |= leaf.get(host) or leaf[WILDCARD]
                else:
                    mask |= prefixes.mask(name, host)

        asked = ASKED[action.operation]
        answer = mask & asked
        if answer >= DENY_BASE:
            result = _DENIED
            counts.acl_denied += 1
        elif answer:
            result = _ALLOWED
            counts.acl_allowed += 1
        elif not asked:
            decision = decide(state, context, action)
            result = decision.result
            counts.add(decision)
        elif settings.allow_everyone and not index.resources[resource_type].covers(name):
            result = _ALLOWED
            counts.default_allowed += 1
        else:
            result = _DENIED
            counts.default_denied += 1
        # audit.audit_level, without a call for what is not written.
        if result is _DENIED:
            is_written = writes_denied and (action.log_if_denied or writes_all)
        else:
            is_written = writes_allowed and (action.log_if_allowed or writes_all)
        if is_written:
            write_audit(state, context, action, result, audit, by_acl=bool(answer) or not asked)
        results.append(result)
    return results


def _authorize_super_user(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
) -> list[AuthorizationResult]:
    for action in actions:
        require_literal(action)
        counts.super_user_allowed += 1
        write_audit(state, context, action, _ALLOWED, audit, by_acl=False)
    return [_ALLOWED] * len(actions)


def write_audit(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    result: AuthorizationResult,
    audit: AuditLog,
    *,
    by_acl: bool,
) -> None:
    """Write a result down if its level is enabled; only then look for the ACL, if one decided."""
    allowed = result is _ALLOWED
    if audit_level(action, allowed=allowed) < audit.threshold:
        return
    if by_acl or state.is_super_user(context.principal):
        decision = decide(state, context, action)
    else:
        decision = Decision(result, Rule.DEFAULT_ALLOW if allowed else Rule.DEFAULT_DENY)
    write_decision(state, context, action, decision, audit)


def write_decision(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    decision: Decision,
    audit: AuditLog,
) -> None:
    """Write down a decision that is known with its reason, if its level is enabled."""
    allowed = decision.is_allowed
    level = audit_level(action, allowed=allowed)
    if level < audit.threshold:
        return
    acl = decision.acl
    audit.write(
        level,
        context,
        action,
        allowed=allowed,
        rule=decision,
        acl_id=None if acl is None else acl.record.id,
        offset=state.index.image.provenance.end_offset,
    )
