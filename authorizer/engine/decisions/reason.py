"""Reason: the ACL that decided, in the order in which Kafka finds those that match.

Masks have the union of the ACLs of a name, not which ACL it came from. That is found for the audit log,
answers
and explanations: among the ACLs of the principal and ``User:*`` that cover the name, for the host and
operation.

Kafka scans the names that cover the resource, the longest first, then ``*``, then the empty name; within a
name by pattern type, operation (both by code), principal, host and permission, texts by UTF-16 code unit. The
first DENY decides; else the last ALLOW (StandardAcl.compareTo, StandardAuthorizerData.findAclRule).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.ip_network import matches_host
from authorizer.engine.decisions.kafka_order import entry_order, utf16
from authorizer.engine.decisions.rules import allows, covers_operation
from authorizer.engine.index.covers import NO_COVER, Cover
from authorizer.engine.index.masks import ALLOW_BITS, DENY_BITS, REQUEST_BITS, acl_mask, leaf_mask
from authorizer.engine.index.pattern_keys import PREFIXED
from authorizer.engine.index.rights import cover_of
from records.acl import (
    WILDCARD,
    AclOperation,
    PatternType,
)
from records.principal import EVERYONE, WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.api.ip_network import NetworkRules
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.resource_index import ResourceIndex
    from records.columns.acl_table import AppliedAcl
    from records.principal import KafkaPrincipal


# Looked up once, not for each ACL: a member of an Enum class costs as much as two dict look-ups.
_ALL: Final = AclOperation.ALL


def answer_acl_by_acl(index: AclIndex, context: AuthorizableRequestContext, action: Action) -> int:
    """Return the mask for an operation without bits (UNKNOWN and ANY), as if it were ALL."""
    answer = 0
    for acl in matching_acls(index, context, action):
        answer |= acl_mask(_ALL, acl.record.permission_type) & REQUEST_BITS[_ALL]
    return answer


def deciding_acl(
    index: AclIndex,
    context: AuthorizableRequestContext,
    action: Action,
    own: Cover,
    common: Cover,
    *,
    denied: bool,
) -> AppliedAcl:
    """Of the ACLs that match, the one that Kafka names: the first DENY, else the last ALLOW. There is one."""
    end = 0 if denied else -1
    asked = REQUEST_BITS[action.operation] & (DENY_BITS if denied else ALLOW_BITS)
    if not asked:
        matching = matching_acls(index, context, action)
        return [acl for acl in matching if allows(acl.record) is not denied][end]
    host, resource_type = context.client_address, action.resource_pattern.resource_type
    found: list[tuple[Cover, KafkaPrincipal]] = []
    for cover, principal in ((own, context.principal), (common, EVERYONE)):
        here = cover  # not by the chain's iterator, which takes twice as long
        while here is not NO_COVER:
            leaf = here.leaf
            if (leaf if type(leaf) is int else leaf_mask(leaf, host)) & asked:
                found.append((here, principal))
            here = here.next
    if len(found) > 1:
        ranks = [_rank(cover.name) for cover, _ in found]
        rank = min(ranks) if denied else max(ranks)
        if rank == _STAR and _EMPTY in ranks and not _meets_star_first(index.resources, action):
            rank = _EMPTY
        found = [each for each, its in zip(found, ranks, strict=True) if its == rank]
    acls: list[AppliedAcl] = []
    for cover, principal in found:
        acls += index.resources.acls_saying(asked, resource_type, cover, principal)
    if len(acls) > 1:  # a single one is for this host, for one is
        networks = index.rows.networks
        acls = _sorted([acl for acl in acls if matches_host(acl.record, host, networks)])
    return acls[end]


def matching_acls(
    index: AclIndex,
    context: AuthorizableRequestContext,
    action: Action,
    networks: NetworkRules | None = None,
) -> list[AppliedAcl]:
    """Return the ACLs that match in every field, in Kafka's order; ``networks``: by other rules."""
    resources, pattern = index.resources, action.resource_pattern
    by_name: dict[str, list[AppliedAcl]] = {}
    own, everyone = index.principals.rights_for(context.principal)
    # By the principal that ACLs have: one, where User:* itself asks.
    askers = {str(context.principal): own[pattern.resource_type]}
    askers[WILDCARD_PRINCIPAL] = everyone[pattern.resource_type]
    for acl_principal, rights in askers.items():
        for cover in cover_of(rights, pattern.name):
            place = pattern.resource_type + cover.prefixed, cover.name
            by_name.setdefault(cover.name, []).extend(
                acl
                for acl in resources.acls_for(place, acl_principal, context.client_address, networks)
                if covers_operation(acl.record, action.operation)
            )
    names = sorted(by_name, key=_rank)
    if names[-2:] == [WILDCARD, ""] and all(_denied(by_name[name]) for name in names[-2:]):
        names[-2:] = names[-2:] if _meets_star_first(resources, action) else ["", WILDCARD]
    return [acl for name in names for acl in _sorted(by_name[name])]


# Behind all other names, whose rank is the length, the longest first.
_STAR: Final = 0
_EMPTY: Final = 1


def _rank(name: str) -> int:
    """Position in Kafka's scan; the empty name comes last, because the search for ``*`` reaches it."""
    return _STAR if name == WILDCARD else -len(name) or _EMPTY


def _sorted(acls: list[AppliedAcl]) -> list[AppliedAcl]:
    """ACLs of one name in Kafka's order."""
    return sorted(acls, key=lambda acl: entry_order(acl.record)) if len(acls) > 1 else acls


def _denied(acls: list[AppliedAcl]) -> bool:
    return any(not allows(acl.record) for acl in acls)


def _meets_star_first(resources: ResourceIndex, action: Action) -> bool:
    """Whether Kafka comes upon ``*`` before the empty name.

    It does if ``*`` is what it meets when it has passed all names with the first character of ``name``;
    otherwise it jumps to the empty name, and searches for ``*`` afterwards. Only a DENY under both makes it
    matter which is first, and no controller accepts empty names: so this may take its time.
    """
    resource_type, name = action.resource_pattern.resource_type, action.resource_pattern.name
    if name == WILDCARD:
        return True
    first = utf16(name)[:1]
    below = max((key for key in map(utf16, resources.names(resource_type)) if key[:1] < first), default="")
    # Pattern types without a meaning sort before LITERAL, and end that part of the search.
    other = resources.acls((resource_type + PREFIXED, WILDCARD))
    return below == WILDCARD and all(acl.record.pattern_type == PatternType.PREFIXED for acl in other)
