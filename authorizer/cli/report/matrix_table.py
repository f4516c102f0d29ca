"""MatrixTable: all rows and columns of the matrix of one resource type.

A column holds only its differences from the column of principals without ACLs, so it is usually short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from authorizer.analysis.matrix.matrix import (
    Column,
    Matrix,
    key_range,
    newly_allowed,
    outline,
    sorted_distinct,
)
from authorizer.analysis.permissions.access_queries import answers_for
from authorizer.analysis.request_space.name_map import PrefixLookup
from authorizer.analysis.request_space.name_space import NAME_SPACES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from authorizer.analysis.matrix.matrix import Cell
    from authorizer.analysis.permissions.effective_permissions import EffectivePermissions
    from authorizer.analysis.request_space.host_answers import Answer
    from authorizer.analysis.request_space.name_map import NameMap
    from authorizer.analysis.request_space.name_space import Key
    from authorizer.cli.report.source import Scope
    from records.acl import ResourceType

_Value = TypeVar("_Value")


class MatrixRow(NamedTuple):
    """A row of the matrix; ``is_key``: whether an ACL has this name or prefix; else the row groups others."""

    key: Key
    is_key: bool


class MatrixTable:
    """The matrix of one resource type.

    Attributes:
        principals: None for all that are not named, then the principals with a column.
        rows: in order, a prefix before its names.
    """

    def __init__(
        self,
        matrix: Matrix,
        meaning: EffectivePermissions,
        scope: Scope,
        before: tuple[Matrix, EffectivePermissions] | None = None,
    ) -> None:
        """``before``: of the state that this one is compared with."""
        self.resource_type: ResourceType = matrix.resource_type
        self.super_users = matrix.settings.super_users
        self._matrix, self._meaning, self._scope = matrix, meaning, scope
        self._before = None if before is None else before[1]
        keys, named = matrix.keys, matrix.principals
        if before is not None:
            keys, named = sorted_distinct(keys + before[0].keys), named | before[0].principals
        if scope.principals:
            named = frozenset(scope.principals)
        self.principals: list[str | None] = [None, *sorted(named)]
        self.rows = _rows([key for key in keys if scope.has(key)], scope.top)
        self._keys = [row.key for row in self.rows]
        self._numbers = {key: at for at, key in enumerate(self._keys)}
        self._columns: dict[str | None, Column] = {}

    @property
    def known_principals(self) -> Collection[str]:
        """All principals with other answers than those that are not named."""
        return self._meaning.principals.keys()

    def column(self, principal: str | None) -> Column:
        """Return the answers of a principal; None: of all that are not named. Cached."""
        if principal not in self._columns:
            self._columns[principal] = self._column(self._meaning, principal)
        return self._columns[principal]

    def denied_operations(self, principal: str | None, key: Key) -> int:
        """Return the operations that DENY ACLs of the principal, or of ``User:*``, name for a row."""
        return self._matrix.denied(principal, key)

    def principals_by_row(self) -> list[list[str]]:
        """Return for each row the principals that differ from the first column on some of its names."""
        found: list[list[str]] = [[] for _ in self.rows]
        for principal in self.principals:
            if principal is not None:
                runs = self.cells(principal)
                ends = [first for first, _ in runs[1:]] + [len(self.rows)]
                for (first, cell), end in zip(runs, ends, strict=True):
                    for row in range(first, end) if cell is not None else ():
                        found[row].append(principal)
        return found

    def cells(self, principal: str | None) -> list[tuple[int, Cell | None]]:
        """Runs of equal cells of a column, each with its first row; None: as the first column."""
        column = self._column(self._meaning, principal)
        if principal is None:
            return self._runs(column.answers.keys, column.cell)
        departures = self._meaning.overrides(principal, self.resource_type)
        departing = PrefixLookup(departures)

        def cell(key: Key) -> Cell | None:
            return None if all(each is None for each in departing.values(key)) else column.cell(key)

        return self._runs(departures.keys, cell)

    def denied(self, principal: str | None) -> list[tuple[int, int]]:
        """Runs of equal masks of operations that DENY ACLs name (`Matrix.denied`)."""
        return self._runs(
            self._matrix.denied_keys(principal), lambda key: self._matrix.denied(principal, key)
        )

    def changes(self, principal: str | None) -> tuple[list[tuple[int, Cell]], list[tuple[int, Cell]]]:
        """What was granted and revoked since the other state, as runs."""
        if self._before is None:
            return [], []
        now, then = (self._column(each, principal) for each in (self._meaning, self._before))
        space = NAME_SPACES[self.resource_type]
        granted, revoked = newly_allowed(now, then, space), newly_allowed(then, now, space)
        return (
            self._runs(granted.answers.keys, granted.cell),
            self._runs(revoked.answers.keys, revoked.cell),
        )

    def answers(self, principal: str | None) -> Iterator[tuple[Key, Answer | None]]:
        """The answers of a principal by name or prefix; None: as the first column.

        The answer of a prefix applies to names without a more specific one. A principal that never differs
        has one answer for all names.
        """
        answers: NameMap[Answer] | NameMap[Answer | None] = (
            self._meaning.wildcard[self.resource_type]
            if principal is None
            else self._meaning.overrides(principal, self.resource_type)
        )
        lookup = PrefixLookup[Any](answers)
        found = [
            (key, next(lookup.values(key)))
            for key in sorted({self._scope.top, *filter(self._scope.has, answers.keys)})
        ]
        yield from found if len(found) == 1 or found[0][1] is not None else found[1:]

    def _column(self, meaning: EffectivePermissions, principal: str | None) -> Column:
        if principal is None:
            return Column(meaning.wildcard[self.resource_type])
        return Column(answers_for(meaning, principal, self.resource_type))

    def _runs(self, keys: Iterable[Key], value_at: Callable[[Key], _Value]) -> list[tuple[int, _Value]]:
        """Runs of equal values; the value changes only at these keys and at their prefixes."""
        begin = {0}
        for key in keys:
            text, is_name = key
            above = (self._numbers.get((text[:length], False)) for length in range(len(text) + 1))
            marked = [at for at in (*above, self._numbers.get(key)) if at is not None]
            begin.update(marked, (at + 1 for at in marked))
            if not is_name:
                begin.update(key_range(self._keys, text))
        runs: list[tuple[int, _Value]] = []
        for at in sorted(begin):
            if at < len(self._keys):
                found = value_at(self._keys[at])
                if not runs or runs[-1][1] != found:
                    runs.append((at, found))
        return runs


def _rows(keys: Sequence[Key], top: Key) -> list[MatrixRow]:
    """All rows, including those of opened groups."""
    found = set(keys)
    closed = [] if top[1] else [top[0]]
    while closed:
        inside = [row.key for row in outline(keys, closed.pop())[1:] if row.inside]
        found.update(inside)
        closed += [text for text, _ in inside]
    known = frozenset(keys)
    return [MatrixRow(key, key in known) for key in (top, *sorted(found - {top}))]
