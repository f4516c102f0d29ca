"""A plan as a file: what `aclog plan --output` writes, and what is done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from authorizer.analysis.plan import AclPlan
from authorizer.errors import PlanUnreadableError
from snapshot.files.atomic_file import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

_BEGINNING: Final = re.compile(rb'\s*\{\s*"aclogPlan"')
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
    try:
        return AclPlan.from_json(path.read_bytes())
    except PlanUnreadableError as error:
        raise PlanUnreadableError(f"{path}: {error}") from error


def write_plan(plan: AclPlan, path: Path) -> None:
    """Write it whole, or leave what was there. OSError: it cannot be written."""
    with atomic_write(path) as file:
        file.write(plan.to_json())
