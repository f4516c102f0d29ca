"""KIP-868: records that metadata transactions hide, and the offsets from which they count."""

from __future__ import annotations

import pytest

from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from records.log_batch import LogRecord
from records.transactions import Marker, MisplacedMarkerError, Transaction, beginnings, is_open_after

BEGIN, END, ABORT = BeginTransactionRecord(None), EndTransactionRecord(), AbortTransactionRecord(None)


def counted(log: list[Marker | str]) -> tuple[list[tuple[int, str]], bool]:
    """(place from which it counts, item) of a log, and whether a transaction is open at its end."""
    transaction = Transaction[str]()
    found: list[tuple[int, str]] = []
    for place, item in enumerate(log):
        found += [(place, visible) for visible in transaction.take(str(item), item)]
    return found, transaction.is_open


@pytest.mark.parametrize(
    ("log", "expected", "is_open"),
    [
        (["a", "b"], [(0, "a"), (1, "b")], False),
        (["a", BEGIN, "b", "c"], [(0, "a")], True),
        ([BEGIN, "b", "c", END, "d"], [(3, "b"), (3, "c"), (4, "d")], False),
        ([BEGIN, "b", ABORT, "d"], [(3, "d")], False),
        ([BEGIN, "b", ABORT, BEGIN, "c", END], [(5, "c")], False),
        ([BEGIN, "b", END, BEGIN, END], [(2, "b")], False),
    ],
)
def test_the_records_of_a_transaction_count_from_its_end(
    log: list[Marker | str], expected: list[tuple[int, str]], is_open: bool
) -> None:
    """All of it or, aborted, nothing; while it is open, nothing yet."""
    assert counted(log) == (expected, is_open)


@pytest.mark.parametrize(
    ("log", "problem"),
    [
        ([END], "ends that never began"),
        ([ABORT], "ends that never began"),
        ([BEGIN, BEGIN], "begins within another"),
        ([BEGIN, END, ABORT], "ends that never began"),
    ],
)
def test_transactions_do_not_nest_and_end_once(log: list[Marker], problem: str) -> None:
    """The last marker is an error, found before the records are taken and when they are."""
    with pytest.raises(MisplacedMarkerError, match=problem):
        counted([*log])
    records = [LogRecord(offset, 0, marker) for offset, marker in enumerate(log, 7)]
    with pytest.raises(MisplacedMarkerError, match=problem) as caught:
        Transaction[LogRecord]().check(records)
    assert caught.value.offset == records[-1].offset


def test_a_check_takes_nothing() -> None:
    """A sound batch that ends within a transaction."""
    transaction = Transaction[LogRecord]()
    transaction.check([LogRecord(7, 0, BEGIN)])
    assert not transaction.is_open


@pytest.mark.parametrize("is_open", [False, True])
def test_only_markers_open_and_close(is_open: bool) -> None:
    """Any other record leaves it as it is."""
    after = [is_open_after(record, is_open=is_open) for record in (BEGIN, END, ABORT)]
    assert after == [True, False, False]
    assert is_open_after(FeatureLevelRecord("metadata.version", 1), is_open=is_open) is is_open


def test_the_starts_of_transactions_are_found() -> None:
    """Ends are no beginnings."""
    markers: list[Marker] = [END, BEGIN, ABORT, BEGIN]
    records = [LogRecord(offset, 0, marker) for offset, marker in enumerate(markers, 7)]
    assert beginnings(records) == [8, 10]
