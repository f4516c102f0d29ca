"""``/acl``: the ACLs by id, by principal and by resource.

    /acl/id/<uuid>
    /acl/principal/<principal>/<uuid>
    /acl/resource/<type>/<name>/<pattern type>/<uuid>

Rows are sorted by a column when a name below it is needed; ACLs become objects one at a time.
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
    """The directory of all ACLs."""
    return Children(
        {
            "id": lambda: AclsById(columns),
            "principal": lambda: _by_principal(columns),
            "resource": lambda: _by_resource(columns),
        }
    )


class AclsById:
    """The rows of a table by their ids; all rows, or some."""

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
    """Rows grouped by the values of a column."""

    def __init__(
        self,
        rows: Rows,
        codes: npt.NDArray[np.integer],
        name_of: Callable[[int], str],
        directory_of: Callable[[Rows], Node],
    ) -> None:
        self._rows = rows
        self._codes = codes
        self._name_of = name_of
        self._directory_of = directory_of

    @cached_property
    def _sorted(self) -> tuple[Rows, list[int], dict[str, int]]:
        """Rows sorted by code, the start of each code's rows, and each name's index into the starts."""
        order = np.argsort(self._codes, kind="stable")
        codes, starts = np.unique(self._codes[order], return_index=True)
        indexes = {self._name_of(code): index for index, code in enumerate(codes.tolist())}
        return self._rows[order], [*starts.tolist(), len(order)], indexes

    @cached_property
    def names(self) -> Sequence[str]:
        return in_order(self._sorted[2])

    def child(self, name: str) -> Node | None:
        rows, starts, indexes = self._sorted
        index = indexes.get(name)
        return None if index is None else self._directory_of(rows[starts[index] : starts[index + 1]])


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
