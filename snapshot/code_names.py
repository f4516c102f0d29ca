"""Kafka's codes as text: the name, or the number of a code that this build has no name for.

A newer Kafka may write codes of its own (architecture.md 8.4); what is written out must say which, and must
give the same code when it is read back.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import IntEnum


@cache  # an export asks four times for each ACL
def code_to_name(kind: type[IntEnum], code: int) -> str:
    """``TOPIC``; ``99`` for a code without a name."""
    return next((member.name for member in kind if member == code), str(code))


def code_from_name(kind: type[IntEnum], text: str) -> int:
    """The code whose ``code_to_name`` this is.

    Raises:
        ValueError: neither a name nor a number.
    """
    known = kind.__members__.get(text)
    return int(text) if known is None else known.value
