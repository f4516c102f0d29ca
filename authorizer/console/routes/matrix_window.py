"""The visible rows, columns and cells of the matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from operator import or_
from typing import Any, Final

from authorizer.analysis.matrix.matrix import (
    Cell,
    Column,
    Matrix,
    Row,
    combine_cells,
    outline,
    sorted_distinct,
)
from authorizer.analysis.matrix.matrix_changes import MatrixChanges
from authorizer.analysis.matrix.teams import PrincipalGroup, Teams, rows_by_team
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.console.routes.queries import MatrixQuery
from authorizer.engine.index.masks import OPERATIONS

#: Maximum number of principals that a window aggregates by team, if their ACLs are few, and in any case.
MEMBERS_MAXIMUM: Final = 1_000
_MEMBERS_ALWAYS: Final = 200
# Maximum number of their ACLs, where each principal has those for ``User:*``, too. They take half a second.
_ACLS_MAXIMUM: Final = 50_000
#: Maximum number of names and prefixes in a team's row, times the principals in a window.
NAMES_MAXIMUM: Final = 200_000
#: Operations by bit, as in `analysis.request_space.host_answers`.
_OPERATIONS: Final = [operation.name for operation in OPERATIONS]

# The first request of a page of usual size: it opens with the topics.
_FIRST_VIEW: Final = MatrixQuery(rows=60, columns=24)


def compute_first_view(matrix: Matrix) -> None:
    """Compute the page's first view of a matrix, which caches its columns and rows."""
    window(_FIRST_VIEW, matrix, None, None, Teams(), Teams())


def window(
    query: MatrixQuery,
    matrix: Matrix,
    before: Matrix | None,
    only: str | None,
    teams: Teams,
    name_teams: Teams,
) -> dict[str, Any]:
    """Return a window of a matrix, optionally compared with the matrix ``before``.

    ``only``: the only principal that the caller may see; None: all.
    """
    named = [only] if only is not None else _named(query, matrix, before, teams)
    heads = _heads(query, named, teams, is_all=only is None)
    rows = _rows(query, matrix, before, only, name_teams)
    if query.only_changed and before is not None:
        changed = MatrixChanges(before, matrix, [each for head in heads for each in _principals(head)])
        rows = changed.rows(rows)
        principals = changed.principals(rows[0])
        heads = [each for each in heads if not principals.isdisjoint(_principals(each))]
    visible_rows = rows[query.row : query.row + query.rows]
    visible_heads = heads[query.column : query.column + query.columns]
    members = _members(visible_heads, matrix)
    # In one call, so that the slow part, the rights of all principals, is computed once.
    all_members = [principal for each in members if each is not None for principal in each]
    cells_of = partial(_cells, visible_rows, len(all_members))
    for each in (matrix, before):
        if each is not None:
            each.columns(all_members)
    result = {
        "end_offset": matrix.index.image.provenance.end_offset,
        "type": matrix.resource_type.name,
        "operations": _OPERATIONS,
        "rows": {"total": len(rows), "first": query.row, "items": list(map(_row_json, visible_rows))},
        "columns": {
            "total": len(heads),
            "first": query.column,
            "items": [_head_json(each, matrix) for each in visible_heads],
        },
        "cells": cells_of([None if each is None else matrix.columns(each) for each in members]),
    }
    if only is None:
        # A caller without Describe sees its decisions, but no ACL, such as a DENY that decides nothing.
        result["denied"] = [
            [
                0
                if each is None or _is_too_large(row, len(all_members))
                else reduce(or_, (matrix.denied(one, key) for one in each for key in row.keys))
                for each in members
            ]
            for row in visible_rows
        ]
    if before is not None:
        pairs = [None if each is None else matrix.changes_since(before, each) for each in members]
        for index, direction in enumerate(("granted", "revoked")):
            changes = [None if each is None else [pair[index] for pair in each] for each in pairs]
            result[direction] = cells_of(changes)
    return result


def _named(query: MatrixQuery, matrix: Matrix, before: Matrix | None, teams: Teams) -> list[str]:
    """The selected principals, in order."""
    text = query.who.casefold()
    principals = matrix.principals if before is None else matrix.principals | before.principals
    return sorted(
        each
        for each in principals
        if text in each.casefold() and (not query.team or teams.has_member(query.team, each))
    )


def _heads(
    query: MatrixQuery, named: Sequence[str], teams: Teams, *, is_all: bool
) -> list[PrincipalGroup | None]:
    """The columns: principals without ACLs (None) first, then principals or teams."""
    heads: list[PrincipalGroup | None] = [None] if is_all and not query.who and not query.team else []
    if query.teams:
        return heads + teams.groups(named, query.team)
    return heads + [PrincipalGroup.of(each) for each in named]


def _principals(head: PrincipalGroup | None) -> Sequence[str | None]:
    return [None] if head is None else head.members


def _members(heads: Sequence[PrincipalGroup | None], matrix: Matrix) -> list[Sequence[str | None] | None]:
    """The principals of each column; None if they are too many to aggregate."""
    found: list[Sequence[str | None] | None] = []
    always, remaining, acls = _MEMBERS_ALWAYS, MEMBERS_MAXIMUM, _ACLS_MAXIMUM
    for head in heads:
        members = _principals(head)
        if head is None or head.is_one:
            found.append(members)
        elif len(members) <= always:
            always -= len(members)
            found.append(members)
        elif len(members) <= remaining and (count := matrix.count_acls(head.members)) <= acls:
            remaining -= len(members)
            acls -= count
            found.append(members)
        else:
            found.append(None)
    return found


def _rows(
    query: MatrixQuery, matrix: Matrix, before: Matrix | None, only: str | None, name_teams: Teams
) -> list[Row]:
    def rows_of(keys: Sequence[Key]) -> list[Row]:
        under, containing = query.under, query.containing
        if not query.name_teams:
            return outline(keys, under, containing)
        space = NAME_SPACES[matrix.resource_type]
        return rows_by_team(keys, name_teams, space, team=query.name_team, under=under, containing=containing)

    if only is not None:
        (column,) = matrix.columns([only])
        return rows_of(column.answers.keys)
    if before is None or before.keys == matrix.keys:
        return matrix.rows((query.name_teams, query.name_team, query.under, query.containing), rows_of)
    return rows_of(sorted_distinct(matrix.keys + before.keys))


def _is_too_large(row: Row, principals: int) -> bool:
    return row.team is not None and len(row.keys) * principals > NAMES_MAXIMUM


def _cells(
    rows: Sequence[Row], principals: int, columns: Sequence[Sequence[Column] | None]
) -> list[list[Cell | None]]:
    """The permissions of all principals of a column, and of some of them."""
    return [
        [
            None
            if each is None or _is_too_large(row, principals)
            else combine_cells(column.cell_of(row) for column in each)
            for each in columns
        ]
        for row in rows
    ]


def _row_json(row: Row) -> dict[str, Any]:
    text, is_name = row.key
    found = {"text": text, "is_name": is_name, "inside": row.inside}
    if row.team is not None:
        found["team"] = row.team.name
    if row.outside is not None:
        found["outside"] = row.outside
    return found


def _head_json(head: PrincipalGroup | None, matrix: Matrix) -> dict[str, Any]:
    """A principal; a team of the pattern, or principals with a common start; or those without ACLs."""
    text = None if head is None else head.name
    return {
        "principal": text,
        "inside": 0 if head is None or head.is_one else len(head.members),
        "is_team": head is not None and head.is_team,
        "super": text in matrix.settings.super_users,
    }
