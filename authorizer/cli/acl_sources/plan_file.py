"""A plan as a file: what `aclog plan --output` writes, and what is done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from authorizer.api.errors import PlanUnreadableError
from authorizer.cli.command_name import command_line
from authorizer.cli.invocation import words
from authorizer.cli.rendering.output import note

if TYPE_CHECKING:
    from pathlib import Path

    from authorizer.analysis.plan import AclPlan


_BEGINNING: Final = re.compile(rb'\s*\{\s*"aclogPlan"')
_CHANGES_BEGINNING: Final = re.compile(rb'\s*\{\s*"acl"')
_BEGINNING_BYTES: Final = 64


def is_plan(path: Path) -> bool:
    """Whether a file begins as a plan does."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _BEGINNING.match(file.read(_BEGINNING_BYTES)) is not None


def read_plan(path: Path) -> AclPlan:
    """The plan of a file.

    Raises:
        OSError: it cannot be read.
        PlanUnreadableError: it is no plan, or not as it was made.
    """
    from authorizer.analysis.plan import AclPlan

    text = path.read_bytes()
    if _CHANGES_BEGINNING.match(text):
        raise PlanUnreadableError(f"{path} holds changes for `aclog plan`, and is no plan yet")
    try:
        return AclPlan.from_json(text)
    except PlanUnreadableError as error:
        raise PlanUnreadableError(f"{path}: {error}") from error


def write_plan(plan: AclPlan, path: Path) -> None:
    """Write it whole, or leave what was there. OSError: it cannot be written."""
    from snapshot.files.atomic_file import atomic_write

    with atomic_write(path) as file:
        file.write(plan.to_json())


def note_next_steps(changes: Path) -> None:
    """Print what follows once ``changes`` were written."""
    where = words("--log") or ("--log", "URL")
    config = words("--config")
    plan = changes.with_suffix(".plan.json")
    note(f"note: {changes} holds changes for `aclog plan`, and is no plan yet. To carry them out:")
    note("  " + command_line(["plan", str(changes), *where, *config, "--output", str(plan)]))
    note("  " + command_line(["apply", str(plan), *where, *config]))
