"""replay.loader without its thread: publications, status, log lines and counters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from records.entries import BeginTransactionRecord, EndTransactionRecord
from records.errors import LogHeldUpError, LogStorageError
from records.ids import Uuid
from records.log.base import READ_BYTES_MAX
from records.log_batch import LogBatch
from replay.core import Phase
from replay.loader import OBSERVATION_AGE_MS_MAX, Iteration, Loader
from replay.manifest import LoaderManifest, ReloadManifest
from replay.publishers import FaultHandler
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.sim_clock import SimClock
from support.sim_log import SimLog, identity
from support.sim_publisher import Witness
from support.sim_scenario import acl_named, removal_of
from support.sim_store import SimStore

Lines = list[MutableMapping[str, Any]]


class Sim:
    """A log, a store, a clock, and a loader without its thread."""

    def __init__(self, *publishers: Witness, harmless: tuple[str, ...] = ()) -> None:
        self.log = SimLog()
        self.store = SimStore()
        self.clock = SimClock()
        self.witness = Witness(lambda: self.log.history)
        self.faults = FaultHandler(harmless=harmless)
        self.loader = Loader(
            self.log,
            [self.store],
            [self.witness, *publishers],
            fault_handler=self.faults,
            clock=self.clock,
        )

    def append(self, *names: str) -> int:
        return self.log.append([acl_named(name) for name in names])

    def run(self) -> None:
        """Turns until there is nothing to do, with a pause after each that failed."""
        for _ in range(100):
            turn = self.loader.iterate()
            if turn is Iteration.IDLE:
                return
            if turn is Iteration.FAILED:
                self.clock.advance(10_000)
        raise AssertionError("the loader does not come to rest")


class RaisingPublisher(Witness):
    """Raises in the calls that are listed, once each."""

    def __init__(self, *calls: str, name: str = "raising") -> None:
        super().__init__(name=name)
        self.raise_in = list(calls)

    def _maybe(self, call: str) -> None:
        if call in self.raise_in:
            self.raise_in.remove(call)
            raise RuntimeError(f"no {call} today")

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self._maybe("on_update")
        super().on_update(delta, image, manifest)

    def on_ready(self) -> None:
        self._maybe("on_ready")
        super().on_ready()

    def close(self) -> None:
        self._maybe("close")
        super().close()


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What was logged."""
    with capture_logs() as found:
        yield found


def events(lines: Lines) -> list[str]:
    return [line["event"] for line in lines]


def test_it_loads_and_follows() -> None:
    """One update and on_ready at the end of the load, then an update for each read that brought something."""
    sim = Sim()
    sim.append("a", "b")
    sim.append("c")
    assert [sim.loader.iterate() for _ in range(3)] == [Iteration.MORE, Iteration.MORE, Iteration.IDLE]
    assert sim.witness.calls == ["on_not_ready", "on_update", "on_ready"]
    sim.append("d")
    assert [sim.loader.iterate() for _ in range(2)] == [Iteration.MORE, Iteration.IDLE]
    assert sim.witness.updates == [(3, True), (4, False)]


def test_a_turn_is_settled_once_status_shows_what_publishers_were_given() -> None:
    """A writer that gets its answer then finds it in the status, in readiness and in ``wait_for``."""
    log, witness = SimLog(), Witness()
    seen: list[tuple[int, int | None, bool, bool]] = []

    def settled() -> None:
        status = loader.status()
        seen.append((len(witness.updates), status.end_offset, status.ready, loader.wait_for(0, 0)))

    loader = Loader(log, (), [witness], clock=SimClock(), on_settled=settled)
    log.append([acl_named("a")])
    loader.iterate()
    loader.iterate()
    log.append([acl_named("b")])
    loader.iterate()
    assert seen == [(0, None, False, False), (1, 1, True, True), (2, 2, True, True)]


def test_status_before_anything_is_loaded() -> None:
    """Nothing is known and nothing is claimed."""
    status = Sim().loader.status()
    assert (status.end_offset, status.high_watermark, status.lag_records) == (None, None, None)
    assert (status.ready, status.reason, status.acl_count, status.error) == (False, "loading", 0, None)


