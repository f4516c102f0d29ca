"""The transaction assembler of a topic log, with interleaved, compacted and partially fetched transactions.

No incomplete transaction is visible, and no record is lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from records.codecs.kraft import encode_frame
from records.entries import BeginTransactionRecord, MetadataRecord
from records.log.topic.codec import decode_messages
from records.log.topic.transaction_assembler import FetchedRecords, TransactionAssembler, transaction_headers
from records.log_batch import LogBatch, LogRecord
from support.sim_scenario import acl_named


@dataclass(frozen=True)
class Entry:
    """One offset: a record of a transaction (None: without a header), or a marker (``record`` is False)."""

    offset: int
    transaction: int | None
    header: bytes | None
    record: bool


@dataclass(frozen=True)
class Log:
    entries: tuple[Entry, ...]
    #: Offsets that compaction removed.
    removed: frozenset[int]
    #: Last stable offsets at which the reader polled, ascending; the last one is the log's end.
    polls: tuple[int, ...]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    sizes = draw(st.lists(st.integers(1, 9), max_size=6))
    unwritten = {
        number: list(enumerate(transaction_headers(f"{number:x}", size))) for number, size in enumerate(sizes)
    }
    entries: list[Entry] = []
    first: dict[int, int] = {}
    ends: dict[int, int] = {}
    while True:
        if not unwritten and not draw(st.booleans()):
            break
        offset = len(entries)
        number = draw(st.sampled_from([*unwritten, None]))
        if number is None:
            entries.append(Entry(offset, None, None, draw(st.booleans())))
            if not unwritten:
                break
        elif unwritten[number]:
            _, header = unwritten[number].pop(0)
            first.setdefault(number, offset)
            entries.append(Entry(offset, number, header, record=True))
        else:
            del unwritten[number]
            ends[number] = offset
            entries.append(Entry(offset, number, None, record=False))
    end = len(entries)
    # The last stable offset is the end, or the start of the first open transaction.
    stable = {end}
    for at in range(end + 1):
        opened = [begin for number, begin in first.items() if begin < at <= ends[number]]
        stable.add(min([at, *opened]))
    polls = sorted(draw(st.sets(st.sampled_from(sorted(stable)))) | {end})
    removed = draw(st.sets(st.integers(0, max(0, end - 1)))) if draw(st.booleans()) else set()
    return Log(tuple(entries), frozenset(removed), tuple(polls))


def read(log: Log, polls: tuple[int, ...]) -> list[list[LogBatch]]:
    """The batches of each poll."""
    assembler = TransactionAssembler(0, 0, lambda: len(log.entries))
    results: list[list[LogBatch]] = []
    seen = 0
    for poll in polls:
        for entry in log.entries[seen:poll]:
            if entry.record and entry.offset not in log.removed:
                logged = LogRecord(entry.offset, 0, acl_named("a"))
                assembler.add(
                    FetchedRecords((logged,), [entry.offset], [0], [0], [1], [entry.header].__getitem__)
                )
        seen = poll
        results.append(assembler.take(poll))
    return results


@given(logs())
def test_polls_give_complete_transactions_in_order(log: Log) -> None:
    """I2: no transaction continues beyond a batch's end, and batches are contiguous."""
    end = len(log.entries)
    present = [entry for entry in log.entries if entry.record and entry.offset not in log.removed]
    for polls in (log.polls, (end,)):
        reads = read(log, polls)
        batches = [batch for each in reads for batch in each]
        assert [record.offset for batch in batches for record in batch.records] == [e.offset for e in present]
        position = 0
        for batch in batches:
            assert position <= batch.base_offset
            assert batch.end_offset > position
            position = batch.end_offset
            before = {entry.transaction for entry in present if entry.offset < position} - {None}
            after = {entry.transaction for entry in present if entry.offset >= position} - {None}
            assert not before & after
        assert position == end
        for poll, each in zip(polls, reads, strict=True):
            assert all(batch.end_offset <= poll for batch in each)


@given(logs(), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6), st.data())
def test_records_added_together_equal_records_added_singly(
    log: Log, parts: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """In any grouping, decoded by column or singly, with markers and leader changes."""
    present = [entry for entry in log.entries if entry.record and entry.offset not in log.removed]
    any_of: list[MetadataRecord] = [acl_named("a"), acl_named("b"), BeginTransactionRecord()]
    records = [data.draw(st.sampled_from(any_of)) for _ in present]
    epochs = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(present), max_size=len(present))))
    values = [encode_frame(record) for record in records]
    bounds = sorted({0, len(present), *(min(at, len(present)) for at, _ in parts)})
    by_column = [is_by_column for _, is_by_column in parts] + [False] * len(bounds)

    def fetched_records(first: int, end: int, columns_from: int) -> FetchedRecords:
        offsets, rows = [entry.offset for entry in present[first:end]], slice(first, end)
        times = [1000 - offset for offset in offsets]
        found, problem = decode_messages(
            [None] * (end - first), values[rows], offsets, times, columns_from=columns_from
        )
        assert problem is None
        headers = [entry.header for entry in present[rows]]
        return FetchedRecords(
            found, offsets, times, epochs[rows], [len(value) for value in values[rows]], headers.__getitem__
        )

    together, by_one = (TransactionAssembler(0, 0, lambda: len(log.entries)) for _ in range(2))
    for (first, end), is_by_column in zip(pairwise(bounds), by_column, strict=False):
        assert together.add(fetched_records(first, end, 0 if is_by_column else 1000)) == (end - first, None)
        for place in range(first, end):
            assert by_one.add(fetched_records(place, place + 1, 1000)) == (1, None)
        assert (together.ready_bytes, together.first_offset) == (by_one.ready_bytes, by_one.first_offset)
        assert together.blocks_readers == by_one.blocks_readers
        if data.draw(st.booleans()):
            assert_same_but_for_cuts(together.take(None), by_one.take(None))
    assert_same_but_for_cuts(together.take(len(log.entries)), by_one.take(len(log.entries)))


def assert_same_but_for_cuts(together: list[LogBatch], by_one: list[LogBatch]) -> None:
    """Complete transactions that are added together may share a batch, which ends where one of them ends."""
    assert {(batch.end_offset, batch.epoch) for batch in together} <= {
        (batch.end_offset, batch.epoch) for batch in by_one
    }
    rest = iter(by_one)
    for batch in together:
        parts = [next(rest)]
        while parts[-1].end_offset < batch.end_offset:
            parts.append(next(rest))
        assert batch.base_offset == parts[0].base_offset
        assert tuple(batch.records) == tuple(record for part in parts for record in part.records)
        if batch.records:
            assert batch.timestamp_ms == max(part.timestamp_ms for part in parts if part.records)
        assert batch.size_bytes == sum(part.size_bytes for part in parts)
    assert not [*rest]
