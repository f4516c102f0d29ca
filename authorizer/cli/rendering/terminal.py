"""Colour, line wrapping and tables for terminals; a pipe gets no colour, no wrapping, and fixed columns.

Text is always styled; ``click.echo`` removes the styles if ``colour`` or the stream requires it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

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


#: A cell without a known value.
UNKNOWN: Final = "-"
_INDENT: Final = "    "


class Column(NamedTuple):
    """A heading and the column's width in a pipe; negative: left-aligned."""

    heading: str
    width: int


class Row(NamedTuple):
    """A cell for each column, styled or not, and a remark below the row."""

    cells: Sequence[str]
    remark: str | None = None


def table_lines(columns: Sequence[Column], rows: Sequence[Row], screen: int | None) -> Iterator[str]:
    """Format the headings, then the rows; ``screen``: columns of the terminal, None for a pipe.

    Columns that do not fit follow each row, one a line after their heading: a truncated id or digest is
    useless.
    """
    widths = [abs(column.width) for column in columns]
    shown = len(columns)
    if screen is not None:
        cells = [[column.heading for column in columns], *(row.cells for row in rows)]
        widths = [max(map(unstyled_length, column)) for column in zip(*cells, strict=True)]
        while shown > 1 and sum(widths[:shown]) + shown - 1 > screen:
            shown -= 1
    yield _line([column.heading for column in columns], columns[:shown], widths)
    for row in rows:
        yield _line(row.cells, columns[:shown], widths)
        for column, cell in zip(columns[shown:], row.cells[shown:], strict=True):
            if cell != UNKNOWN:
                yield f"{_INDENT}{column.heading.lower()} {cell}"
        if row.remark is not None:
            yield wrapped(f"{_INDENT}{row.remark}", screen, len(_INDENT))


def _line(cells: Sequence[str], columns: Sequence[Column], widths: Sequence[int]) -> str:
    aligned = []
    for cell, column, width in zip(cells, columns, widths, strict=False):
        space = " " * (width - unstyled_length(cell))
        aligned.append(cell + space if column.width < 0 else space + cell)
    return " ".join(aligned).rstrip()
