"""RowIndex: the rows of an image's columns by principal, and by pattern. Built once.

Two orders of all rows, without an object for an ACL. By principal, in groups of one pattern (pattern_keys):

    rows           7          0   3          5   1         4    ...    ordered by (principal, kind, name)
    group starts   0          1              3             5
    group places   orders     orders-        payments      orders      kind and code of the name in one number
                   topic      topic, prefix  group         topic
    group masks    READ       WRITE|DENY..   HOSTED        READ        the union of the group's ACLs
    first groups   0 (User:alice)                          3 (User:bob)

so that the mask of one principal's pattern is found by one bisection of its patterns. The leaf of a group
with specific hosts is computed on demand. By pattern, of all principals:

    rows           7   4              9             ...    ordered by (kind, name)
    starts         0                  2
    places         (topic, orders)    (topic, users)       sorted
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from authorizer.api.ip_network import STRICTEST
from authorizer.engine.index import limits
from authorizer.engine.index.covers import Cover, single_cover
from authorizer.engine.index.masks import (
    ALLOW_MASKS,
    DENY_MASKS,
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

    from authorizer.api.ip_network import Network, NetworkRules
    from authorizer.engine.index.masks import PatternLeaf
    from records.columns.acl_table import AppliedAcl
    from records.ids import Uuid
    from snapshot.columns import AclColumns

_ALLOW: Final = int(AclPermissionType.ALLOW)

# Of a sort key, the lowest; a kind is above them, and a principal above that.
_NAME_BITS: Final = 31
_NAME_MASK: Final = (1 << _NAME_BITS) - 1
_KIND_BITS: Final = 4
# In place of a group's mask. No mask is negative.
_HOSTED: Final = -1

# Rows whose ids can be looked at in the time that finding the row of one id takes.
_ROWS_FOR_AN_ID: Final = 8

_CODES: Final = 256


def _by_code(masks: dict[int, int]) -> npt.NDArray[np.int32]:
    """A mask for every operation code, as numpy looks it up: a negative code from the end."""
    table = np.zeros(_CODES, np.int32)
    table[list(masks)] = list(masks.values())
    return table


# Permission, then operation.
_MASKS: Final = np.array([_by_code(DENY_MASKS), _by_code(ALLOW_MASKS)])


class RowIndex:
    """See the module. Immutable.

    Attributes:
        columns: whose rows they are.
        networks: whether the hosts of ACLs may be networks.
        may_have_networks: whether a host looks like one.
        odd: for each resource type, how many ACLs `is_odd`.
        lengths: for each resource type, the lengths of its prefixes, longest first.
        name_codes: by name, its code in the columns.
    """

    __slots__ = (
        "_first_groups",
        "_group_masks",
        "_group_places",
        "_group_starts",
        "_place_starts",
        "_places",
        "_principal_codes",
        "_read_allow",
        "_read_deny",
        "_row_masks",
        "_rows",
        "_rows_by_place",
        "_rows_by_principal",
        "_saying",
        "columns",
        "lengths",
        "may_have_networks",
        "name_codes",
        "networks",
        "odd",
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
        places = (kinds << _NAME_BITS) | columns.names.codes
        # The first that were asked for, by the bits and the group.
        self._saying: dict[tuple[int, int], list[AppliedAcl]] = {}
        self.odd = _odd(columns, types)
        self._by_principal(places)
        self._by_place(places)
        self.lengths = tuple(self._lengths(resource_type) for resource_type in range(PREFIXED))

    def _by_principal(self, places: npt.NDArray[np.int64]) -> None:
        columns = self.columns
        shift = _KIND_BITS + _NAME_BITS
        rows, keys, starts = _grouped((columns.principals.codes.astype(np.int64) << shift) | places)
        masks = row_masks = self._masks(rows)
        hosted = columns.hosts.codes[rows] != self._star()
        if len(starts):
            masks = np.where(
                np.logical_or.reduceat(hosted, starts), _HOSTED, np.bitwise_or.reduceat(masks, starts)
            )
        first_groups = np.searchsorted(keys >> shift, np.arange(len(columns.principals.texts) + 1))
        self._rows_by_principal = rows
        self._rows, self._row_masks = _view(rows), _view(row_masks)
        self._group_starts = _view(np.append(starts, len(rows)).astype(np.int32))
        self._group_places = _view(keys & ((1 << shift) - 1))
        self._group_masks = _view(masks.astype(np.int32))
        self._first_groups = _view(first_groups.astype(np.int32))

    def _by_place(self, places: npt.NDArray[np.int64]) -> None:
        rows, keys, starts = _grouped(places)
        self._rows_by_place = rows
        self._place_starts = _view(np.append(starts, len(rows)).astype(np.int32))
        self._places = _view(keys)

    def _lengths(self, resource_type: int) -> tuple[int, ...]:
        return tuple(sorted(set(map(len, self.names(resource_type + PREFIXED))), reverse=True))

    def _star(self) -> int:
        """The code of the host ``*``; that of no host if no ACL has it."""
        texts = self.columns.hosts.texts
        return texts.index(WILDCARD) if WILDCARD in texts else -1

    def _masks(self, rows: Any) -> npt.NDArray[np.int32]:
        """What each of these rows says."""
        columns = self.columns
        allows = columns.permission_types[rows] == _ALLOW
        return _MASKS[allows.astype(np.int8), columns.operations[rows]]  # type: ignore[no-any-return]

    def every_row(self) -> npt.NDArray[np.int32]:
        """All rows."""
        return self._rows_by_principal

    def without(self, rows: npt.NDArray[np.int32], ids: Mapping[Uuid, object]) -> npt.NDArray[np.int32]:
        """Those of the rows whose ids are not among these."""
        columns = self.columns
        if len(rows) > _ROWS_FOR_AN_ID * len(ids):
            removed_rows = [row for row in map(columns.row_of, ids) if row is not None]
            return rows[~np.isin(rows, removed_rows)]
        return np.array([row for row in rows.tolist() if columns.id_of(row) not in ids], np.int32)

    # -- by principal --------------------------------------------------------------------------------------

    def code_of(self, principal: str) -> int | None:
        """The principal's code; None if there are no rows for exactly this principal."""
        return self._principal_codes.get(principal)

    def count_places(self, principal: int) -> int:
        """In how many places the principal with this code has rows."""
        return self._first_groups[principal + 1] - self._first_groups[principal]

    def principals_in(self, places: int) -> list[int]:
        """The codes of the principals with rows in more than this number of places."""
        many: list[int] = np.flatnonzero(np.diff(np.asarray(self._first_groups)) > places).tolist()
        return many

    def rows_of(self, principal: str) -> npt.NDArray[np.int32]:
        """All rows for exactly this principal."""
        code = self._principal_codes.get(principal)
        if code is None:
            return self._rows_by_principal[:0]
        first, last = self._first_groups[code], self._first_groups[code + 1]
        return self._rows_by_principal[self._group_starts[first] : self._group_starts[last]]

    def covers_of(self, principal: int) -> list[list[Cover]]:
        """The places where the principal with this code has rows, for each resource type. New ones."""
        covers: list[list[Cover]] = [[] for _ in range(PREFIXED)]
        first, last = self._first_groups[principal], self._first_groups[principal + 1]
        texts = self.columns.names.texts
        places = self._group_places[first:last].tolist()
        masks = self._group_masks[first:last].tolist()
        for group, place, mask in zip(range(first, last), places, shared_masks(masks), strict=True):
            prefixed, resource_type = divmod(place >> _NAME_BITS, PREFIXED)
            leaf = mask if mask != _HOSTED else self._hosted(group)
            covers[resource_type].append(
                single_cover(prefixed * PREFIXED, texts[place & _NAME_MASK], leaf, group)
            )
        return covers

    def group_at(self, principal: int | None, kind: int, name: str) -> int | None:
        """The group of the principal with this code at one place; None if there is none."""
        code = self.name_codes.get(name)
        if code is None or principal is None:
            return None
        place = kind << _NAME_BITS | code
        places, firsts = self._group_places, self._first_groups
        last = firsts[principal + 1]
        group = bisect_left(places, place, firsts[principal], last)
        return group if group < last and places[group] == place else None

    def leaf_of(self, group: int) -> PatternLeaf:
        """What the rows of a group say."""
        mask = self._group_masks[group]
        return mask if mask != _HOSTED else self._hosted(group)

    def rows_in(self, group: int | None) -> list[int]:
        """The rows of a group, in ascending order."""
        if group is None:
            return []
        return sorted(self._rows[self._group_starts[group] : self._group_starts[group + 1]])

    def acls_saying(self, request_bits: int, group: int) -> list[AppliedAcl]:
        """Those of them that say any of these bits. Not to be changed."""
        remembered = self._saying
        found = remembered.get((request_bits, group))
        if found is None:
            masks, rows, acl = self._row_masks, self._rows, self.columns.acl
            at = range(self._group_starts[group], self._group_starts[group + 1])
            found = [acl(rows[each]) for each in at if masks[each] & request_bits]
            if len(remembered) < limits.REMEMBERED_REASONS:
                remembered[request_bits, group] = found
        return found

    def _hosted(self, group: int) -> PatternLeaf:
        return self.leaf(self.rows_in(group))  # type: ignore[return-value] # no group is empty

    def leaf(self, rows: Iterable[int]) -> PatternLeaf | None:
        """What these rows, of one principal and place, say together; None if there are none."""
        columns = self.columns
        leaf: PatternLeaf | None = None
        for row in rows:
            host = self.read_host(columns.hosts.text(row), columns.permission_types.item(row))
            leaf = add_to_leaf(leaf, host, self.mask(row))
        return leaf

    def read_host(self, host: str, permission_type: int) -> str | Network:
        """The host of an ACL: a network, if it may be one."""
        return self._read_allow(host) if permission_type == _ALLOW else self._read_deny(host)

    def mask(self, row: int) -> int:
        """What one row says."""
        columns = self.columns
        return acl_mask(columns.operations.item(row), columns.permission_types.item(row))

    # -- by place ------------------------------------------------------------------------------------------

    def names(self, kind: int) -> Iterator[str]:
        """Every name of the kind."""
        first, last = (bisect_left(self._places, each << _NAME_BITS) for each in (kind, kind + 1))
        texts = self.columns.names.texts
        return (texts[place & _NAME_MASK] for place in self._places[first:last].tolist())

    def rows_at(self, kind: int, name: str) -> npt.NDArray[np.int32]:
        """The rows of one place, in ascending order."""
        begin, end = self._range_at(kind, name)
        return np.sort(self._rows_by_place[begin:end])

    def count_at(self, kind: int, name: str) -> int:
        """How many rows one place has."""
        begin, end = self._range_at(kind, name)
        return end - begin

    def _range_at(self, kind: int, name: str) -> tuple[int, int]:
        """Where the rows of one place are; an empty range for a place that has none."""
        code = self.name_codes.get(name)
        if code is None:
            return 0, 0
        place = kind << _NAME_BITS | code
        at = bisect_left(self._places, place)
        is_there = at < len(self._places) and self._places[at] == place
        return (self._place_starts[at], self._place_starts[at + 1]) if is_there else (0, 0)


def _grouped(
    keys: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The rows in the order of their keys; the distinct keys; where among the rows each begins."""
    rows = np.argsort(keys)
    ordered = keys[rows]
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    starts = np.flatnonzero(begins)
    return rows.astype(np.int32), ordered[starts], starts


def _view(numbers: npt.NDArray[Any]) -> memoryview[int]:
    """The same numbers, which Python reads one by one in less than half the time."""
    return numbers.data


def _odd(columns: AclColumns, types: npt.NDArray[np.int8]) -> tuple[int, ...]:
    """For each resource type, how many rows are odd (places.is_odd)."""
    usual = np.isin(columns.pattern_types, PATTERNS) & np.isin(columns.permission_types, PERMISSIONS)
    return tuple(np.bincount(types[~usual], minlength=PREFIXED).tolist())
