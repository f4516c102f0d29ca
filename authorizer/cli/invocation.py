"""The flags of the running command that more than one step of it needs.

Kept in click's context: what opens a log, prints a note or names a way out need not be handed them.
"""

from __future__ import annotations

import shlex
import sys
from typing import Any, Final

import click

_KEY: Final = "authorizer.cli.invocation"

#: In a way out: ``aclog log verify {log}`` becomes ``aclog log verify --log DIR``.
_PLACEHOLDERS: Final = {"{log}": ("--log", "--config"), "{store}": ("--snapshots", "--config")}


def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A click callback: keep the flag for ``given``."""
    if value is not None:
        ctx.meta.setdefault(_KEY, {})[f"--{str(param.name).replace('_', '-')}"] = value
    return value


def given(flag: str) -> Any:
    """The value of a remembered flag; None where it was not given, or no command runs."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_KEY, {}).get(flag)


def is_quiet() -> bool:
    """``--quiet``: no notes, and no progress unless ``--progress`` asks for it."""
    return bool(given("--quiet"))


def shows_progress() -> bool:
    """Whether to show how far work is: as ``--progress`` says, else on a terminal unless ``--quiet``."""
    wanted = given("--progress")
    return bool(sys.stderr.isatty() and not is_quiet() if wanted is None else wanted)


def words(*flags: str) -> tuple[str, ...]:
    """Those of the flags that were given, with their values, as the user wrote them."""
    return tuple(word for flag in flags if (value := given(flag)) is not None for word in (flag, value))


def filled(way_out: str) -> str:
    """A way out with ``{log}`` and ``{store}`` as the flags say; without them, where nothing was given."""
    for placeholder, flags in _PLACEHOLDERS.items():
        said = "".join(f" {shlex.quote(word)}" for word in words(*flags))
        way_out = way_out.replace(f" {placeholder}", said)
    return way_out
