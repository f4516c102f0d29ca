"""docs/cli.md is what the commands say of themselves."""

from __future__ import annotations

from pathlib import Path

from authorizer.cli.reference import reference

ROOT = Path(__file__).resolve().parents[2]


def test_docs_are_current() -> None:
    """`make docs` was run after the last change of a command."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference()
