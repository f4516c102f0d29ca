"""Metadata transactions (KIP-868): which records an open one hides, and when they become visible.

    BeginTransactionRecord    hides what follows
    EndTransactionRecord      makes it visible
    AbortTransactionRecord    drops it

A record outside of a transaction is visible from its own offset on. Transactions do not nest.
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
    from collections.abc import Iterable, Sequence

    from records.log_batch import LogRecord

Marker = BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord


_T = TypeVar("_T")


class MisplacedMarkerError(Exception):
    """A marker where no valid log has one; ``offset``: of the marker; None: unknown."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


def is_open_after(record: object, *, is_open: bool) -> bool:
    """Whether a transaction is open after a record, which may be any. ``is_open``: before it."""
    if type(record) not in TRANSACTION_MARKERS:
        return is_open
    return isinstance(record, BeginTransactionRecord)


def beginnings(records: Iterable[LogRecord]) -> list[int]:
    """Offsets at which transactions begin."""
    return [logged.offset for logged in records if isinstance(logged.record, BeginTransactionRecord)]


class Transaction(Generic[_T]):
    """State machine of the transactions of one log: hides the items of an open one until it ends.

    An item is the caller's unit: a record, with or without its offset.
    """

    __slots__ = ("_hidden", "is_open")

    def __init__(self) -> None:
        self.is_open = False
        self._hidden: list[_T] = []

    def take(self, item: _T, record: object) -> Sequence[_T]:
        """Take the next record of the log, and return the items that become visible with it, in log order.

        Raises:
            MisplacedMarkerError: the record is a marker where none can be; nothing was changed.
        """
        if type(record) in TRANSACTION_MARKERS:
            self._check(record, is_open=self.is_open)
            hidden, self._hidden = self._hidden, []
            self.is_open = isinstance(record, BeginTransactionRecord)
            return hidden if isinstance(record, EndTransactionRecord) else ()
        if self.is_open:
            self._hidden.append(item)
            return ()
        return (item,)

    def hide(self, items: Iterable[_T]) -> None:
        """Take the items of many records without markers, while a transaction is open."""
        self._hidden += items

    def check(self, records: Iterable[LogRecord]) -> None:
        """Check the markers among the next records, without taking them.

        Raises:
            MisplacedMarkerError: as ``take``, with the marker's offset.
        """
        is_open = self.is_open
        for logged in records:
            self._check(logged.record, is_open=is_open, offset=logged.offset)
            is_open = is_open_after(logged.record, is_open=is_open)

    @staticmethod
    def _check(record: object, *, is_open: bool, offset: int | None = None) -> None:
        if isinstance(record, BeginTransactionRecord) and is_open:
            raise MisplacedMarkerError("transaction begins within another", offset)
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord) and not is_open:
            raise MisplacedMarkerError("transaction ends that never began", offset)
