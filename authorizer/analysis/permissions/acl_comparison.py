"""Comparison of sets of ACLs by content; ids are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import numpy as np

from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.api.ip_address import network_of
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import ResourceType
from records.columns.acl_table import CODES, TEXTS, AclTable
from records.columns.text_column import TextColumn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

    from records.ids import Uuid

# Each distinct ACL is one number of an int64.
_NUMBERS_MAX: Final = 1 << 63


class ChangedAcls(NamedTuple):
    """The rows that only one of two tables has; equal ACLs under two ids count once."""

    removed: AclTable
    added: AclTable

    @classmethod
    def between(cls, before: AclTable, after: AclTable) -> Self:
        old, new = acl_numbers((before, after))
        either = np.sort(np.concatenate([_distinct(old), _distinct(new)]))
        # An ACL of both tables occurs twice.
        is_other = np.diff(either, prepend=-1) != 0
        of_one = either[is_other & np.append(is_other, True)[1:]]
        return cls(before.take(_firsts(old, of_one)), after.take(_firsts(new, of_one)))

    def applied_to(self, table: AclTable) -> AclTable:
        """Return a table without the removed and with the added ACLs."""
        numbers, removed = acl_numbers((table, self.removed))
        return AclTable.concat([table.take(~_is_among(_distinct(removed), numbers)), self.added])

    @property
    def names(self) -> dict[ResourceType, set[Key]]:
        """The names and prefixes of the ACLs that can exist, by resource type."""
        return all_names(self.names_by_principal)

    @property
    def names_by_principal(self) -> dict[str, dict[ResourceType, set[Key]]]:
        """The names and prefixes of the ACLs that can exist, by principal and resource type."""
        found: dict[str, dict[ResourceType, set[Key]]] = {each: {} for each in self.principals}
        for table in self:
            for record in table.records(slice(None)):
                resource_type = ResourceType.from_code(record.resource_type)
                if (space := NAME_SPACES.get(resource_type)) is not None:
                    is_prefix = record.pattern_type != LITERAL_PATTERN
                    if (key := space.pattern(record.resource_name, is_prefix=is_prefix)) is not None:
                        found[record.principal].setdefault(resource_type, set()).add(key)
        return found

    @property
    def principals(self) -> set[str]:
        return {*self.removed.principals.texts, *self.added.principals.texts}


def all_names(
    names_by_principal: Mapping[str, Mapping[ResourceType, Collection[Key]]],
) -> dict[ResourceType, set[Key]]:
    """Return the names of all principals, by resource type."""
    found: dict[ResourceType, set[Key]] = {}
    for names_by_type in names_by_principal.values():
        for resource_type, keys in names_by_type.items():
            found.setdefault(resource_type, set()).update(keys)
    return found


def equal_acls(table: AclTable) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return an order of the rows with equal ACLs next to each other, and the start of each run.

    Equal rows stay in the order of the table.
    """
    (numbers,) = acl_numbers((table,))
    order = np.argsort(numbers, kind="stable")
    return order, np.flatnonzero(np.diff(numbers[order], prepend=-1))


def acl_numbers(tables: Sequence[AclTable]) -> list[npt.NDArray[np.int64]]:
    """Return for each row of each table a number, at least 0: equal ACLs have equal numbers."""
    numbers, count = np.zeros(sum(map(len, tables)), np.int64), 1
    for codes, size in _columns(tables):
        if count * size > _NUMBERS_MAX:
            distinct, numbers = np.unique(numbers, return_inverse=True)
            count = len(distinct)
        numbers *= size
        numbers += codes
        count *= size
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def _columns(tables: Sequence[AclTable]) -> Iterator[tuple[npt.NDArray[Any], int]]:
    """The fields of the ACLs without their ids, as numbers from 0, and the number of possible values."""
    for name in TEXTS:
        parts = [getattr(table, name) for table in tables]
        texts = TextColumn.concat(parts) if len(parts) > 1 else parts[0]
        yield texts.codes, len(texts.distinct)
    for name in CODES:
        codes = np.concatenate([getattr(table, name).view(np.uint8) for table in tables])
        yield codes, int(codes.max(initial=0)) + 1


def _distinct(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ordered = np.sort(numbers)
    distinct: npt.NDArray[np.int64] = ordered[np.diff(ordered, prepend=-1) != 0]
    return distinct


def _is_among(selected: npt.NDArray[np.int64], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the numbers are among the selected ones, which are sorted."""
    if not len(selected):
        return np.zeros(len(numbers), np.bool_)
    positions = np.minimum(np.searchsorted(selected, numbers), len(selected) - 1)
    return np.equal(selected[positions], numbers)


def _firsts(numbers: npt.NDArray[np.int64], selected: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The first position of each selected number that occurs; the selected ones are sorted."""
    rows = np.flatnonzero(_is_among(selected, numbers))
    _, first = np.unique(numbers[rows], return_index=True)
    return rows[first]


def principals_with_networks(table: AclTable) -> set[str]:
    """Return the principals with an ACL for a network, which releases match differently."""
    return table.principals.texts_of(has_network_host(table))


def has_network_host(table: AclTable) -> npt.NDArray[np.bool_]:
    """Return for each ACL whether its host is a network."""
    return table.hosts.where(lambda host: network_of(host) is not None)


class DistinctAcls(NamedTuple):
    """The ACLs of a table without repeats, in an order that depends on their content only.

    Attributes:
        table: one of the ACLs that are equal except for their ids.
        ids: by row, all ids of an ACL that has several, sorted.
    """

    table: AclTable
    ids: Mapping[int, tuple[Uuid, ...]]

    @classmethod
    def of(cls, table: AclTable) -> Self:
        columns = {name: _sorted(getattr(table, name)) for name in TEXTS}
        columns |= {name: getattr(table, name) for name in (*CODES, "offsets", "timestamps_ms")}
        ordered = AclTable(ids=table.ids, **columns)
        order, begins = equal_acls(ordered)
        counts = np.diff(begins, append=len(order))
        several = np.flatnonzero(counts > 1)
        ids = {
            row: tuple(sorted(ordered.id_of(each) for each in order[begins[row] :][: counts[row]].tolist()))
            for row in several.tolist()
        }
        return cls(ordered.take(order[begins]), ids)


def _sorted(column: TextColumn) -> TextColumn:
    """The same rows, with codes that sort as their texts do."""
    texts = column.texts
    order = sorted(range(len(texts)), key=texts.__getitem__)
    ranks = np.empty(len(texts), np.int32)
    ranks[order] = np.arange(len(texts), dtype=np.int32)
    return TextColumn(tuple(texts[each] for each in order), ranks[column.codes])
