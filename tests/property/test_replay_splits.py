"""Replay of every split into batches, reads, transactions and snapshots: the states are those of the log.

As Kafka's RecordTestUtils: one list of records, every way to split it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from records.entries import MetadataRecord
from records.log_batch import LogBatch
from replay.core import Core
from replay.events import BatchesRead, Fail, LoadedSnapshot, Publish, Recovered, ReportReady
from replay.load_image import load_image
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.digests import digest_of
from support.sim_history import EMPTY_STATE, History, fold, state_of
from support.sim_log import SimLog, batch_of, identity
from support.strategies import record_lists

RECORDS_MAX = 8

records_to_split = record_lists(RECORDS_MAX, with_transactions=True).map(
    lambda records: records[:RECORDS_MAX]
)


def split(records: Sequence[MetadataRecord], cuts: int) -> list[LogBatch]:
    """One split of the records into batches: bit n of ``cuts`` is a cut after record n."""
    count = len(records)
    bounds = [0, *(index for index in range(1, count) if cuts >> (index - 1) & 1), count]
    return [batch_of(records[start:end], start) for start, end in pairwise(bounds) if start < end]


def every_split(records: Sequence[MetadataRecord]) -> Iterator[list[LogBatch]]:
    """All splits of the records into batches."""
    return (split(records, cuts) for cuts in range(1 << max(0, len(records) - 1)))


def all_cuts() -> st.SearchStrategy[int]:
    return st.integers(0, (1 << RECORDS_MAX) - 1)


def cut(batches: list[LogBatch], data: st.DataObject) -> Iterator[list[LogBatch]]:
    """A split of the batches into reads, after an empty read."""
    rest = batches
    size = 0
    while rest:
        yield rest[:size]
        rest = rest[size:]
        size = data.draw(st.integers(1, 3), label="batches in a read")


def history_of(batches: Sequence[LogBatch]) -> History:
    history = History()
    for batch in batches:
        history.add(batch)
    return history


class Driven:
    """A core, and the images that it published."""

    def __init__(self, high_watermark: int, snapshot: AclsImage | None = None) -> None:
        self.core = Core()
        self.published: list[AclsImage] = []
        self.ready_at: int | None = None
        loaded = None
        if snapshot is not None:
            loaded = LoadedSnapshot(image=snapshot, log_end_time_ms=None, origin="snapshot")
        self._take(
            Recovered(
                identity=identity(),
                snapshot=loaded,
                log_start=0,
                high_watermark=high_watermark,
                now_ms=0,
                removal_retention_ms=None,
            )
        )

    def read(self, batches: list[LogBatch], high_watermark: int) -> None:
        self._take(BatchesRead(batches=batches, high_watermark=high_watermark, now_ms=0))

    def _take(self, event: Recovered | BatchesRead) -> None:
        for effect in self.core.step(event):
            assert not isinstance(effect, Fail), effect
            if isinstance(effect, Publish):
                self.published.append(effect.image)
            if isinstance(effect, ReportReady):
                self.ready_at = self.core.position


@given(records=records_to_split)
def test_every_split_into_batches_ends_in_the_same_state(records: list[MetadataRecord]) -> None:
    """I1, I2, I12: one read for each batch, so that every visible state is compared."""
    end_offset = len(records)
    expected = history_of([batch_of([record], offset) for offset, record in enumerate(records)])
    for batches in every_split(records):
        driven = Driven(0)
        for batch in batches:
            driven.read([batch], end_offset)
        last = driven.published[-1]
        if not expected.in_transaction:
            assert state_of(last) == expected.last_state
            assert last.provenance.end_offset == end_offset
        assert last.digest == digest_of(acl.record for acl in last)
        # A node publishes exactly the states at the ends of batches outside of transactions.
        states = history_of(batches).states
        assert {image.provenance.end_offset: state_of(image) for image in driven.published} == states


@given(records=records_to_split, cuts=all_cuts(), data=st.data())
def test_every_split_into_reads_shows_only_states_of_the_log(
    records: list[MetadataRecord], cuts: int, data: st.DataObject
) -> None:
    """I2, I4: offsets increase, nothing is published before the target, and the last state is the same."""
    batches = split(records, cuts)
    states = history_of(batches).states
    # The high watermark is always the end of a batch.
    target = data.draw(st.sampled_from([0, *(batch.end_offset for batch in batches)]), label="target")
    driven = Driven(target)
    for read in cut(batches, data):
        assert (not driven.published) == (driven.core.position < target)
        assert driven.core.ready == bool(driven.published)
        driven.read(read, len(records))
    ends = [image.provenance.end_offset for image in driven.published]
    assert ends == sorted(set(ends))
    assert driven.ready_at is not None
    assert driven.ready_at >= target
    assert all(state_of(image) == states[image.provenance.end_offset] for image in driven.published)
    assert ends[-1] == max(states)


@given(records=records_to_split, cuts=all_cuts(), data=st.data())
def test_a_snapshot_and_the_tail_equal_the_full_log(
    records: list[MetadataRecord], cuts: int, data: st.DataObject
) -> None:
    """I5: from every published state, also if the log still has the records below it."""
    batches = split(records, cuts)
    whole = Driven(0)
    for batch in batches:
        whole.read([batch], len(records))
    last = whole.published[-1]
    for snapshot in whole.published:
        driven = Driven(len(records), snapshot)
        below = data.draw(st.booleans(), label="read from the start")
        tail = [batch for batch in batches if below or batch.end_offset > snapshot.provenance.end_offset]
        driven.read(tail, len(records))
        assert state_of(driven.published[-1]) == state_of(last)
        assert driven.published[-1].digest == last.digest
        assert driven.published[-1].provenance == last.provenance


@given(records=records_to_split, cuts=all_cuts())
def test_load_image_gives_the_state_at_every_offset(records: list[MetadataRecord], cuts: int) -> None:
    """Records up to the offset count, except those of a transaction that is open there."""
    log = SimLog()
    for batch in split(records, cuts):
        log.append(records[batch.base_offset : batch.end_offset])
    by_record = history_of([batch_of([record], offset) for offset, record in enumerate(records)]).states
    for offset in range(len(records)):
        settled = max(end for end in by_record if end <= offset + 1)
        assert state_of(load_image(log, at_offset=offset).image) == by_record[settled]


@given(
    records=record_lists(RECORDS_MAX * 3),
    forget=st.booleans(),
    before=st.integers(0, RECORDS_MAX * 3),
    compacted=st.integers(0, RECORDS_MAX * 3),
    data=st.data(),
)
def test_compaction_ahead_of_the_reader_is_not_visible(
    records: list[MetadataRecord], forget: bool, before: int, compacted: int, data: st.DataObject
) -> None:
    """I6: with a compaction between two reads the core publishes only states of the log, finally the last."""
    log = SimLog()
    for record in records:
        log.append([record])
    driven = Driven(0)
    driven.read(log.batches[:before], log.high_watermark())
    log.compact(compacted, now_ms=0)
    if forget and before >= compacted:
        # Compaction may remove records that the reader has read; while I10 holds, it keeps the unread ones.
        log.compact(compacted, now_ms=1)
    while driven.core.position < log.high_watermark():
        size = data.draw(st.integers(1, 4), label="batches in a read")
        driven.read(log.read(driven.core.position)[:size], log.high_watermark())
    states = log.history.states
    assert all(state_of(image) == states[image.provenance.end_offset] for image in driven.published)
    assert state_of(driven.published[-1]) == log.history.last_state
    # A new reader sees only the last state, or nothing.
    late = Driven(log.high_watermark())
    late.read(log.read(0), log.high_watermark())
    assert [state_of(image) for image in late.published] == [log.history.last_state]


@given(before=record_lists(), after=record_lists())
def test_the_delta_between_two_images_gives_the_second(
    before: list[MetadataRecord], after: list[MetadataRecord]
) -> None:
    """AclsDelta.between any two images gives the second, with digest, features and offsets."""
    old, new = (Driven(0), Driven(0))
    for driven, records, start in ((old, before, 0), (new, after, 0)):
        if records:
            driven.read([batch_of(records, start)], len(records))
    first, second = old.published[-1], new.published[-1]
    delta = AclsDelta.between(first, second)
    led = delta.apply(second.provenance)
    assert state_of(led) == state_of(second) == fold(after, EMPTY_STATE)
    assert (led.digest, len(led)) == (second.digest, len(second))
    assert {acl.record.id: acl for acl in led} == {acl.record.id: acl for acl in second}
    counts = delta.counts
    assert len(first) + counts.added - counts.removed == len(second)
