"""Which ACLs match a question, one by one, and in the order in which Kafka meets them.

This is what a decision means; the masks of `authorizer.index` say the same at once for all ACLs of a name. It
is asked for what masks cannot tell: which ACL decided, for the audit log and for explanations.

Kafka scans the names that cover the resource, the longest first, then ``*``, then the empty name; within a
name by pattern type, operation (both by code), principal, host and permission, texts by UTF-16 code unit. The
first DENY decides; else the last ALLOW (StandardAcl.compareTo, StandardAuthorizerData.findAclRule).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.decisions.kafka_order import entry_order, utf16
from authorizer.index.places import PREFIXED
from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from authorizer.index.acl_index import AclIndex
    from authorizer.index.resource_index import ResourceIndex
    from records.entries import AccessControlEntryRecord
    from records.principal import KafkaPrincipal
    from snapshot.rows import AppliedAcl


# Looked up once, not for each ACL: a member of an Enum class costs as much as two dict look-ups.
_ALL: Final = AclOperation.ALL
_UNKNOWN: Final = AclOperation.UNKNOWN
_ALLOW: Final = AclPermissionType.ALLOW

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: IMPLIES_DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS: IMPLIES_DESCRIBE_CONFIGS,
}


def acl_principals(principal: KafkaPrincipal) -> tuple[str, ...]:
    """The texts that an ACL for this principal can have. An ACL's principal type ends at its first colon."""
    if ":" in principal.principal_type:
        return (WILDCARD_PRINCIPAL,)
    own = str(principal)
    return (own,) if own == WILDCARD_PRINCIPAL else (own, WILDCARD_PRINCIPAL)


def allows(record: AccessControlEntryRecord) -> bool:
    """Whether the ACL allows; any other permission type denies."""
    return record.permission_type == _ALLOW


def covers_operation(record: AccessControlEntryRecord, operation: AclOperation) -> bool:
    """Whether the ACL is about this operation. Only an ALLOW implies others."""
    code = record.operation
    if code in (_ALL, operation):
        return True
    if operation is _UNKNOWN:
        return AclOperation.from_code(code) is operation
    return allows(record) and code in _IMPLIED_BY.get(operation, ())


def matching_acls(
    index: AclIndex,
    principal: KafkaPrincipal,
    host: str,
    resource_type: ResourceType,
    name: str,
    operation: AclOperation,
) -> list[AppliedAcl]:
    """The ACLs that match in every field, in Kafka's order. ``host`` as getHostAddress() has it."""
    resources = index.resources
    by_name: dict[str, list[AppliedAcl]] = {}
    for acl_principal in acl_principals(principal):
        mine = index.rights_of(acl_principal)
        rights = None if mine is None else mine[resource_type]
        for covering_name, prefixed in () if rights is None else rights.covering(name):
            place = (resource_type + PREFIXED if prefixed else int(resource_type)), covering_name
            for acl in resources.acls_for(place, acl_principal, host):
                if covers_operation(acl.record, operation):
                    by_name.setdefault(covering_name, []).append(acl)
    for acls in by_name.values():
        if len(acls) > 1:
            acls.sort(key=lambda acl: entry_order(acl.record))
    # Kafka comes to the empty name last, because its search for ``*`` runs on into it.
    star, empty = by_name.pop(WILDCARD, []), by_name.pop("", [])
    if _denied(star) and _denied(empty) and not _meets_star_first(resources, resource_type, name):
        star, empty = empty, star
    longest_first = sorted(by_name, key=len, reverse=True)
    return [*(acl for each in longest_first for acl in by_name[each]), *star, *empty]


def _denied(acls: list[AppliedAcl]) -> bool:
    return any(not allows(acl.record) for acl in acls)


def _meets_star_first(resources: ResourceIndex, resource_type: ResourceType, name: str) -> bool:
    """Whether Kafka comes upon ``*`` before the empty name.

    It does if ``*`` is what it meets when it has passed all names with the first character of ``name``;
    otherwise it jumps to the empty name, and searches for ``*`` afterwards. Only a DENY under both makes it
    matter which is first, and no controller accepts empty names: so this may take its time.
    """
    if name == WILDCARD:
        return True
    first = utf16(name)[:2]
    below = max((key for key in map(utf16, resources.names(resource_type)) if key[:2] < first), default=b"")
    # Pattern types without a meaning sort before LITERAL, and end that part of the search.
    other = resources.acls((resource_type + PREFIXED, WILDCARD))
    return below == utf16(WILDCARD) and all(acl.record.pattern_type == PatternType.PREFIXED for acl in other)


def deciding_acl(matching: list[AppliedAcl]) -> AppliedAcl | None:
    """Of matching ACLs in Kafka's order, the one that Kafka names: the first DENY, else the last ALLOW."""
    for acl in matching:
        if not allows(acl.record):
            return acl
    return matching[-1] if matching else None
