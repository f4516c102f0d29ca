"""Cells of CSV that a spreadsheet takes for text, and the way back.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula, and whoever may create
an ACL, or a name, chooses such texts. So a cell that begins so, or that holds a control character, gets a
``'`` before it; one that begins with quotation marks and goes on so gets one more. Nothing is lost:
``text_of_cell`` takes exactly that mark away.
"""

from __future__ import annotations

import re
from typing import Final

#: Columns of ``aclog snapshot export --format csv``.
CSV_HEADER: Final = (
    "id",
    "resourceType",
    "resourceName",
    "patternType",
    "principal",
    "host",
    "operation",
    "permissionType",
)
_MARK: Final = "'"
#: Also their full-width forms, which some spreadsheets take for the same.
_RISKY: Final = re.compile(
    r"'*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|.*[\x00-\x1f\x7f-\x9f\u2028\u2029])", re.DOTALL
)
#: The id of an ACL may begin with a minus; of its characters no formula can be made.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def cell_of_text(text: str) -> str:
    """A text as it is written into a cell."""
    return _MARK + text if _is_risky(text) else text


def text_of_cell(cell: str) -> str:
    """The text that ``cell_of_text`` was given; a cell that it would not have written is its own text."""
    return cell[1:] if cell.startswith(_MARK) and _is_risky(cell[1:]) else cell


def _is_risky(text: str) -> bool:
    return _RISKY.match(text) is not None and _ID.fullmatch(text) is None
