"""A window of the matrix: the rows and columns that are visible, and their cells."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.matrix import Cell, Row, both, each_once, outline, teams
from authorizer.engine.index.masks import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.analysis.matrix import Column, Matrix
    from authorizer.console.routes.queries import MatrixQuery

#: Principals of all teams of a window that are summed up: at a million ACLs that takes seconds.
MEMBERS_MAXIMUM: Final = 200
#: Operations by bit, as `analysis.answers` has them.
_OPERATIONS: Final = [operation.name for operation in OPERATIONS]
#: Who has no ACLs.
_EVERYBODY_ELSE: Final = Row(("", False), 0)


def window(asked: MatrixQuery, matrix: Matrix, before: Matrix | None, own: str | None) -> dict[str, Any]:
    """What is asked for of a matrix, maybe compared with another one.

    Args:
        asked: which rows and columns.
        matrix: of the state that is shown.
        before: of one that it is compared with.
        own: the only principal that may be shown.
    """
    named = [own] if own is not None else _named(asked, matrix, before)
    heads = _heads(asked, named, is_all=own is None)
    rows = _rows(asked, matrix, before, own)
    some = rows[asked.row : asked.row + asked.rows]
    shown = heads[asked.column : asked.column + asked.columns]
    members = _members(shown, named)
    # All at once: what everybody may is worked out once, which takes longer than what one may.
    whole = [principal for each in members if each is not None for principal in each]
    for each in (matrix, before):
        if each is not None:
            each.columns(whole)
    found = {
        "end_offset": matrix.index.image.provenance.end_offset,
        "type": matrix.resource_type.name,
        "operations": _OPERATIONS,
        "rows": {"total": len(rows), "first": asked.row, "items": list(map(_row_json, some))},
        "columns": {
            "total": len(heads),
            "first": asked.column,
            "items": [_head_json(each, matrix) for each in shown],
        },
        "cells": _cells(some, [None if each is None else matrix.columns(each) for each in members]),
    }
    if before is not None:
        pairs = [None if each is None else matrix.flips(before, each) for each in members]
        for at, which in enumerate(("granted", "revoked")):
            flips = [None if each is None else [pair[at] for pair in each] for each in pairs]
            found[which] = _cells(some, flips)
    return found


def _named(asked: MatrixQuery, matrix: Matrix, before: Matrix | None) -> list[str]:
    """All principals that are looked for, in order."""
    wanted = asked.who.casefold()
    principals = matrix.principals if before is None else matrix.principals | before.principals
    return sorted(each for each in principals if wanted in each.casefold() and each.startswith(asked.team))


def _heads(asked: MatrixQuery, named: Sequence[str], *, is_all: bool) -> list[Row]:
    """The columns: principals, or teams of them; before all of them everybody else."""
    heads = teams(named, asked.team) if asked.teams else [Row((each, True), 0) for each in named]
    return [_EVERYBODY_ELSE, *heads] if is_all and not asked.who and not asked.team else heads


def _members(heads: Sequence[Row], named: Sequence[str]) -> list[Sequence[str | None] | None]:
    """The principals of each column; None where they are too many to be summed up here."""
    found: list[Sequence[str | None] | None] = []
    left = MEMBERS_MAXIMUM
    for (text, is_name), inside in heads:
        first = bisect_left(named, text)
        if inside:
            found.append(named[first : first + inside] if inside <= left else None)
            left -= inside if inside <= left else 0
        else:
            found.append([text if is_name else None])
    return found


def _rows(asked: MatrixQuery, matrix: Matrix, before: Matrix | None, own: str | None) -> list[Row]:
    if own is not None:
        (column,) = matrix.columns([own])
        return outline(column.answers.keys, asked.under, asked.containing)
    if before is None or before.keys == matrix.keys:
        return matrix.rows(asked.under, asked.containing)
    return outline(each_once(matrix.keys + before.keys), asked.under, asked.containing)


def _cells(rows: Sequence[Row], columns: Sequence[Sequence[Column] | None]) -> list[list[Cell | None]]:
    """What holds for all of the principals of a column, and what for some."""
    return [
        [None if each is None else both(column.cell(row.key) for column in each) for each in columns]
        for row in rows
    ]


def _row_json(row: Row) -> dict[str, Any]:
    text, is_name = row.key
    return {"text": text, "is_name": is_name, "inside": row.inside}


def _head_json(head: Row, matrix: Matrix) -> dict[str, Any]:
    """A principal, a team by its prefix, or everybody else."""
    text = head.key[0] or None
    return {"principal": text, "inside": head.inside, "super": text in matrix.settings.super_users}
