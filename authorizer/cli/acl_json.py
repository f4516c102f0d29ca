"""An ACL in the JSON that commands print: Kafka's field names, Kafka's names of codes, and its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord

_Code = TypeVar("_Code", AclOperation, AclPermissionType, PatternType, ResourceType)


def code_name(kind: type[_Code], code: int) -> str:
    """The code's name; of a code that this build does not know, UNKNOWN and its number."""
    member = kind.from_code(code)
    return f"UNKNOWN({code})" if member.is_unknown and code else member.name


def acl_json(record: AccessControlEntryRecord) -> dict[str, Any]:
    """One ACL."""
    return {
        "id": uuid_to_string(record.id),
        "resourceType": code_name(ResourceType, record.resource_type),
        "resourceName": record.resource_name,
        "patternType": code_name(PatternType, record.pattern_type),
        "principal": record.principal,
        "host": record.host,
        "operation": code_name(AclOperation, record.operation),
        "permissionType": code_name(AclPermissionType, record.permission_type),
    }
