"""``/acl``: the ACLs by id, by principal and by resource.

    /acl/id/<uuid>
    /acl/principal/<principal>/<uuid>
    /acl/resource/<type>/<name>/<pattern type>/<uuid>

Rows are sorted by a column when a name below it is asked for; ACLs are made into objects one at a time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from authorizer.api.acl_json import acl_json
from authorizer.cli.shell.nodes import Children, Leaf, in_order
from records.acl import PatternType, ResourceType
from records.code_names import code_to_name
from records.errors import DecodeError
from records.ids import uuid_from_string, uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from authorizer.cli.shell.nodes import Directory, Node
    from snapshot.columns import AclColumns

    Rows = npt.NDArray[np.intp]

_ALL: Final = slice(None)


def acl_node(columns: AclColumns) -> Directory:
    """All of them."""
    return Children(
        {
            "id": lambda: AclsById(columns),
            "principal": lambda: _by_principal(columns),
            "resource": lambda: _by_resource(columns),
        }
    )


class AclsById:
    """The rows of a table by their ids; of all rows, or of some."""

    def __init__(self, columns: AclColumns, rows: Rows | None = None) -> None:
        self._columns = columns
        self._rows = rows

    @cached_property
    def names(self) -> Sequence[str]:
        ids = self._columns.id_array[_ALL if self._rows is None else self._rows]
        return sorted(map(uuid_to_string, ids.tolist()))

    @cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(() if self._rows is None else self._rows.tolist())

    def child(self, name: str) -> Node | None:
        try:
            row = self._columns.row_of(uuid_from_string(name))
        except DecodeError:
            return None
        if row is None or (self._rows is not None and row not in self._known):
            return None
        record = self._columns.acl(row).record
        return Leaf(record.standard_acl(), acl_json(record))


class _Grouped:
    """Rows by what one of their columns says.

    Args:
        rows: which.
        codes: of these rows, in that column.
        named: the name of each code.
        below: the directory of the rows that have one.
    """

    def __init__(
        self,
        rows: Rows,
        codes: npt.NDArray[np.integer],
        named: Callable[[int], str],
        below: Callable[[Rows], Node],
    ) -> None:
        self._rows = rows
        self._codes = codes
        self._named = named
        self._below = below

    @cached_property
    def _sorted(self) -> tuple[Rows, list[int], dict[str, int]]:
        """The rows by their codes, where each code's begin, and which of these a name's are."""
        order = np.argsort(self._codes, kind="stable")
        codes, starts = np.unique(self._codes[order], return_index=True)
        places = {self._named(code): place for place, code in enumerate(codes.tolist())}
        return self._rows[order], [*starts.tolist(), len(order)], places

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._sorted[2])

    def child(self, name: str) -> Node | None:
        rows, starts, places = self._sorted
        place = places.get(name)
        return None if place is None else self._below(rows[starts[place] : starts[place + 1]])


def _by_principal(columns: AclColumns) -> Directory:
    texts = columns.principals.texts
    return _Grouped(
        np.arange(len(columns)),
        columns.principals.codes,
        texts.__getitem__,
        lambda rows: AclsById(columns, rows),
    )


def _by_resource(columns: AclColumns) -> Directory:
    def by_type(rows: Rows) -> Node:
        return _Grouped(rows, columns.names.codes[rows], columns.names.texts.__getitem__, by_pattern)

    def by_pattern(rows: Rows) -> Node:
        return _Grouped(
            rows, columns.pattern_types[rows], _of_code(PatternType), lambda same: AclsById(columns, same)
        )

    return _Grouped(np.arange(len(columns)), columns.resource_types, _of_code(ResourceType), by_type)


def _of_code(kind: type[PatternType | ResourceType]) -> Callable[[int], str]:
    """``TOPIC``, or the number of a code without a name."""
    return lambda code: code_to_name(kind, code)
