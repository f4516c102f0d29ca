"""Output of commands: terminal-safe text, UTF-8 JSON, and progress on stderr."""

from __future__ import annotations

import json
import sys
import threading
import time
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

import click
import msgspec

from authorizer.api.control_characters import ESCAPED
from authorizer.cli.command_name import as_pasted
from authorizer.cli.invocation import is_quiet, shows_progress
from authorizer.cli.rendering.terminal import doubtful, unstyled_length, width, wrapped, wrapped_command

#: Where click's context keeps the notes that were printed.
_PRINTED_NOTES: Final = "authorizer.cli.notes"
#: Before each line under a heading.
MARGIN: Final = "   "
#: Buffered bytes of JSON lines.
_BUFFER_BYTES: Final = 64 * 1024
#: Time between two progress lines: on a terminal, which overwrites the last one, and elsewhere.
_PROGRESS_EVERY_S: Final = 0.2
_PROGRESS_LINE_EVERY_S: Final = 5.0
_WAITING_EVERY_S: Final = 1.0


def shown(name: str) -> str:
    """Escape the control characters of a name for text output."""
    return name if name.isprintable() else name.translate(ESCAPED)


def utc(timestamp_ms: int) -> str:
    """``2026-11-21T02:33:16Z``."""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def json_line(value: Any) -> bytes:
    """Encode a value as one line of JSON in UTF-8; lone surrogates become JSON escapes."""
    try:
        return msgspec.json.encode(value) + b"\n"
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace") + b"\n"


def print_json(value: Any) -> None:
    """Print a JSON document on one line of stdout."""
    click.echo(json_line(value), nl=False)


def note(*texts: str, label: str = "note:") -> None:
    """Print notes on stderr, each note once in a command; notes about progress have no label."""
    ctx = click.get_current_context(silent=True)
    printed = set() if ctx is None else ctx.meta.setdefault(_PRINTED_NOTES, set())
    beginning = f"{doubtful(label)} " if label else ""
    for text in texts:
        if not is_quiet() and text not in printed:
            printed.add(text)
            click.echo(wrapped(beginning + as_pasted(text), width(err=True), indent=2), err=True)


def answer(line: str, indent: int = 0) -> None:
    """Print a line of text; a terminal wraps it, with ``indent`` before the continuation."""
    click.echo(wrapped(line, width(), indent))


def print_fact(label: str, text: str, label_width: int) -> None:
    """Print a line of text after its label, which may be styled."""
    padding = " " * (label_width - unstyled_length(label))
    answer(f"{label}{padding}{text}", label_width)


def step(title: str) -> None:
    """Print a heading."""
    click.echo("\n" + click.style(title, bold=True))


def say(*lines: str, indent: int = 0) -> None:
    """Print lines below a heading."""
    for line in lines:
        answer(f"{MARGIN}{line}" if line else "", len(MARGIN) + indent)


def say_command(*words: str) -> None:
    """Print a command to paste, below a heading: ``$ curl ...``."""
    prompt = f"{MARGIN}$ "
    columns = width()
    text = wrapped_command(words, None if columns is None else columns - len(prompt), indent=4)
    click.echo(prompt + text.replace("\n", "\n" + MARGIN))


class JsonLines:
    """A stream of JSON lines to stdout, buffered unless stdout is a terminal."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0
        self._limit = 0 if sys.stdout.isatty() else _BUFFER_BYTES

    def write(self, value: Any) -> None:
        line = json_line(value)
        self._parts.append(line)
        self._bytes += len(line)
        if self._bytes > self._limit:
            self._flush()

    def _flush(self) -> None:
        click.echo(b"".join(self._parts), nl=False)
        self._parts.clear()
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an error too: print the lines before it.
        if not isinstance(error, BrokenPipeError):
            self._flush()


class Progress:
    """Progress of long work on stderr: on a terminal, or with ``--progress``."""

    def __init__(self, what: str) -> None:
        self._terminal = sys.stderr.isatty()
        self._is_on = shows_progress()
        self._what = what
        self._started = self._printed = time.monotonic()
        self._every_s = _PROGRESS_EVERY_S if self._terminal else _PROGRESS_LINE_EVERY_S
        self._open_line = False

    def at(self, done: int, total: int | None = None) -> None:
        """Report progress; prints at most a few times a second."""
        if not self._is_on:
            return
        now = time.monotonic()
        if now - self._printed < self._every_s:
            return
        self._printed = now
        share = f" of {total:,} ({done * 100 // total} %)" if total else ""
        rate = done / (now - self._started)
        line = f"{self._what}: {done:,}{share}, {rate:,.0f}/s"
        if self._terminal:
            _overwrite(line)
        else:
            click.echo(line, err=True)
        self._open_line = self._terminal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._open_line:
            _overwrite("")


class Waiting:
    """Elapsed-time indicator for work without progress, shown on a terminal after one second."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done = threading.Event()
        on = sys.stderr.isatty() and not is_quiet()
        self._thread = threading.Thread(target=self._show, daemon=True) if on else None

    def _show(self) -> None:
        began_s = time.monotonic()
        while not self._done.wait(_WAITING_EVERY_S):
            _overwrite(f"{self._what} ... {time.monotonic() - began_s:.0f} s")
        if time.monotonic() - began_s >= _WAITING_EVERY_S:
            _overwrite("")

    def __enter__(self) -> Self:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()


def _overwrite(line: str) -> None:
    """Replace the current line of the terminal on stderr."""
    click.echo(f"\r\x1b[K{line}", nl=False, err=True, color=True)
