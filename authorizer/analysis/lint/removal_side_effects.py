"""Side effects of removing an ACL that changes no decision: authorize-by-resource-type and allow.everyone.

Authorize-by-resource-type (KIP-679) has other rules: operations imply no others, patterns count even if no
such name can exist, and an empty prefix denies nothing. So a redundant ACL may still change its answer. In
doubt this module keeps the ACL.

Source: Authorizer.authorizeByResourceType; `authorizer.engine.decisions.by_resource_type`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.analysis.request_space.nested_patterns import NO_PATTERN, NestedPatterns, last_keys
from authorizer.analysis.request_space.patterns import PatternRows
from authorizer.api.ip_address import EXACT_HOSTS
from authorizer.engine.index.masks import ALLOW_BITS, EXPLICIT_REQUEST_BITS, OPERATIONS, denied_operations
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN, has_unknown_code
from records.acl import WILDCARD, AclPermissionType

if TYPE_CHECKING:
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

_EXPLICIT_BITS: Final = tuple(
    (EXPLICIT_REQUEST_BITS[operation] & ALLOW_BITS, denied_operations(EXPLICIT_REQUEST_BITS[operation]))
    for operation in OPERATIONS
)
_ALL_EXPLICIT_BITS: Final = sum(bit for bit, _ in _EXPLICIT_BITS)


@cache
def explicit_operations(mask: int) -> int:
    """Return the bits of the operations that a mask allows or denies explicitly, not by implication."""
    return mask & _ALL_EXPLICIT_BITS | sum(
        bit for bit, deny in _EXPLICIT_BITS if denied_operations(mask) & deny
    )


def substitutes_for(other: AccessControlEntryRecord, record: AccessControlEntryRecord) -> bool:
    """Return whether ``other``, which covers the requests of ``record``, also has its effect there."""
    if has_unknown_code(other):
        return False
    if other.pattern_type == LITERAL_PATTERN:
        if other.resource_name == WILDCARD:
            return True
        return record.pattern_type == LITERAL_PATTERN and record.resource_name == other.resource_name
    return bool(other.resource_name) or other.permission_type == AclPermissionType.ALLOW


def is_considered(record: AccessControlEntryRecord) -> bool:
    """Return whether authorize-by-resource-type reads the ACL; it skips an empty prefix that denies."""
    if has_unknown_code(record):
        return False
    is_prefix = record.pattern_type != LITERAL_PATTERN
    return not (is_prefix and not record.resource_name and record.permission_type != AclPermissionType.ALLOW)


class AllowEveryoneCoverage:
    """Number of ACLs at each pattern, for ``allow.everyone.if.no.acl.found``."""

    def __init__(self, table: AclTable) -> None:
        rows = PatternRows.of(table, networks=EXACT_HOSTS, only_deciding=False)
        patterns = NestedPatterns(rows.types, rows.keys, last_keys(rows.keys, rows.texts))
        self._outer: list[int] = patterns.outer.tolist()
        self._counts: list[int] = np.diff(patterns.starts, append=len(patterns.order)).tolist()
        self._patterns: dict[int, int] = dict(
            zip(rows.positions[patterns.order].tolist(), patterns.of_rows.tolist(), strict=True)
        )

    def is_covered_without(self, row: int) -> bool:
        """Return whether other ACLs cover all names of the ACL."""
        if row not in self._patterns:
            return True
        pattern = self._patterns[row]
        if self._counts[pattern] > 1:
            return True
        while (pattern := self._outer[pattern]) != NO_PATTERN:
            if self._counts[pattern]:
                return True
        return False

    def remove(self, row: int) -> None:
        if row in self._patterns:
            self._counts[self._patterns[row]] -= 1

    def restore(self, row: int) -> None:
        if row in self._patterns:
            self._counts[self._patterns[row]] += 1
