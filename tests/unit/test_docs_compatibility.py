"""docs/compatibility.md names tests; each of them exists."""

from __future__ import annotations

import ast
import re

import pytest

from support.data import TESTS

DOCUMENT = TESTS.parent / "docs" / "compatibility.md"
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(\w+)`")


def named_tests() -> list[tuple[str, str]]:
    return sorted(set(NAMED.findall(DOCUMENT.read_text(encoding="utf-8"))))


@pytest.mark.parametrize(("file", "test"), named_tests())
def test_a_named_test_exists(file: str, test: str) -> None:
    """What the table says is proved is proved by something that runs."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    # Hypothesis's state machines are tests by assignment.
    assigned = {
        name.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for name in node.targets
        if isinstance(name, ast.Name)
    }
    assert test in functions | assigned


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
