"""MatrixChanges: the rows and the principals of a matrix with a cell that differs from another state's."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from authorizer.analysis.matrix.matrix import Column, Matrix, Row, key_range
from authorizer.analysis.permissions.related_acls import changed_principals
from authorizer.analysis.request_space.host_answers import NO_OPERATIONS
from authorizer.analysis.request_space.name_space import Key
from records.principal import WILDCARD_PRINCIPAL


class MatrixChanges:
    """See the module."""

    def __init__(self, before: Matrix, after: Matrix, principals: Collection[str | None]) -> None:
        affected = _affected(before, after, principals)
        pairs = after.changes_since(before, affected)
        self._columns = [
            (principal, column)
            for principal, pair in zip(affected, pairs, strict=True)
            for column in pair
            if _has_any(column)
        ]

    def principals(self, row: Row) -> frozenset[str | None]:
        """Return those with a change on some names of a row; None: all principals without ACLs."""
        return frozenset(principal for principal, column in self._columns if column.cell_of(row).sometimes)

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Return the rows with a changed cell, and the first one, which is for all of them.

        Teams come before the other rows, which are sorted.
        """
        first, *below = rows
        teams = [row for row in below if row.team is not None]
        below = below[len(teams) :]
        keys = [row.key for row in below]
        numbers = {key: number for number, key in enumerate(keys)}
        changed: set[int] = set()
        for _, column in self._columns:
            if column.answers.default != NO_OPERATIONS:
                changed.update(_with_change(column, keys, 0, len(keys)))
            for name, is_name, answer in column.answers.entries:
                if answer == NO_OPERATIONS:
                    continue
                enclosing: list[Key] = [(name[:length], False) for length in range(len(name) + 1)]
                changed.update(numbers[key] for key in (*enclosing, (name, is_name)) if key in numbers)
                if not is_name:
                    changed.update(_with_change(column, keys, *key_range(keys, name)))
        changed_teams = (
            row for row in teams if any(column.cell_of(row).sometimes for _, column in self._columns)
        )
        return [first, *changed_teams, *(below[number] for number in sorted(changed))]


def _affected(before: Matrix, after: Matrix, principals: Collection[str | None]) -> list[str | None]:
    """The principals whose answers may differ."""
    changed = changed_principals(before.index, after.index)
    if (
        changed is None
        or WILDCARD_PRINCIPAL in changed
        or before.settings != after.settings
        or after.settings.allow_everyone
    ):
        return list(principals)
    return [each for each in principals if each in changed]


def _has_any(column: Column) -> bool:
    return column.answers.default != NO_OPERATIONS or bool(column.answers.entries)


def _with_change(column: Column, keys: Sequence[Key], first: int, end: int) -> Iterator[int]:
    return (number for number in range(first, end) if column.cell(keys[number]).sometimes)
