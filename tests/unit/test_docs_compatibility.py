"""docs/compatibility.md names tests; each of them exists."""

from __future__ import annotations

import ast
import re

from support.data import TESTS

DOCUMENT = TESTS.parent / "docs" / "compatibility.md"
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(\w+)`")


def defined_in(file: str) -> set[str]:
    """The functions of a file of tests, and what it assigns: Hypothesis's state machines are tests so."""
    found = set()
    for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_named_tests_exist() -> None:
    """What the table says is proved is proved by something that runs."""
    named: dict[str, set[str]] = {}
    for file, test in NAMED.findall(DOCUMENT.read_text(encoding="utf-8")):
        named.setdefault(file, set()).add(test)
    assert [
        f"{file}::{test}" for file in sorted(named) for test in sorted(named[file] - defined_in(file))
    ] == []
    assert sum(map(len, named.values())) > 50


def test_every_row_says_how_it_is_proved() -> None:
    """No statement without a test, but for what is said not to be there."""
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
