"""The order in which Kafka lists ACLs: by resource type, then name, the last name first, then entry.

Texts are compared by UTF-16 code unit, as Java does; codes without a name count as UNKNOWN.
Source: StandardAcl.compareTo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import IntEnum

    import numpy.typing as npt

    from records.entries import AccessControlEntryRecord
    from snapshot.columns import AclColumns
    from snapshot.rows import AppliedAcl
    from snapshot.text_column import TextColumn


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


def in_entry_order(acls: Iterable[AppliedAcl]) -> list[AppliedAcl]:
    """ACLs of one resource type and name."""
    found = [*acls]
    if len(found) > 1:
        found.sort(key=lambda acl: entry_order(acl.record))
    return found


def in_kafka_order(acls: Iterable[AppliedAcl]) -> list[AppliedAcl]:
    """ACLs of any type and name."""
    found = in_entry_order(acls)
    found.sort(key=lambda acl: utf16(acl.record.resource_name), reverse=True)
    found.sort(key=lambda acl: ResourceType.from_code(acl.record.resource_type))
    return found


def rows_in_kafka_order(columns: AclColumns, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Rows of one resource type."""
    order = np.lexsort(
        (  # the last one is the first to sort by
            _known(columns.permission_types[rows], AclPermissionType),
            _ranks(columns.hosts, rows),
            _ranks(columns.principals, rows),
            _known(columns.operations[rows], AclOperation),
            _known(columns.pattern_types[rows], PatternType),
            -_ranks(columns.names, rows),
        )
    )
    return rows[order]


def _known(codes: npt.NDArray[np.int8], named: type[IntEnum]) -> npt.NDArray[np.int8]:
    """The codes, as `from_code` reads them."""
    return np.where((codes >= 0) & (codes < len(named)), codes, np.int8(0))


def _ranks(column: TextColumn, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """For each row, which place its text has among those of all rows."""
    codes, code_of = np.unique(column.codes[rows], return_inverse=True)
    keys = [utf16(column.texts[code]) for code in codes.tolist()]
    ranks = np.empty(len(keys), np.intp)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return ranks[code_of]
