"""The base of a batch: the newest stored state that its log continues."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from records.errors import LogStorageError
from records.ids import Uuid
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from snapshot.delta import AclsDelta
from snapshot.errors import SnapshotError, SparkJobError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.planning.first_offsets import FIRST_OFFSETS_NAME, read_first_offsets
from snapshot.jobs.planning.log_states import (
    BaseSearch,
    LogStates,
    NextState,
    choose_starts,
    freshen_states,
    search_bases,
    view_states,
)
from snapshot.jobs.sources.log_failures import LogFailures, answered
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.store.manifest import SnapshotManifest
from snapshot.store.snapshot_store import SnapshotStore
from support.sim_log import SimLog, identity
from support.sim_scenario import acl_named

NOW_MS = 1_000_000_000
DAY_MS = 86_400_000
MINUTE_MS = 60_000


class CompactedLog(SimLog):
    """A log that forgets removals after a day, and shows what is committed before everything below it is."""

    def __init__(self) -> None:
        super().__init__()
        self.removal_retention_ms = DAY_MS

    def log_end_offset(self) -> int:
        return self.end_offset


class World:
    """A log of ten records, one a batch, and a store."""

    def __init__(self, log: SimLog | None = None) -> None:
        self.log = log or SimLog()
        for number in range(10):
            self.log.append([acl_named("abcdefghij"[number])])
        self.store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
        self.now_ms = NOW_MS
        followed = cast("FollowedLog", self)
        self.states = LogStates(followed, self.store, lambda: self.now_ms)

    # What LogStates asks a FollowedLog for.
    url = "file:sim-log"
    identity: LogIdentity = identity()
    is_of_fleet = False

    def open(self) -> SimLog:
        return self.log

    def snapshot(
        self, end: int, epoch: int = 1, *, log_end_time_ms: int = NOW_MS, gap_until: int = 0
    ) -> SnapshotManifest:
        image = AclsDelta(AclsImage.EMPTY).apply(Provenance(end, epoch, 0))
        ref = self.store.write(image, self.identity, log_end_time_ms=log_end_time_ms, keep=99)
        manifest = self.store.read(ref).manifest
        if gap_until:
            manifest = replace(manifest, gap_until=gap_until)
            self.store._storage.put(ref.file("manifest.json"), manifest.to_json())
        return manifest

    def next_state(self, end: int, *, end_time_ms: int | None = None) -> NextState:
        state = self.planned(end, end_time_ms=end_time_ms)
        assert state is not None
        return state

    def planned(self, end: int, *, end_time_ms: int | None = None) -> NextState | None:
        return self.states.next_state(self.search(end), end_time_ms=end_time_ms)

    def search(self, end: int) -> BaseSearch:
        return answered(search_bases({self.states: end})[self.states])

    def freshen(self) -> None:
        freshen_states([self.states])

    def gap_until(self, end: int) -> int:
        (view,) = view_states([self.states])
        return self.states.gap_until(end, answered(view))

    def choose_starts(self) -> dict[str, int]:
        states = {self.identity.cluster_id: self.states}
        return choose_starts(states, LogFailures(is_collecting=False), keep=3)

    def base_end(self, end: int) -> int | None:
        base = self.next_state(end).base
        return None if base is None else base.provenance.end_offset


def test_without_a_stored_state_a_batch_begins_with_nothing() -> None:
    """As long as the log still has its start; and what stands there says where in the log that is."""
    world = World()
    state = world.next_state(10)
    assert (state.base, state.before) == (None, None)
    world.log.trim(3)
    with pytest.raises(
        SparkJobError, match=r"file:sim-log starts at offset 3, and memory.* has no snapshot that can"
    ):
        world.next_state(10)


def test_the_newest_state_up_to_the_end_is_taken() -> None:
    """Later ones are a node's that is ahead."""
    world = World()
    for end in (2, 4, 7):
        world.snapshot(end)
    assert [world.base_end(end) for end in (3, 5, 6, 9)] == [2, 4, 4, 7]
    assert world.planned(7) is None


def test_a_state_before_the_logs_start_is_not_used() -> None:
    """I11: what came between the two is gone."""
    world = World()
    world.snapshot(4)
    world.log.trim(5)
    with pytest.raises(SparkJobError, match="starts at offset 5"):
        world.next_state(8)
    world.snapshot(5)
    assert world.base_end(8) == 5


def test_a_state_of_a_truncated_history_is_not_used() -> None:
    """I9, I11: the log has another epoch there."""
    world = World()
    world.snapshot(3)
    world.snapshot(8)
    world.log.truncate(4)
    for name in "uvwxyz":
        world.log.append([acl_named(name)])
    assert world.base_end(9) == 3


