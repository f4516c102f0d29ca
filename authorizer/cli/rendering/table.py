"""Text tables: fixed columns in a pipe, no wider than the screen on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from authorizer.cli.rendering.terminal import unstyled_length, wrapped

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
