"""The report as the console's page: one file with its script, its style and the answers in it.

The page asks nobody, and may not: its policy lets in its own script and style, by their hashes, and nothing
else. What it shows was worked out here, and is packed where no name can be taken for a part of the page.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.acl_json import applied_acl_json
from authorizer.cli.rendering.output import json_line, shown
from authorizer.console.history.history_json import state_offset_json
from authorizer.console.report.bundle import script, style
from authorizer.console.routes.decision_changes import decision_changes_json
from authorizer.engine.index.masks import OPERATIONS
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.matrix import Cell
    from authorizer.cli.report.content import Report
    from authorizer.cli.report.matrix_table import MatrixTable
    from authorizer.engine.decisions.state import AuthorizerState

#: Flips whose witnesses' answers the page has, with the explanation.
EXPLAINED_MAXIMUM: Final = 500
#: What everybody has there.
_SAME: Final = -1
_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="content-security-policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<div id="console"><p class="notice">Loading…</p></div>
<noscript>This page is made by JavaScript. Without it: aclog report --format print, csv or json.</noscript>
<script type="application/octet-stream" id="held">{held}</script>
<script>{script}</script>
</body>
</html>
"""


def page(report: Report) -> bytes:
    """The whole file."""
    code, look = script(), style()
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(look)}; base-uri 'none'; "
        "form-action 'none'"
    )
    held = gzip.compress(json_line(_held(report)), mtime=0)
    return _PAGE.format(
        policy=policy,
        title=html.escape(f"aclog report: {shown(report.source.name)}"),
        style=look,
        held=base64.b64encode(held).decode(),
        script=code,
    ).encode("utf-8", "backslashreplace")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _held(report: Report) -> dict[str, Any]:
    """What the page's own `file_api.js` answers from."""
    facts, source = report.facts(), report.source
    place = state_offset_json(report.state)
    since = None if source.before is None else source.before.provenance.end_offset - 1
    cells = _Cells()
    return {
        "now": {
            "caller": "",
            "sees_all": True,
            "may_alter": False,
            "cluster": None,
            "clusters": [],
            **place,
            "facts": facts,
        },
        "moments": {
            "first_end_offset": place["end_offset"],
            "origin": "",
            "is_whole": True,
            "left_out": 0,
            "moments": [],
        },
        "flags": source.flags,
        "is_log": "--log" in source.flags,
        "since": since,
        "operations": [operation.name for operation in OPERATIONS],
        "sheets": {each.resource_type.name: _matrix(each, cells) for each in report.matrices},
        "cells": cells.known,
        "acls": [applied_acl_json(acl) for acl in report.acls.acls()],
        "findings": None
        if report.findings is None
        else {
            uuid_to_string(acl.record.id): found
            for acl in report.acls.acls()
            if (found := report.findings_of(acl.record.id))
        },
        "changes": _changes(report),
        "flips": None
        if report.before is None
        else {**state_offset_json(report.before), **_flips(report, report.before)},
        "answers": _answers(report),
    }


class _Cells:
    """Every cell that there is, once."""

    def __init__(self) -> None:
        self.known: list[Cell] = []
        self._numbers: dict[Cell, int] = {}

    def runs(self, runs: Iterable[tuple[int, Cell | None]]) -> list[int]:
        """The first row of each run, and the number of the cell that it has."""
        return [each for first, cell in runs for each in (first, self._number(cell))]

    def _number(self, cell: Cell | None) -> int:
        if cell is None:
            return _SAME
        if cell not in self._numbers:
            self._numbers[cell] = len(self.known)
            self.known.append(cell)
        return self._numbers[cell]


def _matrix(matrix: MatrixTable, cells: _Cells) -> dict[str, Any]:
    columns = []
    for principal in matrix.who:
        granted, revoked = matrix.changes(principal)
        columns.append(
            {
                "principal": principal,
                "super": principal in matrix.super_users,
                "cells": cells.runs(matrix.cells(principal)),
                "granted": cells.runs(granted),
                "revoked": cells.runs(revoked),
            }
        )
    return {
        "rows": [row.key[0] for row in matrix.rows],
        "names": [int(row.key[1]) for row in matrix.rows],
        "keys": [int(row.is_key) for row in matrix.rows],
        "columns": columns,
    }


def _changes(report: Report) -> dict[str, Any]:
    lines = list(report.changes())
    return {"total": len(lines), "changes": lines}


def _flips(report: Report, before: AuthorizerState) -> dict[str, Any]:
    count = len(report.flips) if report.lines_maximum is None else report.lines_maximum
    return decision_changes_json(report.flips, count, before, report.state)


def _answers(report: Report) -> list[dict[str, Any]]:
    """The explained answers to the witnesses' questions at both states."""
    places = [state_offset_json(each) for each in (report.before, report.state) if each is not None]
    return [
        explanation.to_json() | place
        for flip in report.flips[:EXPLAINED_MAXIMUM]
        for explanation, place in zip(report.explained(flip), places, strict=True)
    ]
