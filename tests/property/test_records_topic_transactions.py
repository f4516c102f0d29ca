"""records.log.topic.transactions: whatever is interleaved, compacted away and read in parts.

Nothing incomplete is visible, and nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from records.log.topic.transactions import Assembler, transaction_headers
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
    sizes = draw(st.lists(st.integers(1, 4), max_size=6))
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
    made = Assembler(0, 0, lambda: len(log.entries))
    given_: list[list[LogBatch]] = []
    seen = 0
    for look in looks:
        for entry in log.entries[seen:look]:
            if entry.record and entry.offset not in log.removed:
                made.add(LogRecord(entry.offset, 0, acl_named("a")), 0, 1, entry.header)
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