def test_status_says_where_the_node_stands() -> None:
    """Offset, epoch, count and digest are those of the image published last."""
    sim = Sim()
    sim.append("a", "b")
    sim.run()
    status = sim.loader.status()
    image = sim.witness.image
    assert (status.end_offset, status.epoch) == (2, 1)
    assert (status.acl_count, status.digest) == (2, image.digest)
    assert (status.phase, status.position, status.high_watermark) == (Phase.FOLLOWING, 2, 2)
    assert (status.ready, status.reason, status.error) == (True, None, None)
    assert (status.lag_records, status.lag_ms) == (0, 0)


def test_lag_is_measured_from_what_is_published() -> None:
    """An open transaction is lag: its records are committed, and not to be seen."""
    sim = Sim()
    sim.append("a")
    sim.run()
    sim.log.append([BeginTransactionRecord(), acl_named("b")])
    sim.clock.advance(700)
    sim.run()
    status = sim.loader.status()
    assert (status.end_offset, status.position) == (1, 3)
    assert (status.lag_records, status.lag_ms) == (2, 700)
    sim.log.append([EndTransactionRecord()])
    sim.run()
    status = sim.loader.status()
    assert (status.end_offset, status.lag_records, status.lag_ms) == (4, 0, 0)


def test_a_log_out_of_reach_makes_the_state_old_but_not_wrong() -> None:
    """The node stays ready, and says since when it knows nothing new."""
    sim = Sim()
    sim.append("a")
    sim.run()
    sim.log.fail_reads(LogStorageError("connection refused"))
    sim.clock.advance(700)
    assert sim.loader.iterate() is Iteration.FAILED
    status = sim.loader.status()
    assert (status.ready, status.lag_records, status.lag_ms) == (True, 0, 700)
    assert (status.error, sim.loader.metrics.read_errors) == ("connection refused", 1)
    assert sim.loader.iterate() is Iteration.IDLE
    status = sim.loader.status()
    assert (status.lag_ms, status.error) == (0, None)


def test_before_the_first_poll_lag_is_the_time_since_the_start() -> None:
    """So it is for as long as a log is out of reach from the beginning."""
    sim = Sim()
    sim.clock.advance(700)
    status = sim.loader.status()
    assert (status.ready, status.end_offset, status.lag_records, status.lag_ms) == (False, None, None, 700)


def test_lag_grows_with_the_age_of_the_last_poll() -> None:
    """A thread that hangs in the log's client must not report that there is no lag."""
    sim = Sim()
    sim.run()
    sim.clock.advance(OBSERVATION_AGE_MS_MAX + 1)
    assert sim.loader.status().lag_ms == OBSERVATION_AGE_MS_MAX + 1
    sim.run()
    assert sim.loader.status().lag_ms == 0


def test_a_damaged_batch_makes_the_node_not_ready_until_it_can_be_read() -> None:
    """I7, with the reason for people, and counted once however often it is tried."""
    sim = Sim()
    sim.append("a")
    sim.append("b")
    sim.log.damage(1)
    for _ in range(5):
        sim.loader.iterate()
    reason = "CRC does not fit (in sim:log, offset 1)"
    status = sim.loader.status()
    assert (status.ready, status.reason, status.error) == (False, reason, reason)
    assert (sim.witness.calls, sim.witness.reason) == (["on_not_ready"] * 2, reason)
    assert sim.loader.metrics.apply_errors == 1
    sim.log.repair()
    sim.run()
    assert sim.loader.status().ready
    assert sim.witness.updates == [(2, True)]


def test_publishers_get_the_reason_of_a_failed_load() -> None:
    """Callers get it as an answer, until the log is readable."""
    sim = Sim()
    sim.append("a")
    sim.log.fail_reads(LogStorageError("connection refused"), LogHeldUpError("a transaction is open"))
    sim.loader.iterate()
    sim.loader.iterate()
    assert sim.witness.reason == "loading: connection refused"
    assert sim.loader.status().reason == sim.witness.reason
    # Not a failure to be waited after: the log's own wait ends when the transaction does.
    assert sim.loader.iterate() is Iteration.IDLE
    assert sim.witness.reason == "loading: a transaction is open"
    sim.run()
    status = sim.loader.status()
    assert (status.ready, status.reason, status.error) == (True, None, None)


