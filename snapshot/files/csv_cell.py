"""CSV cells that are safe from formula injection, and their decoding.

A spreadsheet runs a cell that begins with ``=``, ``+``, ``-`` or ``@`` as a formula, and such texts may come
from anyone who can create an ACL. Such a cell, and one with a control character, gets a leading ``'``. So
does a cell in which such a text follows ``'`` marks, which makes the encoding reversible.
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
#: Includes the full-width forms, which some spreadsheets treat alike.
_RISKY: Final = re.compile(
    r"'*(?:[=+\-@\uff1d\uff0b\uff0d\uff20]|.*[\x00-\x1f\x7f-\x9f\u2028\u2029])", re.DOTALL
)
#: The id of an ACL may begin with a minus, but its characters cannot form a formula.
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")


def cell_of_text(text: str) -> str:
    """Encode a text as a cell."""
    return _MARK + text if _is_risky(text) else text


def text_of_cell(cell: str) -> str:
    """The inverse of ``cell_of_text``; a cell that it would not have written is returned unchanged."""
    return cell[1:] if cell.startswith(_MARK) and _is_risky(cell[1:]) else cell


def _is_risky(text: str) -> bool:
    return _RISKY.match(text) is not None and _ID.fullmatch(text) is None
