"""The report as the console's page: one file with script, style and data.

The page's policy allows only its own script and style, by their hashes, and no network. The data is
compressed and encoded, so no name in it can be interpreted as HTML.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from authorizer.analysis.lint.rules import RULES
from authorizer.api.acl_json import applied_acl_json, content_json
from authorizer.cli.rendering.output import json_line, shown
from authorizer.console.history.history_json import state_offset_json
from authorizer.console.report.bundle import script, style
from authorizer.console.routes.decision_changes import ChangePage, decision_changes_json
from authorizer.console.routes.list_filters import temporary_acls
from authorizer.console.routes.queries import ListFilter
from authorizer.engine.index.masks import OPERATIONS
from records.ids import uuid_to_string

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.analysis.matrix.matrix import Cell
    from authorizer.cli.report.content import Report
    from authorizer.cli.report.matrix_table import MatrixTable
    from authorizer.engine.decisions.state import AuthorizerState

#: Maximum number of decision changes with explained witnesses.
EXPLAINED_MAXIMUM: Final = 500
#: The same cell as that of principals without ACLs.
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
<noscript>This page needs JavaScript. Without it, use aclog report --format print, csv or json.</noscript>
<script type="application/octet-stream" id="data" data-start="{start}">{data}</script>
<script>{script}</script>
</body>
</html>
"""


def page(report: Report) -> bytes:
    """The complete file."""
    code, css = script(), style()
    policy = (
        f"default-src 'none'; script-src {_hash(code)}; style-src {_hash(css)}; base-uri 'none'; "
        "form-action 'none'"
    )
    since = _since(report)
    data = gzip.compress(json_line(_data(report)), mtime=0)
    return _PAGE.format(
        policy=policy,
        title=html.escape(shown(report.title)),
        style=css,
        start="" if since is None else f"view=compare&amp;since={since}",
        data=base64.b64encode(data).decode(),
        script=code,
    ).encode("utf-8", "backslashreplace")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(report: Report) -> dict[str, Any]:
    """The data from which `file_api.js` answers."""
    facts, source = report.facts(), report.source
    offset = state_offset_json(report.state)
    cells = _Cells()
    return {
        "now": {
            "caller": "",
            "sees_all": True,
            "may_alter": False,
            "cluster": None,
            "clusters": [],
            **offset,
            "has_teams": report.teams.pattern is not None,
            "facts": facts,
        },
        "moments": {
            "first_end_offset": offset["end_offset"],
            "origin": "",
            "is_whole": True,
            "left_out": 0,
            "moments": [],
        },
        "flags": source.flags,
        "is_log": "--log" in source.flags,
        "since": _since(report),
        "operations": [operation.name for operation in OPERATIONS],
        "matrices": {each.resource_type.name: _matrix_json(each, cells) for each in report.matrices},
        "cells": cells.known,
        "teams": {
            principal: team
            for principal in _principals(report)
            if (team := report.teams.team_of(principal)) is not None
        },
        "acls": [applied_acl_json(acl) for acl in report.acls.acls()],
        "rules": RULES,
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
        else {**state_offset_json(report.before), **_decision_changes(report, report.before)},
        "answers": _answers(report),
        "allowed": [] if report.allowed is None else report.allowed.to_json(),
        "allowedRows": None if report.allowed is None else [report.allowed.rows, report.allowed.rows_total],
    }


def _since(report: Report) -> int | None:
    """The offset of the last record of the compared state."""
    before = report.source.before
    return None if before is None else before.provenance.end_offset - 1


def _principals(report: Report) -> set[str]:
    """Those that a team can have: of the columns, the ACLs and the changes."""
    found = {each for matrix in report.matrices for each in matrix.principals if each is not None}
    found |= {acl.record.principal for acl in report.acls.acls()}
    found |= {line["acl"]["principal"] for line in report.changes() if line["acl"]}
    classes = (each.request_class.principals.principal for each in report.decision_changes)
    return found.union(filter(None, classes))


class _Cells:
    """Numbers the distinct cells."""

    def __init__(self) -> None:
        self.known: list[Cell] = []
        self._numbers: dict[Cell, int] = {}

    def runs(self, runs: Iterable[tuple[int, Cell | None]]) -> list[int]:
        """The first row of each run, and the number of its cell."""
        return [each for first, cell in runs for each in (first, self._number(cell))]

    def _number(self, cell: Cell | None) -> int:
        if cell is None:
            return _SAME
        if cell not in self._numbers:
            self._numbers[cell] = len(self.known)
            self.known.append(cell)
        return self._numbers[cell]


def _matrix_json(matrix: MatrixTable, cells: _Cells) -> dict[str, Any]:
    columns = []
    for principal in matrix.principals:
        granted, revoked = matrix.changes(principal)
        columns.append(
            {
                "principal": principal,
                "super": principal in matrix.super_users,
                "cells": cells.runs(matrix.cells(principal)),
                "denied": [each for run in matrix.denied(principal) for each in run],
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
    # Of all changes in the period, also of those that are not listed.
    temporary = {frozenset(content_json(each).items()) for each in temporary_acls(report.source.states)}
    lines = list(report.changes())
    for line in lines:
        of_record = ("id", "offset", "timestamp")
        content = {name: value for name, value in (line.get("acl") or {}).items() if name not in of_record}
        line["temporary"] = frozenset(content.items()) in temporary
    return {"total": len(lines), "first": 0, "changes": lines}


def _decision_changes(report: Report, before: AuthorizerState) -> dict[str, Any]:
    count = len(report.decision_changes) if report.lines_maximum is None else report.lines_maximum
    return decision_changes_json(
        ChangePage.of(report.decision_changes, ListFilter(), count, report.teams), before, report.state
    )


def _answers(report: Report) -> list[dict[str, Any]]:
    """The explained decisions of the witnesses at both states."""
    offsets = [state_offset_json(each) for each in (report.before, report.state) if each is not None]
    return [
        to_builtins(explanation.answer()) | offset
        for change in report.decision_changes[:EXPLAINED_MAXIMUM]
        for explanation, offset in zip(report.explained(change), offsets, strict=True)
    ]
