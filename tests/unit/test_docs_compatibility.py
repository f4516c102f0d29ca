"""docs/compatibility.md names tests; each of them exists."""

from __future__ import annotations

import ast
import re

from support.data import TESTS

DOCUMENT = TESTS.parent / "docs" / "compatibility.md"
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(\w+)`")


def defined_in(file: str) -> set[str]:
    """The functions and assigned names of a test file; Hypothesis's state machines are assigned."""
    found = set()
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_named_tests_exist() -> None:
    """Each named proof is a test."""
    named: dict[str, set[str]] = {}
    for file, test in NAMED.findall(DOCUMENT.read_text(encoding="utf-8")):
        named.setdefault(file, set()).add(test)
    assert [
        f"{file}::{test}" for file in sorted(named) for test in sorted(named[file] - defined_in(file))
    ] == []
    assert sum(map(len, named.values())) > 50


def test_every_row_names_its_proof() -> None:
    """Every statement has a test, unless it says that a feature is missing."""
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    unproved = [
        row
        for row in rows
        if not NAMED.search(row)
        and not row.startswith(("| statement |", "| difference |", "| # |"))
        and not row.rstrip(" |").endswith(("not yet", "not here", "by KIP-504's interface"))
    ]
    assert unproved == []
    assert len(rows) > 50
