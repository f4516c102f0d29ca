"""authorize(): the results of actions, counted and audited. The hot path.

One loop for one action or ten thousand: the mask of all ACLs that cover the name, and the bits of the
operation. The deciding ACL is found only when it is needed (`decision`, `reason`). The rules that this loop
follows are stated in `rules`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.audit_levels import DEBUG, INFO, OFF, TRACE, audit_level
from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, AuthorizationResult
from authorizer.engine.decisions.audit import AuditLog
from authorizer.engine.decisions.decision import BY_SUPER_USER, DecidedAction, Decision, DecisionCounts
from authorizer.engine.decisions.reason import answer_acl_by_acl
from authorizer.engine.decisions.rules import require_literal, require_ready
from authorizer.engine.index.covers import NO_COVER
from authorizer.engine.index.masks import REQUEST_BITS, denies, leaf_mask
from authorizer.engine.index.rights import NO_RIGHTS_OF_TYPE, Rights
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from authorizer.engine.decisions.state import AuthorizerState

# Read once, not for each decision: a member of an Enum class costs as much as two dict look-ups.
_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL


def decide(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> Decision:
    """Return one decision with its reason, neither counted nor audited; raises as `authorize_actions`."""
    return authorize_action(state, context, action).decision()


def authorize_action(
    state: AuthorizerState, context: AuthorizableRequestContext, action: Action
) -> DecidedAction:
    """Return one decision whose reason is computed on demand; otherwise as `decide`."""
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

    A DecidedAction of each is appended to ``decided``, if it is not None. ValueError: a resource is not
    LITERAL; the actions before it are counted and audited.
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
    # If it is off, an action without a matching ACL needs no call.
    allow_everyone = settings.allow_everyone
    threshold = audit.threshold if decided is None else TRACE
    rights, wildcard_rights = state.index.principals.rights_for(principal)
    host = context.client_address
    mask = 0
    last_pattern = last_type = None
    type_rights: Rights = NO_RIGHTS_OF_TYPE
    wildcard_type_rights: Rights = NO_RIGHTS_OF_TYPE
    cover = wildcard_cover = NO_COVER
    results = []
    for action in actions:
        pattern = action.resource_pattern
        if pattern is not last_pattern:
            if pattern.pattern_type is not _LITERAL:
                require_literal(action)
            if pattern.resource_type is not last_type:
                last_type = pattern.resource_type
                type_rights, wildcard_type_rights = rights[last_type], wildcard_rights[last_type]
            name = pattern.name
            # index.rights.cover_of, without a call for a known name.
            cover = type_rights.by_name.get(name, type_rights.default) or type_rights.cover(name)
            wildcard_cover = wildcard_type_rights.by_name.get(
                name, wildcard_type_rights.default
            ) or wildcard_type_rights.cover(name)
            leaf, wildcard_leaf = cover.combined, wildcard_cover.combined
            mask = leaf if type(leaf) is int else leaf_mask(leaf, host)
            mask |= wildcard_leaf if type(wildcard_leaf) is int else leaf_mask(wildcard_leaf, host)
            last_pattern = pattern
        request_bits = REQUEST_BITS[action.operation]
        answer = mask & request_bits if request_bits else answer_acl_by_acl(state.index, context, action)
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
        # audit_levels.audit_level, without a call for decisions that are not written.
        if result is _DENIED:
            level = INFO if action.log_if_denied else TRACE
        else:
            level = DEBUG if action.log_if_allowed else TRACE
        if level >= threshold:
            decided_action = DecidedAction(
                state, context, action, level, answer, result, cover, wildcard_cover
            )
            if decided is not None:
                decided.append(decided_action)
            if level >= audit.threshold:
                audit.write(decided_action)
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
        decided_action = DecidedAction(
            state, context, action, level, 0, _ALLOWED, NO_COVER, NO_COVER, BY_SUPER_USER
        )
        if decided is not None:
            decided.append(decided_action)
        if level >= audit.threshold:
            audit.write(decided_action)
    return [_ALLOWED] * len(actions)


def authorized_operations(
    authorize: Callable[[AuthorizableRequestContext, Sequence[Action]], list[AuthorizationResult]],
    context: AuthorizableRequestContext,
    resource_type: ResourceType,
    names: Sequence[str],
    operations: Sequence[AclOperation],
) -> list[tuple[AclOperation, ...]]:
    """Return those of ``operations`` that are allowed on each resource (KIP-430), in their order.

    Both audit flags are off: no access is requested, so the audit log has the decisions at TRACE. Source:
    AuthHelper.authorizedOperations; ``operations`` are AclEntry.supportedOperations of the release.
    """
    patterns = [ResourcePattern(resource_type, name, PatternType.LITERAL) for name in names]
    results = iter(
        authorize(
            context,
            [
                Action(each, pattern, log_if_allowed=False, log_if_denied=False)
                for pattern in patterns
                for each in operations
            ],
        )
    )
    return [
        tuple(operation for operation in operations if next(results) is AuthorizationResult.ALLOWED)
        for _ in patterns
    ]


def to_bit_field(operations: Iterable[AclOperation]) -> int:
    """Return operations as Kafka's protocol encodes them: bit c is code c (Utils.to32BitField)."""
    return sum(1 << operation for operation in set(operations))
