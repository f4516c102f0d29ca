"""replay.load_image: the state at an offset, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from records.entries import BeginTransactionRecord, EndTransactionRecord, MetadataRecord
from records.errors import DecodeError
from records.log.base import READ_BYTES_MAX
from records.log_batch import LogBatch
from replay.errors import LogChangedError, LogGapError, OffsetUnavailableError, ReplayError
from replay.load_image import LoadResult, load_image
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from support.sim_log import SimLog, identity
from support.sim_scenario import acl_named, removal_of
from support.sim_store import SimSnapshot, SimStore


def names(result: LoadResult) -> list[str]:
    return sorted(acl.record.resource_name for acl in result.image)


def snapshot_at(end_offset: int, *held: str, **changed: Any) -> SimSnapshot:
    delta = AclsDelta(AclsImage.EMPTY)
    for acl in load_image_of(*held):
        delta.put(acl)
    image = delta.apply(Provenance(end_offset, 1, 0))
    return SimSnapshot(identity(), image, 0, **changed)


def load_image_of(*held: str) -> AclsImage:
    log = SimLog()
    if held:
        log.append([acl_named(name) for name in held])
    return load_image(log).image


def log_of(*batches: str) -> SimLog:
    """Each batch as words: ``+a -b begin end``."""
    log = SimLog()
    for batch in batches:
        log.append([_record(word) for word in batch.split()])
    return log


def _record(word: str) -> MetadataRecord:
    match word:
        case "begin":
            return BeginTransactionRecord()
        case "end":
            return EndTransactionRecord()
        case _:
            return acl_named(word[1:]) if word[0] == "+" else removal_of(word[1:])


def test_the_state_at_the_high_watermark() -> None:
    """Uncommitted records do not count; how it came about is reported."""
    log = log_of("+a +b", "-a", "+c")
    log.append_uncommitted([acl_named("d")])
    result = load_image(log)
    assert names(result) == ["b", "c"]
    assert result.image.provenance.end_offset == 4
    assert (result.origin, result.refused) == ("the log's start", ())
    assert (result.manifest.batches, result.manifest.records) == (3, 4)
    assert result.uncommitted_from is None


def test_the_state_of_an_empty_log() -> None:
    """It has one."""
    assert len(load_image(SimLog()).image) == 0


@pytest.mark.parametrize(
    ("at_offset", "expected", "end_offset"),
    [
        (0, ["a"], 1),
        (1, ["a", "b"], 2),
        (2, ["b"], 3),
        (3, ["b"], 3),
        (4, ["b"], 3),
        (5, ["b", "c"], 6),
        (6, ["b", "c", "d"], 7),
    ],
)
def test_the_state_after_one_record(at_offset: int, expected: list[str], end_offset: int) -> None:
    """Inclusive; within a batch to the letter, and records of an open transaction do not count."""
    log = log_of("+a +b", "-a", "begin", "+c end", "+d +e")
    result = load_image(log, at_offset=at_offset)
    assert (names(result), result.image.provenance.end_offset) == (expected, end_offset)


def test_what_precedes_a_transaction_in_its_batch_counts() -> None:
    """To the letter, again: a node would wait with it until the transaction has ended."""
    log = log_of("+a begin +b", "+c end +d begin")
    assert [names(load_image(log, at_offset=offset)) for offset in range(7)] == [
        ["a"],
        ["a"],
        ["a"],
        ["a"],
        ["a", "b", "c"],
        ["a", "b", "c", "d"],
        ["a", "b", "c", "d"],
    ]
    assert names(load_image(log)) == []


@pytest.mark.parametrize("at_offset", [3, 100])
def test_an_offset_beyond_the_log_is_refused(at_offset: int) -> None:
    """The error says what the last one is."""
    with pytest.raises(OffsetUnavailableError, match="the log's last offset is 2") as caught:
        load_image(log_of("+a", "+b +c"), at_offset=at_offset)
    assert caught.value.offset == at_offset


def test_no_offset_is_in_an_empty_log() -> None:
    """Not even the first."""
    with pytest.raises(OffsetUnavailableError, match="no state at offset 0: the log is empty"):
        load_image(SimLog(), at_offset=0)


def test_a_snapshot_saves_the_replay_of_what_is_below_it() -> None:
    """The newest that is early enough; later ones are not mentioned, unusable ones are."""
    log = log_of("+a", "+b", "+c", "+d", "+e")
    store = SimStore()
    store.snapshots += [
        snapshot_at(2, "a", "b"),
        snapshot_at(3, "a", "b", "c", damage="part 0 is missing"),
        snapshot_at(5, "a", "b", "c", "d", "e"),
    ]
    result = load_image(log, [store], at_offset=3)
    assert names(result) == ["a", "b", "c", "d"]
    assert (result.origin, result.manifest.records) == ("snapshot 2-1", 2)
    assert result.refused == ("snapshot 3-1: part 0 is missing",)


def test_a_log_without_its_start_is_refused() -> None:
    """Without an offset: nothing covers its start."""
    log = log_of("+a", "+b", "+c")
    log.trim(2)
    with pytest.raises(LogGapError, match="log starts at 2 and no snapshot covers it"):
        load_image(log)


def test_an_offset_before_the_earliest_state_is_refused() -> None:
    """The error names the earliest one that something does lead to."""
    log = log_of("+a", "+b", "+c", "+d", "+e", "+f")
    log.trim(3)
    store = SimStore()
    store.snapshots += [snapshot_at(2, "a", "b"), snapshot_at(5, "a", "b", "c", "d", "e")]
    with pytest.raises(OffsetUnavailableError, match="the earliest offset is 4"):
        load_image(log, [store], at_offset=3)
    assert names(load_image(log, [store], at_offset=4)) == ["a", "b", "c", "d", "e"]
    with pytest.raises(
        OffsetUnavailableError, match=r"log starts at 3, and no snapshot reaches back that far$"
    ):
        load_image(log, at_offset=3)


def test_a_snapshot_that_ends_with_the_very_offset_needs_no_log() -> None:
    """Even where the log no longer reaches back to it."""
    log = log_of("+a", "+b", "+c", "+d")
    log.trim(3)
    store = SimStore()
    store.snapshots.append(snapshot_at(2, "a", "b"))
    assert names(load_image(log, [store], at_offset=1)) == ["a", "b"]


def test_an_undecodable_record_is_raised() -> None:
    """I7: raised, if it is needed for the answer."""
    log = log_of("+a", "+b", "+c")
    log.damage(1)
    with pytest.raises(DecodeError, match="CRC does not fit"):
        load_image(log)
    assert names(load_image(log, at_offset=0)) == ["a"]


def test_an_inconsistent_log_is_an_error() -> None:
    """An End without a Begin is raised with its offset."""
    with pytest.raises(ReplayError, match=r"ends that never began \(offset 1\)"):
        load_image(log_of("+a", "end"))


def test_a_compacted_log_has_no_state_within_a_gap() -> None:
    """I6: what is missing may count there. At its end it has one."""
    log = log_of("+a", "+b", "-a", "+c")
    log.compact(3)
    with pytest.raises(OffsetUnavailableError, match="the state is known again at 3"):
        load_image(log, at_offset=1)
    assert names(load_image(log)) == ["b", "c"]
    assert names(load_image(log, at_offset=3)) == ["b", "c"]


def test_a_snapshot_made_past_a_gap_has_a_state_where_the_gap_is_closed() -> None:
    """I6: not at its own end. The error names the first offset that it leads to."""
    log = log_of("+a", "+b", "-a", "+c", "+d")
    log.compact(3)
    store = SimStore()
    store.snapshots.append(snapshot_at(2, "b", gap_until=4))
    for offset in (1, 2):
        with pytest.raises(OffsetUnavailableError):
            load_image(log, [store], at_offset=offset)
    assert names(load_image(log, [store], at_offset=3)) == ["b", "c"]
    assert names(load_image(log, [store])) == ["b", "c", "d"]
    log.trim(2)
    with pytest.raises(OffsetUnavailableError, match="the earliest offset is 3"):
        load_image(log, [store], at_offset=2)


def test_progress_is_reported() -> None:
    """After each read: how far, of how much."""

    class OneByOne(SimLog):
        def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
            return super().read(offset, max_bytes=1)

    log = OneByOne()
    for name in "abc":
        log.append([acl_named(name)])
    seen: list[tuple[int, int]] = []
    load_image(log, on_progress=lambda *progress: seen.append(progress))
    assert seen == [(1, 3), (2, 3), (3, 3)]


class Meddled(SimLog):
    """Before some of its reads, counted from 1, something happens to it."""

    def __init__(self, names: str) -> None:
        super().__init__()
        self.reads = 0
        self.before: dict[int, Callable[[], None]] = {}
        for name in names:
            self.append([acl_named(name)])

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        self.reads += 1
        self.before.get(self.reads, lambda: None)()
        return super().read(offset, max_bytes=1)


@pytest.mark.parametrize("read", [2, 3])
def test_a_log_that_is_truncated_meanwhile_is_read_anew(read: int) -> None:
    """Whether what was to be read next is its end now, or beyond it: no mixture, and no error."""
    log = Meddled("abc")
    log.before[read] = lambda: log.truncate(1)
    assert names(load_image(log)) == ["a"]


def test_a_log_that_is_trimmed_meanwhile_is_read_anew() -> None:
    """Snapshots were looked for before: there is a newer one now that leads to what is left."""
    log, store = Meddled("abcd"), SimStore()

    def trim() -> None:
        store.snapshots.append(snapshot_at(3, "a", "b", "c"))
        log.trim(3)

    log.before[2] = trim
    assert names(load_image(log, [store])) == ["a", "b", "c", "d"]


def test_a_log_that_is_changed_all_the_time_is_not_read_for_ever() -> None:
    """It may go well later: that is no damage."""
    log = Meddled("a" * 40)
    log.before = {read: lambda: log.truncate(log.high_watermark() - 1) for read in range(1, 1000)}
    with pytest.raises(LogChangedError, match="truncated"):
        load_image(log)
