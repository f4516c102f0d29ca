"""The interactive shell: reads commands, on a terminal with completion and a history."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Final

import click

from authorizer.cli.shell.paths import BadPathError, split_words, unfinished_word
from authorizer.cli.shell.session import COMMANDS, EXIT, Browser, Session

_PROMPT: Final = ">> "
_HISTORY_LINES: Final = 1000
#: Completions that a terminal can show.
_COMPLETIONS_MAX: Final = 1000


def interact(browser: Browser, *, as_json: bool) -> None:
    """Read commands from stdin until its end or exit; on a terminal with completion and history."""
    if not sys.stdin.isatty():
        session = Session(browser, as_json=as_json)
        for line in sys.stdin:
            if not _run_line(session, line):
                return
        return
    import readline

    readline.set_completer_delims(" /")  # completion replaces the text after these
    readline.set_completer(_completer(browser, readline))
    is_libedit = "libedit" in (readline.__doc__ or "")  # some Pythons have libedit instead of readline
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")
    readline.set_auto_history(True)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    history = Path(state, "aclog", "shell_history")
    with suppress(OSError):  # no history yet
        readline.read_history_file(history)
    click.echo("[ aclog shell ]  help lists the commands")
    try:
        while True:
            session = Session(browser, as_json=as_json, columns=shutil.get_terminal_size().columns)
            try:
                if not _run_line(session, input(_PROMPT)):
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


def _run_line(session: Session, line: str) -> bool:
    """Run one line; returns False for exit."""
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


def _completer(browser: Browser, readline: ModuleType) -> Callable[[str, int], str | None]:
    """The completer of readline, which calls it for one completion after the other until None."""
    completions: list[str] = []

    def complete(_text: str, state: int) -> str | None:
        if state == 0:
            lines = completed_lines(browser, readline.get_line_buffer()[: readline.get_endidx()])
            completions[:] = [line[readline.get_begidx() :] for line in lines]
        return completions[state] if state < len(completions) else None

    return complete


def completed_lines(browser: Browser, line: str) -> list[str]:
    """The lines that complete a typed line."""
    typed = unfinished_word(line)
    before = line[: len(line) - len(typed)]
    if not before.strip():
        return [f"{before}{name} " for name in COMMANDS if name.startswith(typed)]
    try:
        return [before + way for way in browser.completions(typed, _COMPLETIONS_MAX)]
    except BadPathError:
        return []
