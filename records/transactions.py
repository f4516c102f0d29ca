"""Metadata transactions (KIP-868): what an open one hides, and from where on that counts.

    BeginTransactionRecord    what follows is hidden
    EndTransactionRecord      it counts from here on
    AbortTransactionRecord    it never counts

What is outside of a transaction counts from its own place; they do not nest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from records.entries import (
    TRANSACTION_MARKERS,
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from records.log_batch import LogRecord

Marker = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord


_T = TypeVar("_T")


def misplaced(marker: Marker, *, is_open: bool) -> str | None:
    """Why no sound log has the marker there, to follow "a transaction"; None if it may stand there.

    Args:
        marker: in question.
        is_open: whether a transaction is open before it.
    """
    if isinstance(marker, BeginTransactionRecord):
        return "begins within another" if is_open else None
    return None if is_open else "ends that never began"


def is_open_after(record: object, *, is_open: bool) -> bool:
    """Whether a transaction is open behind a record, which may be any; ``is_open``: before it."""
    if type(record) not in TRANSACTION_MARKERS:
        return is_open
    return isinstance(record, BeginTransactionRecord)


def beginnings(records: Iterable[LogRecord]) -> list[int]:
    """Offsets at which a transaction begins: what is below is visible without it."""
    return [logged.offset for logged in records if isinstance(logged.record, BeginTransactionRecord)]


class Transaction(Generic[_T]):
    """What the transactions of one log hide, in the caller's units: a record each, or rows of many.

    Attributes:
        is_open: whether one is open: then what comes is to be hidden.
    """

    __slots__ = ("_hidden", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._hidden: list[_T] = []

    def hide(self, items: Iterable[_T]) -> None:
        """What comes next in the log; a transaction is open."""
        self._hidden += items

    def mark(self, marker: Marker) -> list[_T]:
        """Pass a marker, which is not misplaced; returns what counts from there on, in the log's order."""
        hidden, self._hidden = self._hidden, []
        self.is_open = isinstance(marker, BeginTransactionRecord)
        return hidden if isinstance(marker, EndTransactionRecord) else []
