"""What a person's terminal gets, and a pipe does not: colour, and lines that break at its width.

Text is styled wherever it is made; ``click.echo`` takes the styles out again where ``colour`` or the stream
says so. Whatever is piped has one line for each thing, however long.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import Final

import click

# Runs of spaces align columns; only a single one is a place to break.
_BREAK: Final = re.compile(r"(?<=\S) (?=\S)")
_CONTINUED: Final = " \\"


def colour() -> bool | None:
    """Whether to style, for click's contexts; None where it is for the stream to say.

    https://no-color.org and https://force-color.org: set and not empty; the first one wins.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def good(text: str) -> str:
    """What was hoped for: ALLOWED, whole, complete."""
    return click.style(text, fg="green", bold=True)


def bad(text: str) -> str:
    """What was not: DENIED, DAMAGED, DIFFERENT."""
    return click.style(text, fg="red", bold=True)


def doubtful(text: str) -> str:
    """What may matter, and may not: notes, snapshots that are not whole."""
    return click.style(text, fg="yellow")


def verdict(text: str, *, is_good: bool) -> str:
    """One or the other."""
    return good(text) if is_good else bad(text)


def width(*, err: bool = False) -> int | None:
    """Columns of the terminal that stdout (or stderr) is; None where it is none."""
    stream = sys.stderr if err else sys.stdout
    # COLUMNS first; 80 where nothing says how many there are.
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(line: str, columns: int | None, indent: int = 0) -> str:
    """The line broken between words, what follows the first one indented; as it is where columns is None.

    A word that is too long stays whole: an id must be copied in one piece.
    """
    return _filled(_BREAK.split(line), columns, indent, "")


def wrapped_command(words: Sequence[str], columns: int | None, indent: int = 0) -> str:
    r"""A command quoted for a shell, broken at flags with ``\`` at line ends: it still can be pasted."""
    pieces: list[str] = []
    for word in words:
        if pieces and not word.startswith("-") and pieces[-1].startswith("-"):
            pieces[-1] += f" {shlex.quote(word)}"
        else:
            pieces.append(shlex.quote(word))
    return _filled(pieces, columns, indent, _CONTINUED)


def _filled(pieces: Sequence[str], columns: int | None, indent: int, line_end: str) -> str:
    whole = " ".join(pieces)
    if columns is None or unstyled_length(whole) <= columns:
        return whole
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if unstyled_length(lines[-1]) + 1 + unstyled_length(piece) + len(line_end) <= columns:
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * indent + piece)
    return f"{line_end}\n".join(lines)


def unstyled_length(text: str) -> int:
    """How many characters of a text are seen."""
    return len(click.unstyle(text))
