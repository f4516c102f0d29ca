"""records.log.topic.transaction_assembler: records that become visible together."""

from __future__ import annotations

import pytest

from records.entries import BeginTransactionRecord, MetadataRecord
from records.errors import DecodeError
from records.log.topic.transaction_assembler import (
    RUN_RECORDS_MAX,
    FetchedRecords,
    TransactionAssembler,
    parse_transaction_header,
    transaction_headers,
)
from records.log_batch import LogBatch, LogRecord
from support.sim_scenario import acl_named

UNCOMMITTED_END = 10


def assembler(position: int = 0) -> TransactionAssembler:
    return TransactionAssembler(position, 0, lambda: UNCOMMITTED_END)


def add(to: TransactionAssembler, offset: int, header: str | None = None, **changed: object) -> None:
    record: MetadataRecord = changed.get("record") or acl_named("a")  # type: ignore[assignment]
    epoch = int(str(changed.get("epoch", 0)))
    logged = LogRecord(offset, 100 + offset, record)
    tag = None if header is None else header.encode()
    assert to.add(FetchedRecords((logged,), [offset], [100 + offset], [epoch], [7], [tag].__getitem__)) == (
        1,
        None,
    )


def spans(batches: list[LogBatch]) -> list[tuple[int, int, int]]:
    """(base offset, end offset, records) of each."""
    return [(batch.base_offset, batch.end_offset, len(batch.records)) for batch in batches]


def test_headers_group_the_records_of_a_transaction() -> None:
    """One for each record, and they are read back."""
    headers = transaction_headers("00ff", 2)
    assert headers == [b"00ff:0:2", b"00ff:1:2"]
    assert parse_transaction_header(headers[1]) == (b"00ff", 1, 2)


@pytest.mark.parametrize("value", [None, b"", b"a", b"a:0", b"a:2:2", b"a:-1:2", b"a:x:2", b"a:0:2:3"])
def test_an_invalid_header_is_an_error(value: bytes | None) -> None:
    """Nobody knows what belongs together then: it is not passed over (I7)."""
    with pytest.raises(DecodeError, match=r"aclog\.tx"):
        parse_transaction_header(value)


def test_records_before_an_invalid_header_are_added() -> None:
    """I7: up to there all is known."""
    made = assembler()
    logged = tuple(LogRecord(offset, 0, acl_named("a")) for offset in range(3))
    headers = [None, b"t:0:1", b"t"]
    added, problem = made.add(
        FetchedRecords(logged, range(3), [0] * 3, [0] * 3, [7] * 3, headers.__getitem__)
    )
    assert (added, isinstance(problem, DecodeError)) == (2, True)
    assert spans(made.take(None)) == [(0, 2, 2)]


def test_few_headers_of_a_long_transaction_are_read() -> None:
    """They lie between two of it with as many offsets between them: to look at all would cost a third."""
    count = 500
    made = TransactionAssembler(0, 0, lambda: count)
    headers = [header.encode() for header in map("t:{}:500".format, range(count))]
    read_places: list[int] = []

    def header(place: int) -> bytes:
        read_places.append(place)
        return headers[place]

    logged = tuple(LogRecord(offset, 0, acl_named("a")) for offset in range(count))
    zeros = [0] * count
    assert made.add(FetchedRecords(logged, range(count), zeros, zeros, zeros, header)) == (count, None)
    assert spans(made.take(count)) == [(0, count, count)]
    assert len(read_places) < 15


def test_half_of_a_transaction_is_held_back() -> None:
    """I2: its rest, and what came between, comes with it."""
    made = assembler()
    add(made, 0)
    add(made, 1, "t:0:2")
    assert spans(made.take(2)) == [(0, 1, 1)]
    add(made, 2)
    assert made.blocks_readers
    assert spans(made.take(3)) == []
    add(made, 4, "t:1:2")
    assert spans(made.take(6)) == [(1, 6, 3)]
    assert not made.blocks_readers


def test_a_transaction_whose_last_records_were_compacted_away() -> None:
    """It is complete when the position passes the uncommitted end that the log had at its first record."""
    made = assembler()
    add(made, 1, "t:0:3")
    assert spans(made.take(UNCOMMITTED_END - 1)) == []
    assert spans(made.take(UNCOMMITTED_END)) == [(1, UNCOMMITTED_END, 1)]


def test_a_later_record_shows_the_same() -> None:
    """The record at the bound is beyond the transaction."""
    made = assembler()
    add(made, 1, "t:0:3")
    add(made, UNCOMMITTED_END)
    assert spans(made.take(None)) == [(1, UNCOMMITTED_END + 1, 2)]


def test_a_transaction_whose_first_records_were_compacted_away() -> None:
    """A removal whose record is gone, and the null value left: nothing more of it comes."""
    made = assembler()
    add(made, 3, "t:1:2")
    assert spans(made.take(None)) == [(3, 4, 1)]


def test_markers_at_the_end_belong_to_the_last_batch() -> None:
    """The last stable offset is reached though nothing can be seen there; also with nothing else at all."""
    made = assembler()
    add(made, 0)
    assert spans(made.take(2)) == [(0, 2, 1)]
    (empty,) = made.take(4)
    assert (empty.base_offset, empty.end_offset, empty.records, empty.timestamp_ms) == (2, 4, (), 100)
    assert made.take(4) == []


def test_a_batch_is_of_one_epoch() -> None:
    """And an empty one has the epoch of what is before it, never a later one."""
    made = assembler()
    add(made, 0, epoch=1)
    add(made, 1, epoch=2)
    assert [(batch.end_offset, batch.epoch) for batch in made.take(None)] == [(1, 1), (2, 2)]
    assert [(batch.end_offset, batch.epoch) for batch in made.take(3)] == [(3, 2)]


def test_transaction_markers_of_kraft_frames_have_batches_of_their_own() -> None:
    """What contradicts itself costs one record, not all that were read with it."""
    made = assembler()
    add(made, 0)
    add(made, 1, record=BeginTransactionRecord())
    add(made, 2)
    assert spans(made.take(None)) == [(0, 1, 1), (1, 2, 1), (2, 3, 1)]


def test_runs_are_not_endless() -> None:
    """Single records share batches, up to a size."""
    made = assembler()
    for offset in range(RUN_RECORDS_MAX + 1):
        add(made, offset)
    assert spans(made.take(None)) == [
        (0, RUN_RECORDS_MAX, RUN_RECORDS_MAX),
        (RUN_RECORDS_MAX, RUN_RECORDS_MAX + 1, 1),
    ]


def test_ready_bytes_are_those_that_can_be_taken() -> None:
    """What is held back does not count: a read must go on until there is something."""
    made = assembler()
    add(made, 0)
    assert made.ready_bytes == 7
    add(made, 1, "t:0:2")
    assert made.ready_bytes == 7
    add(made, 2, "t:1:2")
    assert made.ready_bytes == 21
    made.take(None)
    assert made.ready_bytes == 0