def test_on_not_ready_finds_the_error_in_the_status() -> None:
    """The status never says that the node is not ready for an error and holds that error back."""
    sim = Sim()
    seen: list[str | None] = []

    class Asking(Witness):
        def on_not_ready(self, reason: str) -> None:
            super().on_not_ready(reason)
            seen.append(sim.loader.status().error)

    sim.loader.add_publisher(Asking(name="asking"))
    sim.append("a")
    sim.run()
    sim.append("b")
    sim.log.damage(1)
    sim.loader.iterate()
    assert seen == [None, "CRC does not fit (in sim:log, offset 1)"]


def test_a_damaged_batch_while_following() -> None:
    """The state before it stays published, and is not decided on."""
    sim = Sim()
    sim.append("a")
    sim.run()
    sim.append("b")
    sim.append("c")
    sim.log.damage(2)
    assert [sim.loader.iterate() for _ in range(2)] == [Iteration.MORE, Iteration.FAILED]
    assert sim.witness.updates == [(1, True), (2, False)]
    assert not sim.witness.ready
    sim.log.repair()
    sim.run()
    assert sim.witness.calls[-3:] == ["on_not_ready", "on_update", "on_ready"]


def test_a_truncated_log_is_reloaded_and_counted(lines: Lines) -> None:
    """I11: never silently."""
    sim = Sim()
    for name in "abc":
        sim.append(name)
    sim.run()
    sim.log.truncate(1)
    assert sim.loader.iterate() is Iteration.FAILED
    assert not sim.witness.ready
    sim.run()
    assert sim.witness.updates == [(3, True), (1, True)]
    assert sim.witness.ready
    metrics = sim.loader.metrics
    assert (metrics.reloads, metrics.offset_regressions, metrics.publishes) == (1, 1, 2)
    (decreased,) = [line for line in lines if line["event"] == "offset_went_back"]
    assert (decreased["offset"], decreased["before"]) == (1, 3)
    assert "reload" in events(lines)


def test_another_log_in_its_place_is_loaded_anew() -> None:
    """I9: and nothing of it is shown as a continuation of the old one."""
    sim = Sim()
    sim.append("a")
    sim.run()
    other = identity(topic_id=Uuid(b"another topic id"))
    sim.log.replace(other)
    sim.append("x", "y")
    sim.run()
    assert sim.witness.ready
    assert sorted(acl.record.resource_name for acl in sim.witness.image) == ["x", "y"]
    assert [manifest.identity for manifest in sim.witness.manifests] == [identity(), other]
    assert sim.loader.metrics.reloads >= 1


def test_it_begins_with_a_snapshot() -> None:
    """The newest usable one; those that were not are counted and logged."""
    first = Sim()
    for name in "abcd":
        first.append(name)
    first.run()
    sim = Sim()
    sim.log = first.log
    with capture_logs() as lines:
        sim.store.write(first.witness.image, identity(), log_end_time_ms=0, keep=1)
        sim.store.crash_next = True
        first.append("e")
        first.run()
        with pytest.raises(Exception, match="crashed"):
            sim.store.write(first.witness.image, identity(), log_end_time_ms=0, keep=1)
        loader = Loader(first.log, [sim.store], [sim.witness], clock=sim.clock)
        while loader.iterate() is not Iteration.IDLE:
            pass
    assert sim.witness.updates == [(5, True)]
    (manifest,) = sim.witness.manifests
    assert isinstance(manifest, ReloadManifest)
    assert (manifest.origin, manifest.records) == ("snapshot 4-1", 1)
    assert (loader.metrics.snapshots_loaded, loader.metrics.snapshots_refused) == (1, 1)
    (refused,) = [line for line in lines if line["event"] == "snapshot_refused"]
    assert refused["reason"] == "snapshot 5-1: the snapshot is unfinished"


def test_a_publisher_that_comes_late_gets_the_whole_state() -> None:
    """A delta from the empty image to now, and on_ready after it (MetadataLoader.initializeNewPublishers)."""
    sim = Sim()
    sim.append("a", "b")
    sim.run()
    late = Witness(lambda: sim.log.history, name="late")
    sim.loader.add_publisher(late)
    sim.run()
    assert (late.updates, late.calls) == ([(2, True)], ["on_update", "on_ready"])
    assert late.manifests[0].records == 0
    sim.append("c")
    sim.run()
    assert late.updates == [(2, True), (3, False)]
    assert sim.witness.updates == [(2, True), (3, False)]


