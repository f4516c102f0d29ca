"""records.log.topic.transaction_assembler: whatever is interleaved, compacted away and read in parts.

Nothing incomplete is visible, and nothing is lost.
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
    #: Last stable offsets at which the reader looked, ascending; the last one is the log's end.
    looks: tuple[int, ...]


@st.composite
def logs(draw: st.DrawFn) -> Log:
    sizes = draw(st.lists(st.integers(1, 9), max_size=6))
    left = {
        number: list(enumerate(transaction_headers(f"{number:x}", size))) for number, size in enumerate(sizes)
    }
    entries: list[Entry] = []
    first: dict[int, int] = {}
    ends: dict[int, int] = {}
    while True:
        if not left and not draw(st.booleans()):
            break
        offset = len(entries)
        number = draw(st.sampled_from([*left, None]))
        if number is None:
            entries.append(Entry(offset, None, None, draw(st.booleans())))
            if not left:
                break
        elif left[number]:
            _, header = left[number].pop(0)
            first.setdefault(number, offset)
            entries.append(Entry(offset, number, header, record=True))
        else:
            del left[number]
            ends[number] = offset
            entries.append(Entry(offset, number, None, record=False))
    end = len(entries)
    # The last stable offset at any time is the end, or where the first open transaction begins.
    stable = {end}
    for at in range(end + 1):
        opened = [begin for number, begin in first.items() if begin < at <= ends[number]]
        stable.add(min([at, *opened]))
    looks = sorted(draw(st.sets(st.sampled_from(sorted(stable)))) | {end})
    removed = draw(st.sets(st.integers(0, max(0, end - 1)))) if draw(st.booleans()) else set()
    return Log(tuple(entries), frozenset(removed), tuple(looks))


def read(log: Log, looks: tuple[int, ...]) -> list[list[LogBatch]]:
    """What each look gives."""
    made = TransactionAssembler(0, 0, lambda: len(log.entries))
    given_: list[list[LogBatch]] = []
    seen = 0
    for look in looks:
        for entry in log.entries[seen:look]:
            if entry.record and entry.offset not in log.removed:
                logged = LogRecord(entry.offset, 0, acl_named("a"))
                made.add(FetchedRecords((logged,), [entry.offset], [0], [0], [1], [entry.header].__getitem__))
        seen = look
        given_.append(made.take(look))
    return given_


@given(logs())
def test_every_split_gives_all_in_order_and_nothing_incomplete(log: Log) -> None:
    """I2: each batch's end has no transaction of which more is still to come; batches follow one another."""
    end = len(log.entries)
    kept = [entry for entry in log.entries if entry.record and entry.offset not in log.removed]
    for looks in (log.looks, (end,)):
        reads = read(log, looks)
        batches = [batch for each in reads for batch in each]
        assert [record.offset for batch in batches for record in batch.records] == [e.offset for e in kept]
        position = 0
        for batch in batches:
            assert position <= batch.base_offset
            assert batch.end_offset > position
            position = batch.end_offset
            before = {entry.transaction for entry in kept if entry.offset < position} - {None}
            after = {entry.transaction for entry in kept if entry.offset >= position} - {None}
            assert not before & after
        assert position == end
        for look, each in zip(looks, reads, strict=True):
            assert all(batch.end_offset <= look for batch in each)


@given(logs(), st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=6), st.data())
def test_many_records_at_once_are_one_after_another(
    log: Log, parts: list[tuple[int, bool]], data: st.DataObject
) -> None:
    """Whatever is fetched together, decoded by column or not, with markers and leaders that change."""
    kept = [entry for entry in log.entries if entry.record and entry.offset not in log.removed]
    any_of: list[MetadataRecord] = [acl_named("a"), acl_named("b"), BeginTransactionRecord()]
    records = [data.draw(st.sampled_from(any_of)) for _ in kept]
    epochs = sorted(data.draw(st.lists(st.integers(0, 2), min_size=len(kept), max_size=len(kept))))
    values = [encode_frame(record) for record in records]
    bounds = sorted({0, len(kept), *(min(at, len(kept)) for at, _ in parts)})
    by_column = [is_by_column for _, is_by_column in parts] + [False] * len(bounds)

    def fetched(first: int, end: int, columns_from: int) -> FetchedRecords:
        offsets, rows = [entry.offset for entry in kept[first:end]], slice(first, end)
        times = [1000 - offset for offset in offsets]
        found, problem = decode_messages(
            [None] * (end - first), values[rows], offsets, times, columns_from=columns_from
        )
        assert problem is None
        headers = [entry.header for entry in kept[rows]]
        return FetchedRecords(
            found, offsets, times, epochs[rows], [len(value) for value in values[rows]], headers.__getitem__
        )

    at_once, by_one = (TransactionAssembler(0, 0, lambda: len(log.entries)) for _ in range(2))
    for (first, end), is_by_column in zip(pairwise(bounds), by_column, strict=False):
        assert at_once.add(fetched(first, end, 0 if is_by_column else 1000)) == (end - first, None)
        for place in range(first, end):
            assert by_one.add(fetched(place, place + 1, 1000)) == (1, None)
        assert (at_once.ready_bytes, at_once.first_offset) == (by_one.ready_bytes, by_one.first_offset)
        assert at_once.blocks_readers == by_one.blocks_readers
        if data.draw(st.booleans()):
            assert_same_but_for_cuts(at_once.take(None), by_one.take(None))
    assert_same_but_for_cuts(at_once.take(len(log.entries)), by_one.take(len(log.entries)))


def assert_same_but_for_cuts(at_once: list[LogBatch], by_one: list[LogBatch]) -> None:
    """Whole transactions that are fetched together may share a batch; it ends where one of theirs does."""
    assert {(batch.end_offset, batch.epoch) for batch in at_once} <= {
        (batch.end_offset, batch.epoch) for batch in by_one
    }
    rest = iter(by_one)
    for batch in at_once:
        parts = [next(rest)]
        while parts[-1].end_offset < batch.end_offset:
            parts.append(next(rest))
        assert batch.base_offset == parts[0].base_offset
        assert tuple(batch.records) == tuple(record for part in parts for record in part.records)
        if batch.records:
            assert batch.timestamp_ms == max(part.timestamp_ms for part in parts if part.records)
        assert batch.size_bytes == sum(part.size_bytes for part in parts)
    assert not [*rest]
