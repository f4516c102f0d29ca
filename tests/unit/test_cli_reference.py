"""docs/cli.md equals the help texts of the commands."""

from __future__ import annotations

from pathlib import Path

from authorizer.cli.reference import reference

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_of_the_commands_is_current() -> None:
    """`make docs` was run after the last change of a command."""
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == reference()
