"""Histories of changes, as tests compare them with logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from snapshot.code_names import code_from_name
from snapshot.jobs.folding.change_recorder import _readable


def as_record(row: Mapping[str, Any]) -> AccessControlEntryRecord:
    """The ACL of an interval, or of a change with its id."""
    return AccessControlEntryRecord(
        Uuid(bytes(row["id"])),
        code_from_name(ResourceType, row["resource_type"]),
        row["resource_name"],
        code_from_name(PatternType, row["pattern_type"]),
        row["principal"],
        row["host"],
        code_from_name(AclOperation, row["operation"]),
        code_from_name(AclPermissionType, row["permission_type"]),
    )


def open_intervals(acls: Iterable[AppliedAcl]) -> Iterator[dict[str, Any]]:
    """The intervals that a stored state stands for."""
    for acl in acls:
        yield _readable(acl) | {
            "id": acl.record.id,
            "valid_from_offset": acl.offset,
            "valid_to_offset": None,
        }