def test_a_damaged_state_is_skipped() -> None:
    """The one before it is good enough."""
    world = World()
    world.snapshot(3)
    ref = world.snapshot(6).ref
    world.store._storage.put(ref.file("manifest.json"), b"{}")
    assert world.base_end(9) == 3


def test_a_state_with_a_damaged_part_is_skipped() -> None:
    """Though its size is right: executors would fail on it again and again."""
    world = World()
    world.snapshot(3)
    image = AclsDelta(AclsImage.EMPTY)
    image.replay(LogRecord(5, 5, acl_named("f")))
    ref = world.store.write(image.apply(Provenance(6, 1, 0)), world.identity, log_end_time_ms=0, keep=9)
    (part,) = world.store.read(ref).manifest.parts
    world.store._storage.put(ref.file(part.name), bytes(part.bytes))
    assert world.base_end(9) == 3


def test_an_outdated_state_is_only_compared_with() -> None:
    """I10: the log may have forgotten removals since; everything is read again."""
    world = World(CompactedLog())
    world.snapshot(3, log_end_time_ms=NOW_MS - DAY_MS)
    stale = world.snapshot(6, log_end_time_ms=NOW_MS - DAY_MS // 2)
    state = world.next_state(9)
    assert (state.base, state.before) == (None, stale)
    world.now_ms -= 1
    assert world.next_state(9).base == stale
    everlasting = World()
    everlasting.snapshot(6, log_end_time_ms=0)
    assert everlasting.base_end(9) == 6


def test_a_stale_state_at_the_batchs_end_is_that_batchs() -> None:
    """The program ended between its manifest and Spark's commit, long ago: what it wrote counts."""
    world = World(CompactedLog())
    world.snapshot(7, log_end_time_ms=NOW_MS - DAY_MS)
    assert world.planned(7) is None


def test_a_state_made_past_a_gap_needs_what_the_gap_may_hide() -> None:
    """I6: where the log does not reach there any more, it was truncated."""
    world = World(CompactedLog())
    world.snapshot(6, gap_until=11)
    assert world.base_end(9) is None
    world.log.append_uncommitted([acl_named("k")])
    assert world.base_end(9) == 6


def test_the_log_is_still_the_one_that_is_followed() -> None:
    """A topic that was made anew, or truncated, ends the job."""
    world = World()
    with pytest.raises(
        SparkJobError, match="the log was truncated: it ends at offset 10, but the next one to read is 12"
    ):
        world.next_state(12)
    world.log.replace(LogIdentity("sim-cluster", Uuid(b"n" * 16)))
    with pytest.raises(SparkJobError, match="deleted and created again: the job follows topic id"):
        world.next_state(10)


def test_the_time_of_the_batchs_end_is_known() -> None:
    """I10: now; when Spark planned the batch; else when the state before was; else when reading began."""
    world = World(CompactedLog())
    assert world.next_state(10, end_time_ms=5).log_end_time_ms == NOW_MS
    assert world.next_state(9, end_time_ms=NOW_MS - 5).log_end_time_ms == NOW_MS - 5
    assert world.next_state(9).log_end_time_ms == NOW_MS
    world.snapshot(3, log_end_time_ms=NOW_MS - 70)
    assert world.next_state(9).log_end_time_ms == NOW_MS - 70
    assert world.next_state(9, end_time_ms=NOW_MS - 90).log_end_time_ms == NOW_MS - 70


def test_a_gap_may_hide_records_up_to_the_end() -> None:
    """Up to the end of everything, as it is once the rows were read; only where a log compacts."""
    world = World(CompactedLog())
    assert world.gap_until(10) == 0
    world.log.append_uncommitted([acl_named("k")])
    assert (world.gap_until(10), world.gap_until(11)) == (11, 0)
    assert World().gap_until(5) == 0
    world.log.replace(LogIdentity("sim-cluster", Uuid(b"n" * 16)))
    with pytest.raises(SparkJobError, match="deleted and created again"):
        world.gap_until(10)


def test_the_state_of_an_idle_log_is_refreshed() -> None:
    """I10: only the newest, only at the log's end, and once a minute."""
    for log in (CompactedLog(), SimLog()):
        world = World(log)
        world.snapshot(4)
        newest = world.snapshot(10)
        world.freshen()
        assert world.store.read(newest.ref).manifest == newest
        world.now_ms += MINUTE_MS
        world.freshen()
        fresh = replace(newest, log_end_time_ms=world.now_ms)
        assert world.store.read(newest.ref).manifest == fresh
        world.now_ms += MINUTE_MS - 1
        world.freshen()
        assert world.store.read(newest.ref).manifest == fresh
        world.log.append([acl_named("k")])
        world.now_ms += 1
        world.freshen()
        assert world.store.read(newest.ref).manifest == fresh


def test_a_state_that_is_up_to_date_costs_no_request_to_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that begins, or has just stored it, does not open the logs that have nothing new."""
    world = World(CompactedLog())
    newest = world.snapshot(10, log_end_time_ms=NOW_MS - MINUTE_MS + 1)
    opened: list[SimLog] = []

    def open_log() -> SimLog:
        opened.append(world.log)
        return world.log

    monkeypatch.setattr(world, "open", open_log)
    world.freshen()
    assert opened == []
    world.states.set_committed(replace(newest, log_end_time_ms=NOW_MS))
    world.now_ms += MINUTE_MS - 1
    assert not world.states.is_freshen_due
    world.now_ms += 1
    world.freshen()
    assert opened == [world.log]
    assert world.store.read(newest.ref).manifest.log_end_time_ms == world.now_ms


def test_a_log_out_of_reach_ends_no_job_that_waits() -> None:
    """The next batch will report the error; another log at its URL is reported immediately."""
    world = World(CompactedLog())
    newest = world.snapshot(10)
    world.now_ms += MINUTE_MS
    world.log.fail_reads(LogStorageError("out of reach"))
    world.freshen()
    assert world.store.read(newest.ref).manifest == newest
    world.now_ms += MINUTE_MS
    world.log.replace(LogIdentity("sim-cluster", Uuid(b"n" * 16)))
    with pytest.raises(SparkJobError, match="deleted and created again"):
        world.freshen()


def test_the_start_of_a_job_is_decided_once(tmp_path: Path) -> None:
    """At the newest state; the checkpoint keeps it, with a name for what the job writes."""
    world = World()
    world.snapshot(7)
    logs = [cast("FollowedLog", world)]
    begun = read_first_offsets(str(tmp_path), logs, world.choose_starts)
    assert begun.starts == {"sim-cluster": 7}
    world.snapshot(9)
    assert read_first_offsets(str(tmp_path), logs, world.choose_starts) == begun
    joined = FollowedLog(url="kafka://k:1/t", identity=LogIdentity("joined", Uuid(b"t" * 16)))
    assert read_first_offsets(str(tmp_path), [*logs, joined], dict).starts == {
        "sim-cluster": 7,
        "joined": 0,
    }
    assert read_first_offsets(str(tmp_path / "other"), logs, world.choose_starts).writer != begun.writer


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"writer": 1, "starts": {}})])
def test_a_damaged_beginning_is_refused(tmp_path: Path, text: str) -> None:
    """It is not known any more which offsets the checkpoint covers."""
    (tmp_path / FIRST_OFFSETS_NAME).write_text(text)
    with pytest.raises(SparkJobError, match=r"is damaged: .*another --checkpoint"):
        read_first_offsets(str(tmp_path), [], dict)


def manifests(**changes: Any) -> tuple[SnapshotStore, SnapshotManifest]:
    """A store with one snapshot, and the manifest of the same state with these changes."""
    store = SnapshotStore(f"memory://{uuid.uuid4().hex}")
    image = AclsDelta(AclsImage.EMPTY).apply(Provenance(4, 1, 0))
    ref = store.write(image, identity(), log_end_time_ms=7)
    return store, replace(store.read(ref).manifest, **changes)


def test_the_same_state_is_committed_once() -> None:
    """A node was faster: its snapshot stays, and is as fresh as the newer of the two."""
    store, same = manifests(log_end_time_ms=9)
    assert store.commit(same, attempts="job") == same
    assert store.commit(replace(same, log_end_time_ms=3), attempts="job") == same
    assert store.commit(replace(same, gap_until=9), attempts="job") == same


def test_another_state_is_refused_where_both_are_exact() -> None:
    """I12; one made past a gap gives way, and takes the state of an older one."""
    store, other = manifests(digest=5)
    with pytest.raises(SnapshotError, match="holds another state"):
        store.commit(other, attempts="job")
    past_gap = replace(other, gap_until=9)
    assert store.commit(past_gap, attempts="job") == past_gap
    exact = replace(other, digest=6)
    assert store.commit(exact, attempts="job") == exact


def test_backlog_has_the_times_of_the_oldest_records() -> None:
    """Of the first record in the batch, and of the first one after it."""
    world = World()
    backlog = world.states.backlog(3, world.search(7))
    assert (backlog.start, backlog.log_end) == (3, 10)
    times_ms = [batch.records[0].timestamp_ms for batch in world.log.read(0)]
    assert (backlog.oldest_ms, backlog.next_ms) == (times_ms[3], times_ms[7])
    assert len(set(times_ms)) == len(times_ms)
    assert world.states.backlog(3, world.search(10)).next_ms is None


def test_backlog_of_a_record_that_cannot_be_read_has_no_time() -> None:
    world = World()
    world.log.damage(3)
    assert world.states.backlog(3, world.search(7)).oldest_ms is None
