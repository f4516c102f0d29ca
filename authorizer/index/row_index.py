"""RowIndex: where in an image's columns the ACLs of a principal are, and those of a name. Built once.

Two orders of all rows, and no object for an ACL. By principal, in groups of one place (places):

    rows           7          0   3          5   1         4    ...    ordered by (principal, kind, name)
    group starts   0          1              3             5
    group names    orders     orders-        payments      orders      as codes of the columns
    group kinds    topic      topic, prefix  group         topic
    group masks    READ       WRITE|DENY..   HOSTED        READ        all that the group's ACLs say
    first groups   0 (User:alice)                          3 (User:bob)

By name, whoever the ACLs are for:

    keys           (topic, orders, alice)  (topic, orders, bob)  (topic, users, bob)  ...    sorted
    rows           7                       4                     9

so that the ACLs of one place, and those of one principal there, are found by two bisections. What a group
with hosts of its own says is worked out when somebody asks for its principal.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from authorizer.index.masks import ALLOW_MASKS, DENY_MASKS, Leaf, acl_mask, add_to_leaf, shared_masks
from authorizer.index.places import KINDS, LITERAL_PATTERN, PATTERNS, PERMISSIONS, PREFIXED, known_codes
from records.acl import WILDCARD, AclPermissionType, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from records.ids import Uuid
    from snapshot.columns import AclColumns

#: Leaves by name, for each kind; None where there are none.
LeavesByKind = list[dict[str, Leaf] | None]

_ALLOW: Final = int(AclPermissionType.ALLOW)

# Of a sort key; what is left of 63 bits is for the first part.
_KIND_BITS: Final = 4
_NAME_BITS: Final = 31
_PRINCIPAL_BITS: Final = 28
# In place of a group's mask. No mask is negative.
_HOSTED: Final = -1

# Finding the row of an id takes as long as looking at the ids of so many rows.
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
        odd: for each resource type, how many ACLs `is_odd`.
        lengths: for each resource type, the lengths of its prefixes, longest first.
    """

    __slots__ = (
        "_first_groups",
        "_group_kinds",
        "_group_masks",
        "_group_names",
        "_group_starts",
        "_keys",
        "_kinds_of_names",
        "_name_codes",
        "_principal_codes",
        "_rows_by_name",
        "_rows_by_principal",
        "columns",
        "lengths",
        "odd",
    )

    def __init__(self, columns: AclColumns) -> None:
        self.columns = columns
        self._name_codes = {text: code for code, text in enumerate(columns.names.texts)}
        self._principal_codes = {text: code for code, text in enumerate(columns.principals.texts)}
        types = known_codes(columns.resource_types, ResourceType)
        kinds = (types + np.where(columns.pattern_types == LITERAL_PATTERN, 0, PREFIXED)).astype(np.int64)
        self.odd = _odd(columns, types)
        self._by_principal(kinds)
        self._by_name(kinds)

    def _by_principal(self, kinds: npt.NDArray[np.int64]) -> None:
        columns = self.columns
        principals = columns.principals.codes.astype(np.int64)
        keys = (principals << (_KIND_BITS + _NAME_BITS)) | (kinds << _NAME_BITS) | columns.names.codes
        rows = np.argsort(keys)
        keys = keys[rows]
        starts = np.flatnonzero(_begins(keys))
        keys = keys[starts]
        masks = self._masks(rows)
        hosted = columns.hosts.codes[rows] != self._star()
        if len(starts):
            masks = np.where(
                np.logical_or.reduceat(hosted, starts), _HOSTED, np.bitwise_or.reduceat(masks, starts)
            )
        first_groups = np.searchsorted(
            keys >> (_KIND_BITS + _NAME_BITS), np.arange(len(columns.principals.texts) + 1)
        )
        self._rows_by_principal = rows.astype(np.int32)
        self._group_starts = np.append(starts, len(rows)).astype(np.int32)
        self._group_names = (keys & ((1 << _NAME_BITS) - 1)).astype(np.int32)
        self._group_kinds = ((keys >> _NAME_BITS) & (KINDS - 1)).astype(np.int8)
        self._group_masks = masks.astype(np.int32)
        self._first_groups = _view(first_groups.astype(np.int32))

    def _by_name(self, kinds: npt.NDArray[np.int64]) -> None:
        columns = self.columns
        texts = columns.names.texts
        names = columns.names.codes.astype(np.int64)
        keys = (
            (kinds << (_NAME_BITS + _PRINCIPAL_BITS)) | (names << _PRINCIPAL_BITS) | columns.principals.codes
        )
        rows = np.argsort(keys)
        keys = keys[rows]
        self._rows_by_name = _view(rows.astype(np.int32))
        self._keys = _view(keys)
        places = keys[_begins(keys >> _PRINCIPAL_BITS)] >> _PRINCIPAL_BITS
        place_kinds, place_names = places >> _NAME_BITS, places & ((1 << _NAME_BITS) - 1)
        kinds_of_names = np.zeros(len(texts), np.uint16)
        lengths: list[tuple[int, ...]] = []
        for kind in range(KINDS):
            here = place_names[place_kinds == kind]
            kinds_of_names[here] |= np.uint16(1 << kind)
            if kind >= PREFIXED:
                lengths.append(tuple(sorted({len(texts[code]) for code in here.tolist()}, reverse=True)))
        self._kinds_of_names = _view(kinds_of_names)
        self.lengths = tuple(lengths)

    def _star(self) -> int:
        """The code of the host ``*``; that of no host if no ACL has it."""
        texts = self.columns.hosts.texts
        return texts.index(WILDCARD) if WILDCARD in texts else -1

    def _hosts(self, rows: Any) -> list[str]:
        hosts = self.columns.hosts
        return [hosts.texts[code] for code in hosts.codes[rows].tolist()]

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
            gone = [row for row in map(columns.row_of, ids) if row is not None]
            return rows[~np.isin(rows, gone)]
        return np.array([row for row in rows.tolist() if columns.id_of(row) not in ids], np.int32)

    # -- by principal --------------------------------------------------------------------------------------

    def principals_in(self, places: int) -> list[str]:
        """The principals with ACLs in more than so many places."""
        many = np.flatnonzero(np.diff(np.asarray(self._first_groups)) > places)
        return [self.columns.principals.texts[code] for code in many.tolist()]

    def has_principal(self, principal: str) -> bool:
        """Whether there are rows for exactly this principal."""
        return principal in self._principal_codes

    def rows_of(self, principal: str) -> npt.NDArray[np.int32]:
        """All rows for exactly this principal."""
        code = self._principal_codes.get(principal)
        if code is None:
            return self._rows_by_principal[:0]
        first, last = self._first_groups[code], self._first_groups[code + 1]
        return self._rows_by_principal[self._group_starts[first] : self._group_starts[last]]

    def leaves_of(self, principal: str) -> LeavesByKind:
        """What the rows for exactly this principal say. New dicts, for the caller to keep and change."""
        leaves: LeavesByKind = [None] * KINDS
        code = self._principal_codes.get(principal)
        if code is None:
            return leaves
        first, last = self._first_groups[code], self._first_groups[code + 1]
        kinds = self._group_kinds[first:last]
        texts = self.columns.names.texts
        names = [texts[each] for each in self._group_names[first:last].tolist()]
        masks = self._group_masks[first:last]
        said: list[Leaf] = [*shared_masks(masks.tolist())]
        hosted = np.flatnonzero(masks == _HOSTED).tolist()
        if hosted:
            starts = self._group_starts[first : last + 1].tolist()
            rows = self._rows_by_principal[starts[0] : starts[-1]]
            hosts, of_rows = self._hosts(rows), self._masks(rows).tolist()
            for at in hosted:
                here = slice(starts[at] - starts[0], starts[at + 1] - starts[0])
                said[at] = _leaf(hosts[here], of_rows[here])
        bounds = np.flatnonzero(_begins(kinds)).tolist()
        for begin, end in zip(bounds, [*bounds[1:], len(names)], strict=True):
            leaves[kinds.item(begin)] = dict(zip(names[begin:end], said[begin:end], strict=True))
        return leaves

    def leaf(self, rows: Iterable[int]) -> Leaf | None:
        """What these rows, of one principal and place, say together; None if there are none."""
        columns = self.columns
        leaf: Leaf | None = None
        for row in rows:
            leaf = add_to_leaf(leaf, columns.hosts.text(row), self.mask(row))
        return leaf

    def mask(self, row: int) -> int:
        """What one row says."""
        columns = self.columns
        return acl_mask(columns.operations.item(row), columns.permission_types.item(row))

    # -- by name -------------------------------------------------------------------------------------------

    def has(self, kind: int, name: str) -> bool:
        """Whether there are rows at this place."""
        code = self._name_codes.get(name)
        return code is not None and self._kinds_of_names[code] >> kind & 1 == 1

    def names(self, kind: int) -> Iterator[str]:
        """Every name of the kind."""
        here = np.flatnonzero(np.asarray(self._kinds_of_names) >> kind & 1)
        return map(self.columns.names.texts.__getitem__, here.tolist())

    def rows_at(self, kind: int, name: str) -> npt.NDArray[np.int32]:
        """The rows of one place, in ascending order."""
        begin, end = self._range_at(kind, name)
        return np.sort(np.asarray(self._rows_by_name[begin:end]))

    def count_at(self, kind: int, name: str) -> int:
        """How many rows one place has."""
        begin, end = self._range_at(kind, name)
        return end - begin

    def rows_of_at(self, principal: str, kind: int, name: str) -> list[int]:
        """The rows of one principal at one place, in ascending order."""
        code, of = self._name_codes.get(name), self._principal_codes.get(principal)
        if code is None or of is None:
            return []
        key = (kind << _NAME_BITS | code) << _PRINCIPAL_BITS | of
        begin, end = self._range(key, key + 1)
        return sorted(self._rows_by_name[begin:end])

    def _range_at(self, kind: int, name: str) -> tuple[int, int]:
        """Where the keys of one place are; an empty range for a name that there is not."""
        code = self._name_codes.get(name)
        place = -1 if code is None else kind << _NAME_BITS | code
        return self._range(place << _PRINCIPAL_BITS, (place + 1) << _PRINCIPAL_BITS)

    def _range(self, key: int, end: int) -> tuple[int, int]:
        begin = bisect_left(self._keys, key)
        return begin, bisect_left(self._keys, end, begin)


def _view(numbers: npt.NDArray[Any]) -> memoryview[int]:
    """The same numbers, which Python reads one by one in less than half the time."""
    return numbers.data


def _leaf(hosts: list[str], masks: list[int]) -> Leaf:
    """Of one ACL or more."""
    leaf: Leaf | None = None
    for host, mask in zip(hosts, masks, strict=True):
        leaf = add_to_leaf(leaf, host, mask)
    return leaf  # type: ignore[return-value]


def _begins(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where a value begins that the one before is not equal to."""
    begins = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
    return begins


def _odd(columns: AclColumns, types: npt.NDArray[np.int8]) -> tuple[int, ...]:
    """For each resource type, how many rows are odd (places.is_odd)."""
    usual = np.isin(columns.pattern_types, PATTERNS) & np.isin(columns.permission_types, PERMISSIONS)
    return tuple(np.bincount(types[~usual], minlength=PREFIXED).tolist())
