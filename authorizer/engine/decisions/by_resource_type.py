"""KIP-679: whether a principal may do an operation on *any* resource of a type.

This is Kafka's algorithm, not "is there a name that authorize() allows". It first authorizes the name
``hardcode``: super users, the default, ``*`` and prefixes of "hardcode" count, with implied operations. Then
it reads the ACLs, without implied operations:

- A DENY for ``*`` denies; else an ALLOW for ``*`` allows.
- An ALLOW for a name counts unless the same name or a prefix of it is denied.
- An ALLOW for a prefix counts unless that prefix or a shorter one is denied. The empty prefix denies nothing.
- ACLs with an unknown pattern or permission type are skipped (Kafka throws for ANY and MATCH).

Source: Authorizer.authorizeByResourceType (the interface's default method), SecurityUtils.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.authorizer_api import Action, AuthorizableRequestContext
from authorizer.api.ip_address import EXACT_HOSTS, NETWORK_HOSTS, STRICTEST, NetworkRules
from authorizer.engine.decisions.listing import list_acls
from authorizer.engine.decisions.notes import is_allowed_by
from authorizer.engine.decisions.rules import acl_principals
from authorizer.engine.index.covers import Cover, single_cover
from authorizer.engine.index.masks import (
    ALLOW_BITS,
    DENY_BITS,
    EXPLICIT_REQUEST_BITS,
    PatternLeaf,
    acl_mask,
    add_to_leaf,
    denies,
    host_reader,
    leaf_mask,
)
from authorizer.engine.index.pattern_keys import PatternKey, has_unknown_code, pattern_key
from authorizer.engine.index.rights import ListableRights, MaterializedRights, cover_of
from records.acl import (
    WILDCARD,
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.engine.decisions.state import AuthorizerState
    from authorizer.engine.index.acl_index import AclIndex
    from records.principal import KafkaPrincipal

_PROBED_NAME: Final = "hardcode"


def check_arguments(operation: AclOperation, resource_type: ResourceType) -> None:
    """Raise ValueError, with Kafka's message, for values that only filters may have."""
    if resource_type is ResourceType.ANY:
        raise ValueError("Must specify a non-filter resource type for authorizeByResourceType")
    if resource_type is ResourceType.UNKNOWN:
        raise ValueError("Unknown resource type")
    if operation is AclOperation.ANY:
        raise ValueError("Must specify a non-filter operation type for authorizeByResourceType")
    if operation is AclOperation.UNKNOWN:
        raise ValueError("Unknown operation type")


def probe(operation: AclOperation, resource_type: ResourceType) -> Action:
    """Return the action that is authorized and audited first."""
    return Action(
        operation,
        ResourcePattern(resource_type, _PROBED_NAME, PatternType.LITERAL),
        resource_reference_count=0,
        log_if_denied=False,
    )


def allows_some_resource(
    index: AclIndex,
    principal: KafkaPrincipal,
    host: str,
    operation: AclOperation,
    resource_type: ResourceType,
) -> bool:
    """Return whether the ACLs allow some resource of the type: the second half of the algorithm."""
    return _allows_some(_rights(index, principal, resource_type), host, operation)


def _allows_some(rights_by_principal: Sequence[ListableRights], host: str, operation: AclOperation) -> bool:
    request_bits = EXPLICIT_REQUEST_BITS[operation]
    deny, allow = request_bits & DENY_BITS, request_bits & ALLOW_BITS

    wildcard_mask = 0
    for rights in rights_by_principal:
        wildcard_mask |= leaf_mask(rights.pattern_cover(0, WILDCARD).leaf, host)
    if wildcard_mask & request_bits:
        return not denies(wildcard_mask & request_bits)

    def is_denied(cover: Cover) -> bool:
        """Whether the pattern is denied, or a non-empty prefix of it."""
        return any(
            leaf_mask(other.leaf, host) & deny
            for rights in rights_by_principal
            for other in cover_of(rights, cover.name)
            if (other.name if other.prefixed else not cover.prefixed)
        )

    return any(
        leaf_mask(cover.leaf, host) & allow and not is_denied(cover)
        for rights in rights_by_principal
        for cover in rights.covers()
    )


def allows_by_every_release(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    operation: AclOperation,
    resource_type: ResourceType,
) -> bool:
    """Return whether each possible release allows it (both halves), if the release is not known.

    Two releases may allow it by different ACLs, and then the strictest rules deny it. For a single name that
    cannot happen.
    """
    index, principal, host = state.index, context.principal, context.client_address
    if index.rows.networks != STRICTEST or not _may_have_networks(index, principal):
        return False
    action = probe(operation, resource_type)
    return all(
        is_allowed_by(state, context, action, networks)
        or _allows_some(_rights(index, principal, resource_type, networks), host, operation)
        for networks in (EXACT_HOSTS, NETWORK_HOSTS)
    )


def _may_have_networks(index: AclIndex, principal: KafkaPrincipal) -> bool:
    """Whether an ACL of the principal or of ``User:*`` may have a network as its host."""
    return index.rows.may_have_networks or any(
        "/" in acl.record.host for each in acl_principals(principal) for acl in index.added_of(each)
    )


def _rights(
    index: AclIndex,
    principal: KafkaPrincipal,
    resource_type: ResourceType,
    networks: NetworkRules | None = None,
) -> list[ListableRights]:
    """The rights of the principal and of ``User:*`` for the type, without ACLs with unknown codes."""
    if index.resources.unknown_code_counts[resource_type] or networks is not None:
        rules = index.rows.networks if networks is None else networks
        return [
            _rights_without_unknown_codes(index, each, resource_type, rules)
            for each in acl_principals(principal)
        ]
    rights_by_principal = map(index.principals.rights_of, acl_principals(principal))
    return [rights[resource_type] for rights in rights_by_principal if rights is not None]


def _rights_without_unknown_codes(
    index: AclIndex, principal: str, resource_type: ResourceType, networks: NetworkRules
) -> MaterializedRights:
    acl_filter = AclBindingFilter(
        ResourcePatternFilter(resource_type), AccessControlEntryFilter(principal=principal)
    )
    leaves: dict[PatternKey, PatternLeaf] = {}
    for acl in list_acls(index, acl_filter).acls():
        record = acl.record
        if not has_unknown_code(record):
            key, mask = pattern_key(record), acl_mask(record.operation, record.permission_type)
            read = host_reader(networks=networks.of(record.permission_type))
            leaves[key] = add_to_leaf(leaves.get(key), read(record.host), mask)
    return MaterializedRights.of(
        [single_cover(kind - resource_type, name, leaf, None) for (kind, name), leaf in leaves.items()]
    )
