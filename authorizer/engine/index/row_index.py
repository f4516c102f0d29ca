"""RowIndex: the rows of an image's columns by principal, and by pattern. Built once.

Two orders of all rows, without an object for an ACL. By principal, in groups of one pattern (pattern_keys):

    rows           7          0   3          5   1         4    ...    ordered by (principal, kind, name)
    group starts   0          1              3             5
    group keys     orders     orders-        payments      orders      kind and code of the name in one number
                   topic      topic, prefix  group         topic
    group masks    READ       WRITE|DENY..   HAS_HOSTS   READ        the union of the group's ACLs
    first groups   0 (User:alice)                          3 (User:bob)

so that the mask of one principal's pattern is found by one bisection of its patterns. The leaf of a group
with specific hosts is computed on demand. By pattern, of all principals:

    rows           7   4              9             ...    ordered by (kind, name)
    starts         0                  2
    pattern keys   (topic, orders)    (topic, users)       sorted
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from authorizer.api.ip_address import STRICTEST, Network, NetworkRules
from authorizer.engine.index import limits
from authorizer.engine.index.covers import Cover, single_cover
from authorizer.engine.index.masks import (
    ALLOW_MASKS,
    DENY_MASKS,
    PatternLeaf,
    acl_mask,
    add_to_leaf,
    host_reader,
    shared_masks,
)
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN, PATTERNS, PERMISSIONS, PREFIXED, known_codes
from records.acl import WILDCARD, AclPermissionType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from records.columns.acl_table import AppliedAcl
    from records.ids import Uuid
    from snapshot.columns import AclColumns

_ALLOW: Final = int(AclPermissionType.ALLOW)

# A sort key has the code of a name in its lowest bits, above it the kind, above that the principal.
_NAME_BITS: Final = 31
_NAME_MASK: Final = (1 << _NAME_BITS) - 1
_KIND_BITS: Final = 4
# In place of the mask of a group with specific hosts. No mask is negative.
_HAS_HOSTS: Final = -1

# Number of rows whose ids can be read in the time of finding the row of one id.
_ROWS_PER_ID: Final = 8

_CODES: Final = 256


def _by_code(masks: dict[int, int]) -> npt.NDArray[np.int32]:
    """The mask of every operation code; a negative code is an index from the end."""
    table = np.zeros(_CODES, np.int32)
    table[list(masks)] = list(masks.values())
    return table


# By whether the ACL allows, then by operation code.
_MASKS: Final = np.array([_by_code(DENY_MASKS), _by_code(ALLOW_MASKS)])


class RowIndex:
    """See the module. Immutable.

    Attributes:
        networks: whether the hosts of ACLs may be networks.
        may_have_networks: whether any host has the form of a network.
        unknown_code_counts: for each resource type, how many ACLs have an unknown code (pattern_keys).
        lengths: for each resource type, the lengths of its prefixes, longest first.
        name_codes: by name, its code in the columns.
    """

    __slots__ = (
        "_acls_by_bits",
        "_first_groups",
        "_group_keys",
        "_group_masks",
        "_group_starts",
        "_pattern_keys",
        "_pattern_starts",
        "_principal_codes",
        "_read_allow",
        "_read_deny",
        "_row_masks",
        "_rows",
        "_rows_by_pattern",
        "_rows_by_principal",
        "columns",
        "lengths",
        "may_have_networks",
        "name_codes",
        "networks",
        "unknown_code_counts",
    )

    def __init__(self, columns: AclColumns, *, networks: NetworkRules = STRICTEST) -> None:
        self.columns = columns
        self.networks = networks
        self.may_have_networks = any("/" in host for host in columns.hosts.texts)
        self._read_allow, self._read_deny = (host_reader(networks=each) for each in networks)
        self.name_codes = {text: code for code, text in enumerate(columns.names.texts)}
        self._principal_codes = {text: code for code, text in enumerate(columns.principals.texts)}
        types = known_codes(columns.resource_types, ResourceType)
        kinds = (types + np.where(columns.pattern_types == LITERAL_PATTERN, 0, PREFIXED)).astype(np.int64)
        keys = (kinds << _NAME_BITS) | columns.names.codes
        # Only the first requested ones, by bits and group.
        self._acls_by_bits: dict[tuple[int, int], list[AppliedAcl]] = {}
        self.unknown_code_counts = _count_unknown_codes(columns, types)
        self._arrange_by_principal(keys)
        self._arrange_by_pattern(keys)
        self.lengths = tuple(self._lengths(resource_type) for resource_type in range(PREFIXED))

    def _arrange_by_principal(self, pattern_keys: npt.NDArray[np.int64]) -> None:
        columns = self.columns
        shift = _KIND_BITS + _NAME_BITS
        rows, keys, starts = _grouped((columns.principals.codes.astype(np.int64) << shift) | pattern_keys)
        masks = row_masks = self._masks(rows)
        has_hosts = columns.hosts.codes[rows] != self._wildcard_host_code()
        if len(starts):
            masks = np.where(
                np.logical_or.reduceat(has_hosts, starts), _HAS_HOSTS, np.bitwise_or.reduceat(masks, starts)
            )
        first_groups = np.searchsorted(keys >> shift, np.arange(len(columns.principals.texts) + 1))
        self._rows_by_principal = rows
        self._rows, self._row_masks = _view(rows), _view(row_masks)
        self._group_starts = _view(np.append(starts, len(rows)).astype(np.int32))
        self._group_keys = _view(keys & ((1 << shift) - 1))
        self._group_masks = _view(masks.astype(np.int32))
        self._first_groups = _view(first_groups.astype(np.int32))

    def _arrange_by_pattern(self, pattern_keys: npt.NDArray[np.int64]) -> None:
        rows, keys, starts = _grouped(pattern_keys)
        self._rows_by_pattern = rows
        self._pattern_starts = _view(np.append(starts, len(rows)).astype(np.int32))
        self._pattern_keys = _view(keys)

    def _lengths(self, resource_type: int) -> tuple[int, ...]:
        return tuple(sorted(set(map(len, self.names(resource_type + PREFIXED))), reverse=True))

    def _wildcard_host_code(self) -> int:
        """The code of the host ``*``; that of no host if no ACL has it."""
        texts = self.columns.hosts.texts
        return texts.index(WILDCARD) if WILDCARD in texts else -1

    def _masks(self, rows: Any) -> npt.NDArray[np.int32]:
        columns = self.columns
        allows = columns.permission_types[rows] == _ALLOW
        return _MASKS[allows.astype(np.int8), columns.operations[rows]]  # type: ignore[no-any-return]

    def all_rows(self) -> npt.NDArray[np.int32]:
        return self._rows_by_principal

    def exclude(self, rows: npt.NDArray[np.int32], ids: Mapping[Uuid, object]) -> npt.NDArray[np.int32]:
        """Return the rows whose ids are not among these."""
        columns = self.columns
        if len(rows) > _ROWS_PER_ID * len(ids):
            removed_rows = [row for row in map(columns.row_of, ids) if row is not None]
            return rows[~np.isin(rows, removed_rows)]
        return np.array([row for row in rows.tolist() if columns.id_of(row) not in ids], np.int32)

    # -- by principal --------------------------------------------------------------------------------------

    def code_of(self, principal: str) -> int | None:
        """Return the principal's code; None if there are no rows for exactly this principal."""
        return self._principal_codes.get(principal)

    def count_patterns(self, principal: int) -> int:
        """Return for how many patterns the principal with this code has rows."""
        return self._first_groups[principal + 1] - self._first_groups[principal]

    def principals_with_more_patterns(self, limit: int) -> list[int]:
        """Return the codes of the principals with rows for more than this number of patterns."""
        codes: list[int] = np.flatnonzero(np.diff(np.asarray(self._first_groups)) > limit).tolist()
        return codes

    def rows_of(self, principal: str) -> npt.NDArray[np.int32]:
        code = self._principal_codes.get(principal)
        if code is None:
            return self._rows_by_principal[:0]
        first, last = self._first_groups[code], self._first_groups[code + 1]
        return self._rows_by_principal[self._group_starts[first] : self._group_starts[last]]

    def covers_of(self, principal: int) -> list[list[Cover]]:
        """Return new single covers of the patterns of the principal with this code, by resource type."""
        covers: list[list[Cover]] = [[] for _ in range(PREFIXED)]
        first, last = self._first_groups[principal], self._first_groups[principal + 1]
        texts = self.columns.names.texts
        keys = self._group_keys[first:last].tolist()
        masks = self._group_masks[first:last].tolist()
        for group, key, mask in zip(range(first, last), keys, shared_masks(masks), strict=True):
            prefixed, resource_type = divmod(key >> _NAME_BITS, PREFIXED)
            leaf = mask if mask != _HAS_HOSTS else self._leaf_of_hosts(group)
            covers[resource_type].append(
                single_cover(prefixed * PREFIXED, texts[key & _NAME_MASK], leaf, group)
            )
        return covers

    def group_at(self, principal: int | None, kind: int, name: str) -> int | None:
        """Return the group of the principal with this code for one pattern; None if there is none."""
        code = self.name_codes.get(name)
        if code is None or principal is None:
            return None
        key = kind << _NAME_BITS | code
        keys, firsts = self._group_keys, self._first_groups
        last = firsts[principal + 1]
        group = bisect_left(keys, key, firsts[principal], last)
        return group if group < last and keys[group] == key else None

    def leaf_of(self, group: int) -> PatternLeaf:
        mask = self._group_masks[group]
        return mask if mask != _HAS_HOSTS else self._leaf_of_hosts(group)

    def rows_in(self, group: int | None) -> list[int]:
        """Return the rows of a group, in ascending order."""
        if group is None:
            return []
        return sorted(self._rows[self._group_starts[group] : self._group_starts[group + 1]])

    def acls_with_bits(self, request_bits: int, group: int) -> list[AppliedAcl]:
        """Return the ACLs of a group whose mask has any of these bits. Do not change the list."""
        cache = self._acls_by_bits
        found = cache.get((request_bits, group))
        if found is None:
            masks, rows, acl = self._row_masks, self._rows, self.columns.acl
            positions = range(self._group_starts[group], self._group_starts[group + 1])
            found = [acl(rows[each]) for each in positions if masks[each] & request_bits]
            if len(cache) < limits.CACHED_REASONS_MAXIMUM:
                cache[request_bits, group] = found
        return found

    def _leaf_of_hosts(self, group: int) -> PatternLeaf:
        return self.leaf(self.rows_in(group))  # type: ignore[return-value] # no group is empty

    def leaf(self, rows: Iterable[int]) -> PatternLeaf | None:
        """Return the leaf of these rows of one principal and pattern; None if there are none."""
        columns = self.columns
        leaf: PatternLeaf | None = None
        for row in rows:
            host = self.read_host(columns.hosts.text(row), columns.permission_types.item(row))
            leaf = add_to_leaf(leaf, host, self.mask(row))
        return leaf

    def read_host(self, host: str, permission_type: int) -> str | Network:
        """Return the host of an ACL, as a network if it may be one."""
        return self._read_allow(host) if permission_type == _ALLOW else self._read_deny(host)

    def mask(self, row: int) -> int:
        columns = self.columns
        return acl_mask(columns.operations.item(row), columns.permission_types.item(row))

    # -- by pattern ----------------------------------------------------------------------------------------

    def names(self, kind: int) -> Iterator[str]:
        first, last = (bisect_left(self._pattern_keys, each << _NAME_BITS) for each in (kind, kind + 1))
        texts = self.columns.names.texts
        return (texts[key & _NAME_MASK] for key in self._pattern_keys[first:last].tolist())

    def rows_at(self, kind: int, name: str) -> npt.NDArray[np.int32]:
        """Return the rows of one pattern, in ascending order."""
        begin, end = self._range_at(kind, name)
        return np.sort(self._rows_by_pattern[begin:end])

    def count_at(self, kind: int, name: str) -> int:
        begin, end = self._range_at(kind, name)
        return end - begin

    def _range_at(self, kind: int, name: str) -> tuple[int, int]:
        """The range of the rows of one pattern; empty if it has none."""
        code = self.name_codes.get(name)
        if code is None:
            return 0, 0
        key = kind << _NAME_BITS | code
        position = bisect_left(self._pattern_keys, key)
        has_rows = position < len(self._pattern_keys) and self._pattern_keys[position] == key
        return (self._pattern_starts[position], self._pattern_starts[position + 1]) if has_rows else (0, 0)


def _grouped(
    keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows in the order of their keys; the distinct keys; the position of the first row of each."""
    rows = np.argsort(keys)
    ordered = keys[rows]
    is_start = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_start[1:])
    starts = np.flatnonzero(is_start)
    return rows.astype(np.int32), ordered[starts], starts


def _view(numbers: npt.NDArray[Any]) -> memoryview[int]:
    """A view whose items Python reads in less than half the time."""
    return numbers.data


def _count_unknown_codes(columns: AclColumns, types: npt.NDArray[np.int8]) -> tuple[int, ...]:
    """For each resource type, the number of rows with an unknown code."""
    is_known = np.isin(columns.pattern_types, PATTERNS) & np.isin(columns.permission_types, PERMISSIONS)
    return tuple(np.bincount(types[~is_known], minlength=PREFIXED).tolist())
