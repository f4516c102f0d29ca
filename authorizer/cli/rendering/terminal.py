"""Colour and line wrapping for terminals; a pipe gets neither.

Text is always styled; ``click.echo`` removes the styles if ``colour`` or the stream requires it.
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

# Runs of spaces align columns; lines break only at single spaces.
_BREAK: Final = re.compile(r"(?<=\S) (?=\S)")
_CONTINUED: Final = " \\"


def colour() -> bool | None:
    """Whether click's contexts style text; None: only on a terminal.

    https://no-color.org wins over https://force-color.org; each variable counts if it is not empty.
    """
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def good(text: str) -> str:
    """Style a good result, such as ALLOWED."""
    return click.style(text, fg="green", bold=True)


def bad(text: str) -> str:
    """Style a bad result, such as DENIED."""
    return click.style(text, fg="red", bold=True)


def doubtful(text: str) -> str:
    """Style a warning, a note or an incomplete snapshot."""
    return click.style(text, fg="yellow")


def width(*, err: bool = False) -> int | None:
    """Columns of the terminal of stdout or stderr; None for a pipe or a file."""
    stream = sys.stderr if err else sys.stdout
    # The variable COLUMNS wins; the default is 80.
    return shutil.get_terminal_size().columns if stream.isatty() else None


def wrapped(line: str, columns: int | None, indent: int = 0) -> str:
    """Break a line between words and indent the continuation; unchanged if ``columns`` is None.

    Long words are not broken: an id must be copied in one piece.
    """
    return _filled(_BREAK.split(line), columns, indent, "")


def wrapped_command(words: Sequence[str], columns: int | None, indent: int = 0) -> str:
    r"""Quote a command for a shell and break it before flags, with ``\`` at line ends."""
    pieces: list[str] = []
    for word in words:
        if pieces and not word.startswith("-") and pieces[-1].startswith("-"):
            pieces[-1] += f" {shlex.quote(word)}"
        else:
            pieces.append(shlex.quote(word))
    return _filled(pieces, columns, indent, _CONTINUED)


def _filled(pieces: Sequence[str], columns: int | None, indent: int, line_end: str) -> str:
    line = " ".join(pieces)
    if columns is None or unstyled_length(line) <= columns:
        return line
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if unstyled_length(lines[-1]) + 1 + unstyled_length(piece) + len(line_end) <= columns:
            lines[-1] += f" {piece}"
        else:
            lines.append(" " * indent + piece)
    return f"{line_end}\n".join(lines)


def unstyled_length(text: str) -> int:
    """Length of a text without its styles."""
    return len(click.unstyle(text))
