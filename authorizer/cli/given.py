"""What a command was given that a later one needs too: where its log, store and configuration are.

Kept in click's context, so that a way out can name them as the user did.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEY: Final = "authorizer.cli.given"

#: In a way out: ``aclog log verify {log}`` becomes ``aclog log verify --log DIR``.
_PLACEHOLDERS: Final = {"{log}": ("--log", "--config"), "{store}": ("--snapshots", "--config")}


def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A click callback: the flag is one that hints repeat."""
    if isinstance(value, str):
        ctx.meta.setdefault(_KEY, {})[param.opts[0]] = value
    return value


def given_flags() -> Mapping[str, str]:
    """By flag, in the command that runs."""
    ctx = click.get_current_context(silent=True)
    return {} if ctx is None else ctx.meta.get(_KEY, {})


def words(flags: Mapping[str, str], *wanted: str) -> tuple[str, ...]:
    """Those of the wanted flags that were given, with their values."""
    return tuple(word for flag in wanted if flag in flags for word in (flag, flags[flag]))


def filled(way_out: str, flags: Mapping[str, str]) -> str:
    """A way out with ``{log}`` and ``{store}`` as the flags say; without them, where nothing was given."""
    for placeholder, wanted in _PLACEHOLDERS.items():
        said = "".join(f" {shlex.quote(word)}" for word in words(flags, *wanted))
        way_out = way_out.replace(f" {placeholder}", said)
    return way_out
