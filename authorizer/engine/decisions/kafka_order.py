"""The order in which Kafka lists ACLs: by resource type, then name, the last name first, then entry.

Texts are compared by UTF-16 code unit, as Java does; codes without a name count as UNKNOWN.
Source: StandardAcl.compareTo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.engine.index.pattern_keys import known_codes
from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType

if TYPE_CHECKING:
    import numpy.typing as npt

    from records.columns.acl_table import AclTable
    from records.columns.text_column import TextColumn
    from records.entries import AccessControlEntryRecord

_PATTERN_TYPES: Final = [*map(int, PatternType.by_code())]
_OPERATIONS: Final = [*map(int, AclOperation.by_code())]
_PERMISSION_TYPES: Final = [*map(int, AclPermissionType.by_code())]


def utf16(text: str) -> str:
    """Return a sort key with one character for each UTF-16 code unit, by which Java compares strings."""
    if text.isascii():
        return text
    return "".join(map(chr, memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]))


def entry_order(record: AccessControlEntryRecord) -> tuple[int, int, str, str, int]:
    """Return the sort key of an ACL among those of one resource type and name."""
    return (
        _PATTERN_TYPES[record.pattern_type],
        _OPERATIONS[record.operation],
        utf16(record.principal),
        utf16(record.host),
        _PERMISSION_TYPES[record.permission_type],
    )


def sort_in_kafka_order(columns: AclTable, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the rows in that order; rows of equal ACLs stay in the given order."""
    order = np.lexsort(
        (  # the last key is the primary one
            known_codes(columns.permission_types[rows], AclPermissionType),
            _ranks(columns.hosts, rows),
            _ranks(columns.principals, rows),
            known_codes(columns.operations[rows], AclOperation),
            known_codes(columns.pattern_types[rows], PatternType),
            -_ranks(columns.names, rows),
            known_codes(columns.resource_types[rows], ResourceType),
        )
    )
    return rows[order]


def _ranks(column: TextColumn, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """For each row, the rank of its text among the texts of all rows."""
    codes = column.codes[rows]
    if (codes == codes[:1]).all():
        return codes  # all rows have one text
    codes, code_of = np.unique(codes, return_inverse=True)
    texts = [column.texts[code] for code in codes.tolist()]
    # ASCII texts, which most are, compare the same in both encodings.
    keys = texts if all(map(str.isascii, texts)) else [*map(utf16, texts)]
    ranks = np.empty(len(keys), np.int32)
    ranks[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys), dtype=np.int32)
    return ranks[code_of]
