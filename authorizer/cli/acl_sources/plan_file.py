"""Plan files: what `aclog plan --output` writes and `aclog apply` reads."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from authorizer.api.acl_json import acl_json
from authorizer.api.errors import PlanUnreadableError
from authorizer.cli.command_name import command_line
from authorizer.cli.invocation import LOG_FLAGS, log_words, words
from authorizer.cli.rendering.output import json_line, note
from authorizer.cli.sidecar import CREDENTIALS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from authorizer.analysis.plans.plan import AclPlan
    from records.entries import AccessControlEntryRecord


_BEGINNING: Final = re.compile(rb'\s*\{\s*"aclogPlan"')
_CHANGES_BEGINNING: Final = re.compile(rb'\s*\{\s*"acl"')
_BEGINNING_BYTES: Final = 64


def is_plan(path: Path) -> bool:
    """Whether a file begins like a plan."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return _BEGINNING.match(file.read(_BEGINNING_BYTES)) is not None


def read_plan(path: Path) -> AclPlan:
    """Read a plan."""
    from authorizer.analysis.plans.plan import AclPlan

    text = path.read_bytes()
    if _CHANGES_BEGINNING.match(text):
        raise PlanUnreadableError(f"{path} has changes for `aclog plan` and is not a plan yet")
    try:
        return AclPlan.from_json(text)
    except PlanUnreadableError as error:
        raise PlanUnreadableError(f"{path}: {error}") from error


def write_plan(plan: AclPlan, path: Path) -> None:
    """Write a plan atomically. Raises OSError."""
    from authorizer.cli.output_file import output_file

    with output_file(path) as file:
        file.write(plan.to_json())


def removal_json(acl: AccessControlEntryRecord) -> dict[str, str]:
    """A removal as a change for `aclog plan`, as ``aclog diff --json`` prints it."""
    return {"acl": "removed"} | acl_json(acl)


def write_removals(removed: Iterable[AccessControlEntryRecord], changes: Path) -> None:
    """Write removals as changes for `aclog plan`, and print the commands that apply them."""
    from authorizer.cli.output_file import output_file

    with output_file(changes) as file:
        file.writelines(json_line(removal_json(acl)) for acl in removed)
    where = (*log_words(), *words("--sidecar", *CREDENTIALS))
    if not words(*LOG_FLAGS, "--sidecar"):
        where = ("--log", "URL", *where)
    plan = changes.with_suffix(".plan.json")
    force = ["--force"] if plan.exists() else []
    note(f"{changes} has changes for `aclog plan` and is not a plan yet. To carry them out:")
    note("  " + command_line(["plan", str(changes), *where, "--output", str(plan), *force]), label="")
    note("  " + command_line(["apply", str(plan), *where]), label="")
