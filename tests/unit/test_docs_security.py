"""docs/security.md: its tests exist, its defaults are those of the keys, and it is linked."""

from __future__ import annotations

import ast
import re

from authorizer.configuration.keys.table import BY_NAME
from support.data import TESTS

ROOT = TESTS.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([a-z_/0-9]+\.py)::(\w+)`")
LIMIT = re.compile(r"^\| `(aclog\.[a-z.]+)` \| `([^`]*)` \|", re.MULTILINE)


def rows(heading: str) -> list[str]:
    """The rows of the table below a heading, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


def test_every_named_test_exists() -> None:
    tried = rows("What was tried")
    assert len(tried) > 30
    assert [row for row in tried if not NAMED.search(row)] == []
    defined = {
        (file, node.name)
        for file in {file for file, _ in NAMED.findall(PAGE)}
        for node in ast.parse((TESTS / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    assert set(NAMED.findall(PAGE)) - defined == set()


def test_each_limit_has_the_default_of_its_key() -> None:
    limits = dict(LIMIT.findall(PAGE))
    assert len(limits) > 10
    assert {name: BY_NAME[name].default for name in limits} == limits


def test_every_limit_of_the_sidecar_has_a_row() -> None:
    named = [
        name
        for name in BY_NAME
        if name.startswith(("aclog.sidecar.max.", "aclog.sidecar.request.", "aclog.sidecar.unread."))
    ]
    assert [name for name in named if f"| `{name}` |" not in PAGE] == []


def test_it_is_linked_from_the_index_pages() -> None:
    for page, link in (
        ("README.md", "docs/security.md"),
        ("README.md", "SECURITY.md"),
        ("ARCHITECTURE.md", "docs/security.md"),
        ("SECURITY.md", "docs/security.md"),
        ("docs/http.md", "security.md"),
        ("docs/how-to/tls-and-tokens.md", "../security.md"),
    ):
        assert f"]({link})" in (ROOT / page).read_text(encoding="utf-8"), page


def test_reports_go_to_the_repository_host() -> None:
    """Only the maintainers read reports there."""
    policy = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "private vulnerability reporting" in policy
    assert re.search(r"\w@\w|https?://", policy) is None
