"""Which ACLs match a question, one by one, and in the order in which Kafka meets them.

This is what a decision means; the masks of `authorizer.index` say the same at once for all ACLs of a name. It
is asked for what masks cannot tell: which ACL decided, for the audit log and for explanations.

Kafka scans the names that cover the resource, the longest first, and the literal ``*`` last; within a name by
pattern type, operation (both by code), principal, host and permission, texts by UTF-16 code unit. The first
DENY decides; else the last ALLOW (StandardAcl.compareTo, StandardAuthorizerData.findAclRule).
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


def covering_buckets(index: AclIndex, resource_type: ResourceType, name: str) -> Iterator[tuple[Bucket, ...]]:
    """The ACLs that cover a resource, whoever they are for: for each name that does, in Kafka's order."""
    resources = index.resources[resource_type]
    literal = resources.literals.get(name)
    for prefix, bucket in resources.prefixes_of(name):
        if literal is not None:
            # Only the whole name can be both; it is the longest.
            yield (literal, bucket) if prefix == name else (literal,)
            if prefix != name:
                yield (bucket,)
            literal = None
        else:
            yield (bucket,)
    if literal is not None:
        yield (literal,)
    star = resources.literals.get(WILDCARD)
    if star is not None and name != WILDCARD:
        yield (star,)


def matching_acls(
    index: AclIndex,
    principal: KafkaPrincipal,
    host: str,
    resource_type: ResourceType,
    name: str,
    operation: AclOperation,
) -> list[AppliedAcl]:
    """The ACLs that match in every field, in Kafka's order. ``host`` as getHostAddress() has it."""
    principals = acl_principals(principal)
    matching: list[AppliedAcl] = []
    for buckets in covering_buckets(index, resource_type, name):
        here = [
            acl
            for bucket in buckets
            for each in principals
            for acl in acls_for(bucket, each, host)
            if covers_operation(acl.record, operation)
        ]
        here.sort(key=lambda acl: entry_order(acl.record))
        matching += here
    return matching


def deciding_acl(matching: list[AppliedAcl]) -> AppliedAcl | None:
    """Of matching ACLs in Kafka's order, the one that Kafka names: the first DENY, else the last ALLOW."""
    for acl in matching:
        if not allows(acl.record):
            return acl
    return matching[-1] if matching else None
