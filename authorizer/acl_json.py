"""An ACL in the JSON that commands and explanations show: its id, and Kafka's names for fields and codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.ids import uuid_to_string
from snapshot.code_names import code_to_name

if TYPE_CHECKING:
    from records.entries import AccessControlEntryRecord
    from snapshot.rows import AppliedAcl


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


def applied_acl_json(acl: AppliedAcl) -> dict[str, Any]:
    """The same with the place of the record that wrote it; ``offset`` is null for one from a checkpoint."""
    return {**acl_json(acl.record), "offset": acl.offset, "timestamp": acl.timestamp_ms}
