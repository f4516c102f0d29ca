"""The words that docs/glossary.md replaces stay out of what is rewritten (tests/support/language.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.language import findings

ROOT = Path(__file__).resolve().parents[2]
# One line each, in alphabetical order; a folder is added when it has none of the words any more.
REWRITTEN = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "authorizer/analysis",
    "authorizer/api",
    "authorizer/cli",
    "authorizer/client",
    "authorizer/configuration",
    "authorizer/console",
    "authorizer/engine",
    "authorizer/node",
    "authorizer/sidecar",
    "benchmarks",
    "docs/adr",
    "docs/cli.md",
    "docs/client.md",
    "docs/compatibility.md",
    "docs/configuration.md",
    "docs/console.md",
    "docs/decision-log.md",
    "docs/how-to",
    "docs/http.md",
    "docs/index.md",
    "docs/metrics.md",
    "docs/performance-tables.md",
    "docs/performance.md",
    "docs/runbooks.md",
    "docs/security.md",
    "docs/tutorial.md",
    "examples",
    "records",
    "replay",
    "snapshot",
    "tests",
)  # fmt: skip


@pytest.mark.parametrize("path", REWRITTEN)
def test_the_glossarys_words_are_used(path: str) -> None:
    assert findings([ROOT / path]) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def asked_state(): ...", ["identifier asked_state"]),
        ("LetIn = 1", ["identifier LetIn"]),
        ("# The ACL is needless.", ["needless"]),
        ('"""Is passed on at once."""', ["passed on", "at once"]),
        ("whole = 1  # a whole number", []),
        ("{'whole': 'A key.', 'x': 'Prints `everybody`.'}", []),
        ("state = 1  # The redundant ACL is removed.", []),
    ],
)
def test_identifiers_comments_and_texts_are_searched(tmp_path: Path, text: str, found: list[str]) -> None:
    (tmp_path / "code.py").write_text(text + "\n", encoding="utf-8")

    assert [each.text for each in findings([tmp_path])] == found


def test_pages_are_searched_by_line(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("A plan.\nWho asks?\n", encoding="utf-8")

    (only,) = findings([tmp_path])

    assert (only.line, only.text) == (2, "Who asks")
