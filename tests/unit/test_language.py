"""The words that docs/glossary.md replaces are used nowhere (tests/support/language.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.language import findings

ROOT = Path(__file__).resolve().parents[2]
# All of the project: a new folder or page is added here.
CHECKED = (
    *(
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "README.md",
        "SECURITY.md",
        "aclog",
        "authorizer",
    ),
    *("benchmarks", "deploy", "docs", "examples", "records", "replay", "snapshot", "tests"),
)


@pytest.mark.parametrize("path", CHECKED)
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