def test_a_publisher_that_comes_late_to_a_node_that_is_not_ready() -> None:
    """It gets the reason."""
    sim = Sim()
    sim.append("a")
    sim.run()
    sim.append("b")
    sim.log.damage(1)
    sim.loader.iterate()
    late = Witness(name="late")
    sim.loader.add_publisher(late)
    sim.loader.iterate()
    assert late.calls == ["on_update", "on_not_ready"]


def test_two_publishers_cannot_share_a_name() -> None:
    """Names are for people and fault handlers."""
    sim = Sim()
    with pytest.raises(ValueError, match="there is a publisher named `witness` already"):
        sim.loader.add_publisher(Witness())


def test_a_publisher_that_raises_does_not_harm_the_others() -> None:
    """Nobody is answered until it has taken the whole state (fail closed); the others have the update."""
    raising = RaisingPublisher("on_update")
    sim = Sim(raising)
    sim.append("a")
    with capture_logs() as lines:
        assert [sim.loader.iterate() for _ in range(2)] == [Iteration.MORE, Iteration.MORE]
    assert sim.witness.updates == [(1, True)]
    status = sim.loader.status()
    assert (status.ready, status.reason) == (False, "publisher raising failed: no on_update today")
    assert (sim.faults.faults, sim.loader.metrics.publisher_faults) == ({"raising": 1}, 1)
    (fault,) = [line for line in lines if line["event"] == "fault"]
    assert (fault["part"], fault["verdict"]) == ("raising", "not ready")
    sim.run()
    sim.clock.advance(10_000)
    sim.run()
    assert (raising.updates, raising.ready) == ([(1, True)], True)
    assert sim.witness.calls == ["on_not_ready", "on_update", "on_not_ready", "on_ready"]


def test_a_publisher_that_missed_an_update_gets_all_of_the_next() -> None:
    """Its delta is based on nothing, since nobody knows what it holds."""
    raising = RaisingPublisher()
    sim = Sim(raising)
    sim.append("a")
    sim.run()
    raising.raise_in = ["on_update"]
    sim.append("b")
    sim.loader.iterate()
    sim.clock.advance(10_000)
    sim.append("c")
    sim.run()
    assert raising.updates == [(1, True), (3, True)]
    assert sim.witness.updates == [(1, True), (2, False), (3, False)]
    assert len(raising.image) == 3


def test_a_lost_state_is_given_to_no_publisher() -> None:
    """A publisher that failed, or comes, while the log is being reloaded waits for the new state."""
    raising = RaisingPublisher()
    sim = Sim(raising)
    for name in "abc":
        sim.append(name)
    sim.run()
    raising.raise_in = ["on_update"]
    sim.append("d")
    sim.loader.iterate()
    sim.log.truncate(1)
    sim.clock.advance(10_000)
    late = Witness(name="late")
    sim.loader.add_publisher(late)
    assert sim.loader.iterate() is Iteration.FAILED
    assert (raising.updates, late.updates) == ([(3, True)], [])
    sim.run()
    assert (raising.updates, late.updates) == ([(3, True), (1, True)], [(1, True)])


class HurriedLog(SimLog):
    """Something happens just before a read."""

    before_read: Callable[[], None] | None = None

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        if self.before_read is not None:
            hurry, self.before_read = self.before_read, None
            hurry()
        return super().read(offset, max_bytes=1)


def test_a_gap_waits_for_the_high_watermark_after_the_read_that_showed_it() -> None:
    """I6: what a compaction removed may be replaced by what was appended just before it."""
    log = HurriedLog()
    witness = Witness(lambda: log.history)
    loader = Loader(log, (), [witness])
    log.append([acl_named("a")])
    while loader.iterate() is not Iteration.IDLE:
        pass
    log.append([removal_of("a")])
    log.append([acl_named("c")])

    def hurry() -> None:
        log.append([acl_named("a")])
        log.append([acl_named("d")])
        log.compact(5)

    log.before_read = hurry
    while loader.iterate() is not Iteration.IDLE:
        pass
    # At 3 there was no `a`, and nothing in the log says so any more.
    assert [end_offset for end_offset, _ in witness.updates] == [1, 5]


