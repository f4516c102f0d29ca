"""Which ACLs match a question, one by one, and in the order in which Kafka meets them.

This is what a decision means; the masks of `authorizer.index` say the same at once for all ACLs of a name. It
is asked for what masks cannot tell: which ACL decided, for the audit log and for explanations.

Kafka scans the names that cover the resource, the longest first, then ``*``, then the empty name; within a
name by pattern type, operation (both by code), principal, host and permission, texts by UTF-16 code unit. The
first DENY decides; else the last ALLOW (StandardAcl.compareTo, StandardAuthorizerData.findAclRule).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.buckets import Bucket, acls_for
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
    from collections.abc import Iterator

    from authorizer.index import AclIndex
    from authorizer.resource_index import ResourceIndex
    from records.entries import AccessControlEntryRecord
    from records.principal import KafkaPrincipal
    from snapshot.image import AppliedAcl


def utf16(text: str) -> bytes:
    """A sort key: Java compares strings by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def entry_order(record: AccessControlEntryRecord) -> tuple[int, int, bytes, bytes, int]:
    """Kafka's order among the ACLs of one resource type and name."""
    return (
        PatternType.from_code(record.pattern_type),
        AclOperation.from_code(record.operation),
        utf16(record.principal),
        utf16(record.host),
        AclPermissionType.from_code(record.permission_type),
    )


def acl_principals(principal: KafkaPrincipal) -> tuple[str, ...]:
    """The texts that an ACL for this principal can have. An ACL's principal type ends at its first colon."""
    if ":" in principal.principal_type:
        return (WILDCARD_PRINCIPAL,)
    own = str(principal)
    return (own,) if own == WILDCARD_PRINCIPAL else (own, WILDCARD_PRINCIPAL)


def allows(record: AccessControlEntryRecord) -> bool:
    """Whether the ACL allows; any other permission type denies."""
    return record.permission_type == AclPermissionType.ALLOW


def covers_operation(record: AccessControlEntryRecord, operation: AclOperation) -> bool:
    """Whether the ACL is about this operation. Only an ALLOW implies others."""
    own = AclOperation.from_code(record.operation)
    if own is AclOperation.ALL:
        return True
    if allows(record):
        if operation is AclOperation.DESCRIBE:
            return own in IMPLIES_DESCRIBE
        if operation is AclOperation.DESCRIBE_CONFIGS:
            return own in IMPLIES_DESCRIBE_CONFIGS
    return own is operation


def covering_names(resources: ResourceIndex, name: str) -> tuple[str, ...]:
    """Under which names there may be ACLs that cover ``name``, in Kafka's order."""
    prefixes = (prefix for prefix, _ in resources.prefixes_of(name))
    # Kafka comes to the empty name last, because its search for ``*`` runs on into it.
    return (*dict.fromkeys(each for each in (name, *prefixes, WILDCARD) if each), "")


def covering_buckets(resources: ResourceIndex, covering_name: str, name: str) -> Iterator[Bucket]:
    """The ACLs under one of those names, whoever they are for."""
    if covering_name in (name, WILDCARD):
        literal = resources.literals.get(covering_name)
        if literal is not None:
            yield literal
    if name.startswith(covering_name):
        prefixed = resources.prefixes.get(covering_name)
        if prefixed is not None:
            yield prefixed


def matching_acls(
    index: AclIndex,
    principal: KafkaPrincipal,
    host: str,
    resource_type: ResourceType,
    name: str,
    operation: AclOperation,
) -> list[AppliedAcl]:
    """The ACLs that match in every field, in Kafka's order. ``host`` as getHostAddress() has it."""
    resources = index.resources[resource_type]
    principals = acl_principals(principal)
    by_name: dict[str, list[AppliedAcl]] = {}
    for covering_name in covering_names(resources, name):
        by_name[covering_name] = sorted(
            (
                acl
                for bucket in covering_buckets(resources, covering_name, name)
                for each in principals
                for acl in acls_for(bucket, each, host)
                if covers_operation(acl.record, operation)
            ),
            key=lambda acl: entry_order(acl.record),
        )
    star, empty = by_name[WILDCARD], by_name[""]
    if _denied(star) and _denied(empty) and not _meets_star_first(resources, name):
        by_name[WILDCARD], by_name[""] = empty, star
    return [acl for acls in by_name.values() for acl in acls]


def _denied(acls: list[AppliedAcl]) -> bool:
    return any(not allows(acl.record) for acl in acls)


def _meets_star_first(resources: ResourceIndex, name: str) -> bool:
    """Whether Kafka comes upon ``*`` before the empty name.

    It does if ``*`` is what it meets when it has passed all names with the first character of ``name``;
    otherwise it jumps to the empty name, and searches for ``*`` afterwards. Only a DENY under both makes it
    matter which is first, and no controller accepts empty names: so this may take its time.
    """
    if name == WILDCARD:
        return True
    first = utf16(name)[:2]
    below = max((key for key in map(utf16, resources.names()) if key[:2] < first), default=b"")
    # Pattern types without a meaning sort before LITERAL, and end that part of the search.
    other = resources.prefixes.get(WILDCARD) or ()
    return below == utf16(WILDCARD) and all(acl.record.pattern_type == PatternType.PREFIXED for acl in other)


def deciding_acl(matching: list[AppliedAcl]) -> AppliedAcl | None:
    """Of matching ACLs in Kafka's order, the one that Kafka names: the first DENY, else the last ALLOW."""
    for acl in matching:
        if not allows(acl.record):
            return acl
    return matching[-1] if matching else None
