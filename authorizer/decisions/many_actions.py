"""authorize() for many actions: what `authorize` does, with what they share worked out once.

The asker and the host are the same for all actions, and neighbours mostly share the resource type and the
operation. So the loop reads as little as possible of each action: the rights for a resource type are laid out
when the type changes, a mask is kept as long as the pattern is the same object, and counts are added up at
the end. The masks are those of `authorize`; tests hold the two against each other.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from authorizer.api import AuthorizationResult
from authorizer.decisions.audit import DEBUG, INFO, TRACE
from authorizer.decisions.decision import decide, require_literal
from authorizer.decisions.decision_audit import write_result
from authorizer.index.masks import ASKED, DENY_BASE, Leaf, leaf_mask
from records.acl import WILDCARD, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.api import Action, AuthorizableRequestContext
    from authorizer.decisions.audit import AuditLog
    from authorizer.decisions.decision_counts import DecisionCounts
    from authorizer.decisions.state import AuthorizerState
    from authorizer.index.lazy_rights import PrincipalRights
    from authorizer.index.prefix_ranges import PrefixRanges
    from authorizer.index.rights import Rights
    from records.acl import AclOperation, ResourcePattern

_ALLOWED: Final = AuthorizationResult.ALLOWED
_DENIED: Final = AuthorizationResult.DENIED
_LITERAL: Final = PatternType.LITERAL

# How one principal's names of one resource type are looked up: (get what covers a literal, put together; get
# the leaf of one that is not, or None without any; the prefixes, or None; bounds and leaves of all ranges, or
# None if they are in blocks; where a name's head is, or None if that is not worth a look; the heads of names
# of which anything is said).
_LookUp = tuple[
    "Callable[[str], Leaf | None]",
    "Callable[[str], Leaf | None] | None",
    "PrefixRanges | None",
    "tuple[str, ...] | None",
    "list[Leaf | None]",
    "slice | None",
    "frozenset[str]",
]
_NO_LEAVES: Final[dict[str, Leaf]] = {}
_NOTHING: Final[_LookUp] = (_NO_LEAVES.get, None, None, None, [], None, frozenset())
# In calls with very many actions most names are nobody's that the asker may read: by its head such a name is
# turned away in less time than a look-up and a bisection of more bounds than this take.
_FEW_BOUNDS: Final = 4
# Of so many names, listing the heads takes longer than a call with some hundred actions.
_MANY_NAMES: Final = 1024


def authorize_many(
    state: AuthorizerState,
    askers: Sequence[PrincipalRights],
    context: AuthorizableRequestContext,
    actions: Sequence[Action],
    audit: AuditLog,
    counts: DecisionCounts,
) -> list[AuthorizationResult]:
    """One result for each action, counted and audited as one by one.

    Args:
        state: ready.
        askers: the rights that count: the asker's own, if it has any, and last those of ``User:*``.
        context: who asks; no super user.
        actions: for what.
        audit: where decisions are written down.
        counts: where they are counted.

    Raises:
        ValueError: a resource is not LITERAL; the actions before it are counted and audited.
    """
    allow_everyone = state.settings.allow_everyone
    resources = state.index.resources
    threshold = audit.threshold
    writes_all, writes_allowed, writes_denied = threshold <= TRACE, threshold <= DEBUG, threshold <= INFO
    host = context.client_address
    results: list[AuthorizationResult] = []
    acl_allowed = acl_denied = default_allowed = by_decide = 0
    # By resource type, as they come up: what the literal * says, and the asker's and all's look-ups.
    known: list[tuple[int, _LookUp, _LookUp] | None] = [None] * len(ResourceType)
    # Of the action before.
    last_pattern: ResourcePattern | None = None
    last_type: ResourceType | None = None
    last_operation: AclOperation | None = None
    resource_type, name = ResourceType.UNKNOWN, ""
    asked = mask = star = 0
    own_named, own_others, own_prefixes, own_bounds, own_leaves, own_head, own_heads = _NOTHING
    all_named, all_others, all_prefixes, all_bounds, all_leaves, all_head, all_heads = _NOTHING
    try:
        for action in actions:
            pattern = action.resource_pattern
            if pattern is not last_pattern:
                if pattern.pattern_type is not _LITERAL:
                    require_literal(action)
                name = pattern.name
                resource_type = pattern.resource_type
                if resource_type is not last_type:
                    found = known[resource_type]
                    if found is None:
                        found = known[resource_type] = _look_ups(askers, resource_type, host, len(actions))
                    star, own, everyone = found
                    own_named, own_others, own_prefixes, own_bounds, own_leaves, own_head, own_heads = own
                    all_named, all_others, all_prefixes, all_bounds, all_leaves, all_head, all_heads = (
                        everyone
                    )
                    last_type = resource_type
                # Twice the same, for the asker's own rights and for those of User:*. As an inner loop it was
                # 5 to 10 % slower. (0 is a leaf that says nothing, None one that is not there.)
                mask = star
                if own_head is None or name[own_head] in own_heads:
                    leaf = own_named(name)
                    if leaf is not None:
                        mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                    else:
                        if own_others is not None:
                            leaf = own_others(name)
                            if leaf:
                                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                        if own_prefixes is not None:
                            if own_bounds is not None:
                                leaf = own_leaves[bisect_right(own_bounds, name)]
                            else:
                                leaf = own_prefixes.remembered.get(name)
                                if leaf is None:
                                    leaf = own_prefixes.remember(name)
                            if leaf:
                                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                            elif leaf is None:
                                mask |= own_prefixes.mask(name, host)
                if all_head is None or name[all_head] in all_heads:
                    leaf = all_named(name)
                    if leaf is not None:
                        mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                    else:
                        if all_others is not None:
                            leaf = all_others(name)
                            if leaf:
                                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                        if all_prefixes is not None:
                            if all_bounds is not None:
                                leaf = all_leaves[bisect_right(all_bounds, name)]
                            else:
                                leaf = all_prefixes.remembered.get(name)
                                if leaf is None:
                                    leaf = all_prefixes.remember(name)
                            if leaf:
                                mask |= leaf if isinstance(leaf, int) else leaf.get(host) or leaf[WILDCARD]
                            elif leaf is None:
                                mask |= all_prefixes.mask(name, host)
                last_pattern = pattern

            operation = action.operation
            if operation is not last_operation:
                asked = ASKED[operation]
                last_operation = operation
            answer = mask & asked
            if answer:
                if answer < DENY_BASE:
                    result = _ALLOWED
                    acl_allowed += 1
                else:
                    result = _DENIED
                    acl_denied += 1
            elif not asked:
                decision = decide(state, context, action)
                result = decision.result
                counts.add(decision)
                by_decide += 1
            elif allow_everyone and not resources.covers(resource_type, name):
                result = _ALLOWED
                default_allowed += 1
            else:
                result = _DENIED
            results.append(result)
            # audit.audit_level, without a call for what is not written.
            if result is _DENIED:
                is_written = writes_denied and (action.log_if_denied or writes_all)
            else:
                is_written = writes_allowed and (action.log_if_allowed or writes_all)
            if is_written:
                write_result(state, context, action, result, audit, by_acl=bool(answer) or not asked)
    finally:
        counts.acl_allowed += acl_allowed
        counts.acl_denied += acl_denied
        counts.default_allowed += default_allowed
        counts.default_denied += len(results) - acl_allowed - acl_denied - default_allowed - by_decide
    return results


def _look_ups(
    askers: Sequence[PrincipalRights], resource_type: ResourceType, host: str, actions: int
) -> tuple[int, _LookUp, _LookUp]:
    """What the literal * says to ``host``, and how the names of the asker and of ``User:*`` are looked up."""
    star = 0
    look_ups = [_NOTHING] * (2 - len(askers))
    for rights_by_type in askers:
        rights = rights_by_type[resource_type]
        if rights is not None and rights.star is not None:
            star |= leaf_mask(rights.star, host)
        look_ups.append(_NOTHING if rights is None else _look_up(rights, actions))
    own, everyone = look_ups
    return star, own, everyone


def _look_up(rights: Rights, actions: int) -> _LookUp:
    named: Callable[[str], Leaf | None] = rights.named.get
    others, names = None, len(rights.named)
    if rights.others is not None:
        named, others, names = rights.together, rights.others.get, names + len(rights.others)
    prefixes = rights.prefixes
    if prefixes is None or prefixes.only is None or prefixes.has_blocks:
        return named, others, prefixes, *_NOTHING[3:]
    bounds, leaves = prefixes.only.bounds, prefixes.only.leaves
    is_worth_it = _FEW_BOUNDS < len(bounds) < actions and names < _MANY_NAMES
    head, heads = rights.heads() if is_worth_it else _NOTHING[5:]
    return named, others, prefixes, bounds, leaves, head, heads
