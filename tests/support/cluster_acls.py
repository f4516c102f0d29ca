"""ACLs of a cluster, of its log and of its node, in one form."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizer.node.node import Node
from records.acl import AccessControlEntryFilter, ResourcePatternFilter
from records.acl import AclBinding as NodeAcl
from records.acl import AclBindingFilter as NodeFilter
from records.entries import AccessControlEntryRecord
from records.ids import content_uuid
from snapshot.image import AclsImage
from support.node_acls import ANY_ACL
from support.nodes import SOON_S

# The client's types do not allow None, which means any name.
ANY = AclBindingFilter(
    ResourceType.ANY,
    cast("str", None),
    ResourcePatternType.ANY,
    cast("str", None),
    cast("str", None),
    AclOperation.ANY,
    AclPermissionType.ANY,
)
Acl = tuple[str, ...]


def described(admin: AdminClient) -> set[Acl]:
    """The ACLs that the cluster lists."""
    return {
        (
            acl.restype.name,
            acl.name,
            acl.resource_pattern_type.name,
            acl.principal,
            acl.host,
            acl.operation.name,
            acl.permission_type.name,
        )
        for acl in admin.describe_acls(ANY).result(SOON_S)
    }


def in_image(image: AclsImage) -> set[Acl]:
    """The ACLs of the log, with the client's names."""
    return {
        (
            ResourceType(acl.record.resource_type).name,
            acl.record.resource_name,
            ResourcePatternType(acl.record.pattern_type).name,
            acl.record.principal,
            acl.record.host,
            AclOperation(acl.record.operation).name,
            AclPermissionType(acl.record.permission_type).name,
        )
        for acl in image
    }


def acls_of(node: Node) -> set[Acl]:
    """The ACLs that the node's authorizer lists."""
    return {
        (
            ResourceType(int(acl.pattern.resource_type)).name,
            acl.pattern.name,
            ResourcePatternType(int(acl.pattern.pattern_type)).name,
            acl.entry.principal,
            acl.entry.host,
            AclOperation(int(acl.entry.operation)).name,
            AclPermissionType(int(acl.entry.permission_type)).name,
        )
        for acl in node.authorizer.acls(ANY_ACL)
    }


def filter_of(acl: AclBinding) -> AclBindingFilter:
    """A filter that matches only this ACL."""
    return AclBindingFilter(
        acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation,
        acl.permission_type,
    )  # fmt: skip


def for_a_node(acl: AclBinding) -> tuple[NodeAcl, NodeFilter]:
    """The ACL in the product's types, and a filter that matches only it."""
    codes = (acl.restype, acl.name, acl.resource_pattern_type, acl.principal, acl.host, acl.operation)
    content: Any = tuple(getattr(each, "value", each) for each in (*codes, acl.permission_type))
    same = AccessControlEntryRecord(content_uuid(content), *content).binding()
    pattern, entry = same.pattern, same.entry
    return same, NodeFilter(
        ResourcePatternFilter(pattern.resource_type, pattern.name, pattern.pattern_type),
        AccessControlEntryFilter(entry.principal, entry.host, entry.operation, entry.permission_type),
    )


def create(admin: AdminClient, acl: AclBinding) -> None:
    """Create the ACL, and wait for the cluster's answer."""
    _done(admin.create_acls([acl]).values())


def remove(admin: AdminClient, acl: AclBinding) -> None:
    """Remove the ACL, and wait for the cluster's answer."""
    _done(admin.delete_acls([filter_of(acl)]).values())


def _done(changed: Iterable[Future[Any]]) -> None:
    for future in changed:
        future.result(SOON_S)
