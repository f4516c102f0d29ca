"""The commands that carry out a file of changes: it is not a plan yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.cli.command_name import command_line
from authorizer.cli.invocation import words
from authorizer.cli.rendering.output import note

if TYPE_CHECKING:
    from pathlib import Path


def note_next_steps(changes: Path) -> None:
    """Print what follows once ``changes`` were written."""
    where = words("--log") or ("--log", "URL")
    config = words("--config")
    plan = changes.with_suffix(".plan.json")
    note(f"note: {changes} holds changes for `aclog plan`, and is no plan yet. To carry them out:")
    note("  " + command_line(["plan", str(changes), *where, *config, "--output", str(plan)]))
    note("  " + command_line(["apply", str(plan), *where, *config]))
