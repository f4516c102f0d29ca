"""Options of the running command that several of its functions read.

They are stored in click's context, so that functions which open a log, print a note or fill a hint need no
argument for them.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import Any, Final

import click

_KEY: Final = "authorizer.cli.invocation"
_RUNNING: Final = "authorizer.cli.running"

#: Options that name a log, or the cluster that keeps it.
LOG_FLAGS: Final = ("--log", "--bootstrap-server", "--bootstrap-controller", "--command-config")
#: Options that each name a source of ACLs.
SOURCE_FLAGS: Final = ("--log", "--bootstrap-server", "--bootstrap-controller", "--sidecar", "--acls")
#: In a hint ``aclog log verify {log}`` becomes ``aclog log verify --log DIR``. The variable may
#: name it, too; the last text is for a command that names it in another way.
_PLACEHOLDERS: Final = {
    "{log}": ((*LOG_FLAGS, "--config"), "ACLOG_LOG_URL", "--log DIR"),
    "{target}": ((*LOG_FLAGS, "--sidecar", "--token-file", "--config"), "ACLOG_LOG_URL", "--log DIR"),
    "{store}": (("--snapshots", "--config"), "ACLOG_SNAPSHOT_STORE", "--snapshots STORE"),
}
_SENTENCE_END: Final = re.compile(r"(?<=\.) ")


def remember(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    """A click callback: store the option's value for ``given``."""
    if value is not None:
        ctx.meta.setdefault(_KEY, {})[f"--{str(param.name).replace('_', '-')}"] = value
    return value


def given(flag: str) -> Any:
    """The value of a remembered option; None if it was not given or no command runs."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_KEY, {}).get(flag)


def is_quiet() -> bool:
    """Whether ``--quiet`` is given: print no notes, and progress only with ``--progress``."""
    return bool(given("--quiet"))


def shows_progress() -> bool:
    """Whether to show progress: the value of ``--progress``, else on a terminal unless ``--quiet``."""
    progress = given("--progress")
    return bool(sys.stderr.isatty() and not is_quiet() if progress is None else progress)


def words(*flags: str) -> tuple[str, ...]:
    """The given options among ``flags``, each followed by its value."""
    return tuple(word for flag in flags if (value := given(flag)) is not None for word in (flag, str(value)))


def log_words() -> tuple[str, ...]:
    """The given options that name the log and the connection to it, for another command."""
    return words(*LOG_FLAGS, "--config")


def filled(hint: str) -> str:
    """Replace ``{log}``, ``{target}`` and ``{store}`` in a hint by the given options, or by nothing.

    Drops the sentence that proposes the running command itself.
    """
    repeated = f"`aclog {_running()} {{"
    hint = " ".join(each for each in _SENTENCE_END.split(hint) if repeated not in each)
    for placeholder, (flags, variable, form) in _PLACEHOLDERS.items():
        options = shlex.join(words(*flags)) or ("" if variable in os.environ else form)
        hint = hint.replace(f" {placeholder}", f" {options}" if options else "")
    return hint


def begin(ctx: click.Context) -> None:
    """Record the running command, as click's context has ended when the group gets its error."""
    ctx.meta[_RUNNING] = ctx


def has_option(flag: str) -> bool:
    """Whether the running command has this option; true if no command runs."""
    ctx = _running_context()
    return ctx is None or any(flag in param.opts for param in ctx.command.params)


def _running_context() -> click.Context | None:
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(_RUNNING, ctx)


def _running() -> str:
    """The words of the running command: ``log verify``."""
    ctx = _running_context()
    path: list[str] = []
    while ctx is not None and ctx.parent is not None:
        path.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(path)
