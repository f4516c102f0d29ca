"""Reason: the ACL that decided, in the order in which Kafka finds those that match.

A mask is the union of the ACLs of a name. It does not tell which ACL decided. The audit log, answers and
explanations need that ACL: one of the principal's or ``User:*``'s ACLs that cover the name, for the host and
operation.

Kafka scans the names that cover the resource, the longest first, then ``*``, then the empty name; within a
name by pattern type, operation (both by code), principal, host and permission, texts by UTF-16 code unit. The
first DENY decides; else the last ALLOW (StandardAcl.compareTo, StandardAuthorizerData.findAclRule). A request
of User:alice for the topic orders-eu:

    prefix  orders-   User:alice  ALLOW READ    scanned first
    prefix  ord       User:*      DENY READ     decides, as the first DENY
    literal *         User:*      ALLOW READ    scanned last; decides without the DENY, as the last ALLOW
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.ip_address import NetworkRules, matches_host
from authorizer.engine.decisions.listing import entry_order, utf16
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
from records.principal import EVERYONE, WILDCARD_PRINCIPAL, KafkaPrincipal

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.engine.index.resource_index import ResourceIndex
    from records.columns.acl_table import AppliedAcl


# Read once, not for each ACL: a member of an Enum class costs as much as two dict look-ups.
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
    cover: Cover,
    wildcard_cover: Cover,
    *,
    denied: bool,
) -> AppliedAcl:
    """Return the ACL that Kafka names: the first DENY, else the last ALLOW; at least one matches."""
    end = 0 if denied else -1
    request_bits = REQUEST_BITS[action.operation] & (DENY_BITS if denied else ALLOW_BITS)
    if not request_bits:
        matching = matching_acls(index, context, action)
        return [acl for acl in matching if allows(acl.record) is not denied][end]
    host, resource_type = context.client_address, action.resource_pattern.resource_type
    found: list[tuple[Cover, KafkaPrincipal]] = []
    _collect(found, cover, context.principal, host, request_bits)
    _collect(found, wildcard_cover, EVERYONE, host, request_bits)
    if len(found) > 1:
        name = _deciding_name([each.name for each, _ in found], index, action, denied=denied)
        found = [each for each in found if each[0].name == name]
    acls: list[AppliedAcl] = []
    for each, principal in found:
        acls += index.resources.acls_with_bits(request_bits, resource_type, each, principal)
    if len(acls) > 1:  # a single ACL must match the host
        networks = index.rows.networks
        acls = _sorted([acl for acl in acls if matches_host(acl.record, host, networks)])
    return acls[end]


def _collect(
    found: list[tuple[Cover, KafkaPrincipal]],
    cover: Cover,
    principal: KafkaPrincipal,
    host: str,
    request_bits: int,
) -> None:
    """Append the covers of a principal's list whose leaf has any of the bits for the host."""
    while cover is not NO_COVER:  # the iterator of Cover takes twice as long
        leaf = cover.leaf
        if (leaf if type(leaf) is int else leaf_mask(leaf, host)) & request_bits:
            found.append((cover, principal))
        cover = cover.next


def _deciding_name(names: list[str], index: AclIndex, action: Action, *, denied: bool) -> str:
    """The first of the names in Kafka's scan that deny, or the last of those that allow."""
    name = min(names, key=_rank) if denied else max(names, key=_rank)
    if name == WILDCARD and "" in names and not _meets_star_first(index.resources, action):
        return ""
    return name


def matching_acls(
    index: AclIndex,
    context: AuthorizableRequestContext,
    action: Action,
    networks: NetworkRules | None = None,
) -> list[AppliedAcl]:
    """Return the ACLs that match in every field, in Kafka's order; ``networks`` replace the index's."""
    resources, pattern = index.resources, action.resource_pattern
    by_name: dict[str, list[AppliedAcl]] = {}
    rights, wildcard_rights = index.principals.rights_for(context.principal)
    # One entry if the caller is User:* itself.
    by_principal = {str(context.principal): rights[pattern.resource_type]}
    by_principal[WILDCARD_PRINCIPAL] = wildcard_rights[pattern.resource_type]
    for acl_principal, type_rights in by_principal.items():
        for cover in cover_of(type_rights, pattern.name):
            key = pattern.resource_type + cover.prefixed, cover.name
            by_name.setdefault(cover.name, []).extend(
                acl
                for acl in resources.acls_for(key, acl_principal, context.client_address, networks)
                if covers_operation(acl.record, action.operation)
            )
    names = sorted(by_name, key=_rank)
    if names[-2:] == [WILDCARD, ""] and all(_denied(by_name[name]) for name in names[-2:]):
        names[-2:] = names[-2:] if _meets_star_first(resources, action) else ["", WILDCARD]
    return [acl for name in names for acl in _sorted(by_name[name])]


def _rank(name: str) -> int:
    """Position in Kafka's scan; the empty name comes last, because the search for ``*`` reaches it."""
    # Other names have negative ranks, the longest the lowest.
    return 0 if name == WILDCARD else -len(name) or 1


def _sorted(acls: list[AppliedAcl]) -> list[AppliedAcl]:
    """ACLs of one name in Kafka's order."""
    return sorted(acls, key=lambda acl: entry_order(acl.record)) if len(acls) > 1 else acls


def _denied(acls: list[AppliedAcl]) -> bool:
    return any(not allows(acl.record) for acl in acls)


def _meets_star_first(resources: ResourceIndex, action: Action) -> bool:
    """Whether Kafka's scan reaches ``*`` before the empty name.

    It does if ``*`` is next after all names with the first character of ``name``. Otherwise the scan jumps to
    the empty name, and searches for ``*`` afterwards. The order matters only for a DENY under both, and no
    controller accepts empty names: so this may be slow.
    """
    resource_type, name = action.resource_pattern.resource_type, action.resource_pattern.name
    if name == WILDCARD:
        return True
    first = utf16(name)[:1]
    below = max((key for key in map(utf16, resources.names(resource_type)) if key[:1] < first), default="")
    # Unknown pattern types sort before LITERAL, and end that part of the scan.
    other = resources.acls((resource_type + PREFIXED, WILDCARD))
    return below == WILDCARD and all(acl.record.pattern_type == PatternType.PREFIXED for acl in other)
