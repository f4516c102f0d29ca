"""An ACL in the JSON that commands and explanations show: its id, and Kafka's names for fields and codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.entries import AccessControlEntryRecord
from records.ids import uuid_from_string, uuid_to_string
from snapshot.code_names import code_from_name, code_to_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.columns.acl_table import AppliedAcl


def acl_json(record: AccessControlEntryRecord) -> dict[str, str]:
    """One ACL; a code that this build has no name for is its number (architecture.md 8.4)."""
    return {
        "id": uuid_to_string(record.id),
        "resourceType": code_to_name(ResourceType, record.resource_type),
        "resourceName": record.resource_name,
        "patternType": code_to_name(PatternType, record.pattern_type),
        "principal": record.principal,
        "host": record.host,
        "operation": code_to_name(AclOperation, record.operation),
        "permissionType": code_to_name(AclPermissionType, record.permission_type),
    }


def acl_from_json(acl: Mapping[str, str]) -> AccessControlEntryRecord:
    """The ACL whose ``acl_json`` this is.

    Raises:
        KeyError, ValueError: it is no ACL's.
    """
    return AccessControlEntryRecord(
        uuid_from_string(acl["id"]),
        code_from_name(ResourceType, acl["resourceType"]),
        acl["resourceName"],
        code_from_name(PatternType, acl["patternType"]),
        acl["principal"],
        acl["host"],
        code_from_name(AclOperation, acl["operation"]),
        code_from_name(AclPermissionType, acl["permissionType"]),
    )


def applied_acl_json(acl: AppliedAcl) -> dict[str, Any]:
    """The same with the place of the record that wrote it; ``offset`` is null for one from a checkpoint."""
    return {**acl_json(acl.record), "offset": acl.offset, "timestamp": acl.timestamp_ms}
