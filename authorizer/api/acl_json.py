"""JSON form of an ACL: its id, and Kafka's names of fields and codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from records.acl import (
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    code_from_name,
    code_to_name,
)
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.columns.acl_table import AppliedAcl
    from records.entries import AccessControlEntryRecord, AclContent

_CONTENT_FIELDS: Final = (
    "resourceType",
    "resourceName",
    "patternType",
    "principal",
    "host",
    "operation",
    "permissionType",
)


def acl_json(record: AccessControlEntryRecord) -> dict[str, str]:
    """The JSON of an ACL; a code without a known name is written as its number."""
    return {"id": uuid_to_string(record.id), **content_json(record.content)}


def content_json(content: AclContent) -> dict[str, str]:
    """The JSON of an ACL without its id."""
    return dict(zip(_CONTENT_FIELDS, content_texts(content), strict=True))


def content_texts(content: AclContent) -> tuple[str, str, str, str, str, str, str]:
    """The values of ``content_json``, in its order."""
    resource_type, name, pattern_type, principal, host, operation, permission_type = content
    return (
        code_to_name(ResourceType, resource_type),
        name,
        code_to_name(PatternType, pattern_type),
        principal,
        host,
        code_to_name(AclOperation, operation),
        code_to_name(AclPermissionType, permission_type),
    )


def content_from_json(acl: Mapping[str, str]) -> AclContent:
    """Parse ``content_json``. Raises KeyError, ValueError: not the JSON of an ACL."""
    return (
        code_from_name(ResourceType, acl["resourceType"]),
        acl["resourceName"],
        code_from_name(PatternType, acl["patternType"]),
        acl["principal"],
        acl["host"],
        code_from_name(AclOperation, acl["operation"]),
        code_from_name(AclPermissionType, acl["permissionType"]),
    )


def applied_acl_json(acl: AppliedAcl) -> dict[str, Any]:
    """The JSON of an ACL with the offset of its record; ``offset`` is null if a checkpoint has the ACL."""
    return {**acl_json(acl.record), "offset": acl.offset, "timestamp": acl.timestamp_ms}
