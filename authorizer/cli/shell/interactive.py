"""Commands that are typed one after the other: on a terminal with completion and a history."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from authorizer.cli.shell.paths import BadPathError, split_words, unfinished_word
from authorizer.cli.shell.session import COMMANDS, EXIT, Session

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from authorizer.cli.shell.session import Walk

_PROMPT: Final = ">> "
_HISTORY_LINES: Final = 1000
#: As many as a terminal can show.
_OFFERED_MAX: Final = 1000


def interact(walk: Walk, *, as_json: bool) -> None:
    """Read commands from stdin until it ends, or one says exit; on a terminal with completion and history."""
    if not sys.stdin.isatty():
        session = Session(walk, as_json=as_json)
        for line in sys.stdin:
            if not _typed(session, line):
                return
        return
    import readline

    readline.set_completer_delims(" /")  # what comes behind these is what Tab shows
    readline.set_completer(_completer(walk, readline))
    is_libedit = "libedit" in (readline.__doc__ or "")  # in readline's place in some Pythons
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_auto_history(True)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    history = Path(state, "aclog", "shell_history")
    with suppress(OSError):  # there is none the first time
        readline.read_history_file(history)
    click.echo("[ aclog shell ]  help says what there is")
    try:
        while True:
            session = Session(walk, as_json=as_json, columns=shutil.get_terminal_size().columns)
            try:
                if not _typed(session, input(_PROMPT)):
                    return
            except KeyboardInterrupt:
                click.echo("^C")
            except EOFError:
                click.echo()
                return
    finally:
        readline.set_history_length(_HISTORY_LINES)
        try:
            history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(history)
        except OSError as error:
            click.echo(f"note: {history}: {error.strerror}", err=True)


def _typed(session: Session, line: str) -> bool:
    """Run one line; whether to go on."""
    words = split_words(line)
    if not words:
        return True
    if words[0] == EXIT:
        return False
    try:
        session.run(words)
    except click.UsageError as error:
        click.echo(error.format_message(), err=True)
    return True


def _completer(walk: Walk, readline: ModuleType) -> Callable[[str, int], str | None]:
    """For readline, which asks for one after the other until there is none."""
    offered: list[str] = []

    def complete(_text: str, state: int) -> str | None:
        if state == 0:
            lines = completed(walk, readline.get_line_buffer()[: readline.get_endidx()])
            offered[:] = [line[readline.get_begidx() :] for line in lines]
        return offered[state] if state < len(offered) else None

    return complete


def completed(walk: Walk, line: str) -> list[str]:
    """What a line may become that was typed to its end."""
    typed = unfinished_word(line)
    before = line[: len(line) - len(typed)]
    if not before.strip():
        return [f"{before}{name} " for name in COMMANDS if name.startswith(typed)]
    try:
        return [before + way for way in walk.completions(typed, _OFFERED_MAX)]
    except BadPathError:
        return []
