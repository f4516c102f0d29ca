"""Kafka's codes as text: the name, or the number of a code that has no name in this build.

A newer Kafka may write unknown codes. Parsing the text must return the same code.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import IntEnum


@cache  # an export calls this four times for each ACL
def code_to_name(kind: type[IntEnum], code: int) -> str:
    """``TOPIC``; ``99`` for a code without a name."""
    return next((member.name for member in kind if member == code), str(code))


def code_from_name(kind: type[IntEnum], text: str) -> int:
    """The inverse of ``code_to_name``. Raises ValueError: neither a name nor a number."""
    known = kind.__members__.get(text)
    return int(text) if known is None else known.value