@pytest.mark.parametrize(("retention_ms", "level"), [(None, "info"), (10**12, "debug")])
def test_a_gap_is_news_only_where_gaps_are_rare(retention_ms: int | None, level: str, lines: Lines) -> None:
    """In a topic every transaction marker is one: a line for each would drown the log."""
    sim = Sim()
    sim.log.removal_retention_ms = retention_ms
    sim.append("a")
    sim.log.append([removal_of("a")])
    sim.append("a")
    sim.append("b")
    sim.log.compact(4)
    sim.run()
    assert {line["log_level"] for line in lines if line["event"] == "gap_seen"} == {level}


def test_a_harmless_publisher_may_fail_while_the_node_is_ready() -> None:
    """As the fault handler says; it is still given the state again."""
    raising = RaisingPublisher("on_update")
    sim = Sim(raising, harmless=("raising",))
    sim.append("a")
    sim.run()
    assert sim.loader.status().ready
    assert sim.witness.ready
    sim.clock.advance(10_000)
    sim.run()
    assert raising.ready


def test_a_publisher_that_cannot_take_the_news_is_not_ready() -> None:
    """A failed on_ready counts like a failed update."""
    raising = RaisingPublisher("on_ready")
    sim = Sim(raising)
    sim.append("a")
    sim.loader.iterate()
    sim.loader.iterate()
    assert not sim.loader.status().ready
    assert not sim.witness.ready
    sim.clock.advance(10_000)
    sim.run()
    assert sim.loader.status().ready
    assert raising.ready


def test_one_line_for_each_image(lines: Lines) -> None:
    """image_published with offset, records and time; at debug where no ACL changed."""
    sim = Sim()
    sim.append("a", "b")
    sim.run()
    sim.append("c")
    sim.run()
    sim.log.append([acl_named("c")])
    sim.run()
    assert events(lines) == [
        "load_started",
        "image_published",
        "ready",
        "image_published",
        "image_published",
    ]
    published = [line for line in lines if line["event"] == "image_published"]
    assert [(line["offset"], line["records"], line["log_level"]) for line in published] == [
        (2, 2, "info"),
        (3, 1, "info"),
        (4, 1, "debug"),
    ]
    assert published[0]["origin"] == "the log's start"
    assert all("elapsed_ms" in line and line["log"] == "sim:log" for line in published)


class SlowLog(SimLog):
    """One batch a read, and each takes half a second."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__()
        self._clock = clock

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        self._clock.advance(500)
        return super().read(offset, max_bytes=1)


def test_a_long_load_reports_progress(lines: Lines) -> None:
    """About every two seconds, with records per second and percent."""
    clock = SimClock()
    log = SlowLog(clock)
    for number in range(10):
        log.append([acl_named(f"t{number}")] * 10)
    loader = Loader(log, clock=clock)
    while loader.iterate() is not Iteration.IDLE:
        pass
    progress = [line for line in lines if line["event"] == "replay_progress"]
    assert [(line["offset"], line["percent"], line["records_per_s"]) for line in progress] == [
        (40, 40, 20),
        (80, 80, 20),
    ]
    (published,) = [line for line in lines if line["event"] == "image_published"]
    assert published["elapsed_ms"] == 5000


def test_counters_have_the_records_and_their_effects() -> None:
    """What was read and what it did."""
    sim = Sim()
    sim.append("a", "b", "a2", "a2")
    sim.run()
    metrics = sim.loader.metrics
    assert (metrics.batches, metrics.records, metrics.size_bytes) == (1, 4, 400)
    assert (metrics.fold.added, metrics.fold.replaced, metrics.fold.repeated) == (2, 1, 1)
    assert metrics.publishes == 1


def test_an_empty_log_is_a_state() -> None:
    """Publishers get the empty image and are ready."""
    sim = Sim()
    sim.run()
    assert sim.witness.updates == [(0, True)]
    assert sim.witness.image is not AclsImage.EMPTY
    assert sim.witness.ready
