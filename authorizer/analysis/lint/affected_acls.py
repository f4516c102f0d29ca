"""ACLs whose findings may differ after a change of others: a part for each resource type and principal.

The findings about a principal's ACLs of a resource type depend on these ACLs and on those of ``User:*``
(`removable_acls`). Those about an ALLOW of ``User:*`` depend on ACLs of ``User:*`` only. Those about a DENY
of ``User:*`` also depend on which ACLs of any principal with a name in common exist and are removed. With
``allow.everyone.if.no.acl.found`` findings depend on all ACLs, and nothing here is true.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from authorizer.analysis.permissions.acl_comparison import acl_numbers
from authorizer.analysis.request_space.nested_patterns import last_keys
from authorizer.analysis.request_space.patterns import PatternRows
from authorizer.api.ip_address import NETWORK_HOSTS
from records.acl import AclPermissionType
from records.columns.acl_table import AclTable
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    IsRow = npt.NDArray[np.bool_]
    #: A resource type and a principal; without a principal: of all.
    Part = tuple[int, str | None]

#: The row of an ACL that a table does not have.
NO_ROW: Final = -1


class ChangedParts(NamedTuple):
    """The difference of two tables of distinct ACLs in the same order.

    Attributes:
        is_removed: by row of the first table, whether the second one does not have it.
        is_added: by row of the second table, whether the first one does not have it.
        new_rows: by row of the first table, the row in the second one, or `NO_ROW`.
        parts: those with changes.
    """

    is_removed: IsRow
    is_added: IsRow
    new_rows: npt.NDArray[np.int64]
    parts: set[Part]

    @classmethod
    def between(cls, before: AclTable, after: AclTable) -> ChangedParts:
        old, new = acl_numbers((before, after))
        is_removed, is_added = ~np.isin(old, new), ~np.isin(new, old)
        new_rows = np.full(len(before), NO_ROW)
        new_rows[~is_removed] = np.flatnonzero(~is_added)
        parts: set[Part] = {*_parts_of(before, is_removed), *_parts_of(after, is_added)}
        parts |= {(each, None) for each, principal in parts if principal == WILDCARD_PRINCIPAL}
        return cls(is_removed, is_added, new_rows, parts)


def types_denied_to_everyone(changed: AclTable, acls: AclTable) -> set[Part]:
    """Return the resource types where a DENY of ``User:*`` has a name in common with a changed ACL."""
    denies = acls.take(_denies_of_everyone(acls))
    return {
        (each, None)
        for each in np.unique(changed.resource_types).tolist()
        if _overlap(*(table.take(table.resource_types == each) for table in (changed, denies)))
    }


def rows_of(table: AclTable, parts: Iterable[Part]) -> IsRow:
    """Return which ACLs are of these parts."""
    codes = {principal: code for code, principal in enumerate(table.principals.texts)}
    by_type: dict[int, list[int]] = {}
    is_row = np.zeros(len(table), np.bool_)
    for resource_type, principal in parts:
        if principal is None:
            is_row |= table.resource_types == resource_type
        elif principal in codes:
            by_type.setdefault(resource_type, []).append(codes[principal])
    for resource_type, principals in by_type.items():
        is_row |= (table.resource_types == resource_type) & np.isin(table.principals.codes, principals)
    return is_row


def parts_around(table: AclTable, is_row: IsRow) -> set[Part]:
    """Return the parts on which the findings about some ACLs depend."""
    is_deny_of_everyone = is_row & _denies_of_everyone(table)
    parts: set[Part] = {*_parts_of(table, is_row & ~is_deny_of_everyone)}
    parts |= {(each, WILDCARD_PRINCIPAL) for each, _ in parts}
    parts |= {(each, None) for each in np.unique(table.resource_types[is_deny_of_everyone]).tolist()}
    return parts


def _parts_of(table: AclTable, is_row: IsRow) -> Iterable[tuple[int, str]]:
    pairs = {
        *zip(table.resource_types[is_row].tolist(), table.principals.codes[is_row].tolist(), strict=True)
    }
    return ((resource_type, table.principals.texts[code]) for resource_type, code in pairs)


def _denies_of_everyone(table: AclTable) -> IsRow:
    is_deny: IsRow = table.permission_types != int(AclPermissionType.ALLOW)
    codes = [code for code, text in enumerate(table.principals.texts) if text == WILDCARD_PRINCIPAL]
    return is_deny & np.isin(table.principals.codes, codes)


def _overlap(table: AclTable, other: AclTable) -> bool:
    """Whether an ACL has a name in common with one of the other table; all of one resource type."""
    rows = PatternRows.of(AclTable.concat((table, other)), networks=NETWORK_HOSTS)
    lasts = last_keys(rows.keys, rows.texts)
    is_other = rows.positions >= len(table)
    return _has_inner(rows.keys, lasts, is_other) or _has_inner(rows.keys, lasts, ~is_other)


def _has_inner(keys: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64], is_inner: IsRow) -> bool:
    """Whether one of the inner patterns is in one of the others."""
    inner = np.sort(keys[is_inner])
    counts = np.searchsorted(inner, lasts[~is_inner], "right") - np.searchsorted(inner, keys[~is_inner])
    return bool(counts.any())
