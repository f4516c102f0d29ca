"""authorize(): the decisions of `decision`, as fast as Python allows.

One function, because calls are what costs most here. It asks the index for masks (what all ACLs of a name say
together); `decision` finds the same results ACL by ACL, and tests hold the two against each other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from authorizer.api import AuthorizationResult
from authorizer.decisions.audit import DEBUG, INFO, TRACE
from authorizer.decisions.decision import Decision, Rule, decide, require_literal, require_ready
from authorizer.decisions.decision_audit import write_decision, write_result
from authorizer.decisions.many_actions import authorize_many
from authorizer.index.masks import ASKED, DENY_BASE
from records.acl import WILDCARD, PatternType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decisions.audit import AuditLog
    from authorizer.decisions.decision_counts import DecisionCounts
    from authorizer.decisions.state import AuthorizerState

# Looked up once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL

#: From so many actions on a call goes to authorize_many; with fewer, laying out what they share costs more.
MANY: Final = 8


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
    super_names = settings.super_names.get(principal.principal_type)
    if super_names is not None and principal.name in super_names:
        return _authorize_super_user(state, context, actions, audit, counts)
    if not state.is_ready:
        for action in actions:
            require_literal(action)
            counts.not_ready += 1
            require_ready(state)

    index = state.index
    named = index.principals.get(principal.principal_type)
    own = None
    if named is not None:
        own = named.newest.get(principal.name)
        if named.since is not None:
            own = named.get(principal.name)
    mine = None if own is None else own.rights or index.made(own)
    everyone = index.everyone
    if len(actions) >= MANY:
        askers = (everyone,) if mine is None else (mine, everyone)
        return authorize_many(state, askers, context, actions, audit, counts)
    host = context.client_address
    results = []
    for action in actions:
        pattern = action.resource_pattern
        if pattern.pattern_type is not _LITERAL:
            require_literal(action)
        resource_type = pattern.resource_type
        name = pattern.name
        # Twice the same, for the asker's own rights and for those of User:*; a loop took 5 % longer.
        # What covers a name: the literal *, the name itself, its prefixes; for most literals put together.
        mask = 0
        if mine is not None:
            rights = mine[resource_type]
            if rights is not None:
                leaf = rights.named.get(name)
                others = rights.others
                if leaf is not None and (others is None or others.get(name) is None):
                    mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                else:
                    leaf = rights.star
                    if leaf is not None:
                        mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                    if others is not None:
                        leaf = others.get(name)
                        if leaf is not None:
                            mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                    prefixes = rights.prefixes
                    if prefixes is not None:
                        # PrefixRanges.mask, without a call where the leaf is worked out.
                        chunk = prefixes.only
                        if chunk is None:
                            blocks = prefixes.blocks
                            chunk = blocks.by_head.get(name[blocks.head]) or blocks.rest
                        leaf = chunk.leaves[bisect_right(chunk.bounds, name)]
                        if isinstance(leaf, int):
                            mask |= leaf
                        elif leaf is not None:
                            mask |= leaf.get(host) or leaf[WILDCARD]
                        else:
                            mask |= prefixes.mask(name, host)
        rights = everyone[resource_type]
        if rights is not None:
            leaf = rights.named.get(name)
            others = rights.others
            if leaf is not None and (others is None or others.get(name) is None):
                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
            else:
                leaf = rights.star
                if leaf is not None:
                    mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                if others is not None:
                    leaf = others.get(name)
                    if leaf is not None:
                        mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                prefixes = rights.prefixes
                if prefixes is not None:
                    chunk = prefixes.only
                    if chunk is None:
                        blocks = prefixes.blocks
                        chunk = blocks.by_head.get(name[blocks.head]) or blocks.rest
                    leaf = chunk.leaves[bisect_right(chunk.bounds, name)]
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
        elif settings.allow_everyone and not index.resources.covers(resource_type, name):
            result = _ALLOWED
            counts.default_allowed += 1
        else:
            result = _DENIED
            counts.default_denied += 1
        # audit.audit_level, without a call for what is not written.
        if result is _DENIED:
            is_written = threshold <= INFO and (action.log_if_denied or threshold <= TRACE)
        else:
            is_written = threshold <= DEBUG and (action.log_if_allowed or threshold <= TRACE)
        if is_written:
            write_result(state, context, action, result, audit, by_acl=bool(answer) or not asked)
        results.append(result)
    return results


def _authorize_super_user(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
) -> list[AuthorizationResult]:
    decision = Decision(_ALLOWED, Rule.SUPER_USER)
    for action in actions:
        require_literal(action)
        counts.super_user_allowed += 1
        write_decision(state, context, action, decision, audit)
    return [_ALLOWED] * len(actions)
