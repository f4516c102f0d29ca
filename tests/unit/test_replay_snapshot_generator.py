"""replay.snapshot_generator: conditions of a snapshot; a write never delays updates."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from structlog.testing import capture_logs

from records.errors import LogError
from replay import snapshot_generator
from replay.loader import Iteration, Loader
from replay.snapshot_generator import SnapshotGenerator
from snapshot.errors import SnapshotRefusedError
from support.sim_clock import SimClock
from support.sim_log import RECORD_BYTES, SimLog, identity
from support.sim_publisher import Witness
from support.sim_scenario import acl_named
from support.sim_store import SimStore
from support.waiting import wait_until

TIMEOUT_S = 30.0
HOUR_MS = 3_600_000
MINUTE_MS = 60_000


class Sim:
    """A loader without a thread that feeds a generator with one."""

    def __init__(self, *, bytes_between: int = 10 * RECORD_BYTES, interval_ms: int = 0) -> None:
        self.log = SimLog()
        self.store = SimStore()
        self.clock = SimClock()
        self.generator = SnapshotGenerator(
            self.store,
            keep=2,
            bytes_between=bytes_between,
            interval_ms=interval_ms,
            close_wait_s=0.2,
            clock=self.clock,
        )
        self.witness = Witness()
        self.loader = Loader(self.log, [self.store], [self.generator, self.witness], clock=self.clock)
        self.number = 0

    def append(self, records: int) -> None:
        for _ in range(records):
            self.log.append([acl_named(f"t{chr(97 + self.number % 26)}x")])
            self.number += 1
        while self.loader.iterate() is Iteration.MORE:
            pass

    @property
    def ends(self) -> list[int]:
        return [found.image.provenance.end_offset for found in self.store.snapshots]

    def written(self, count: int) -> None:
        wait_until(lambda: self.generator.metrics.written + self.generator.metrics.failed == count)

    def settle(self) -> None:
        """Time enough for a write that should not happen."""
        time.sleep(0.05)


@pytest.fixture
def sims() -> Iterator[Callable[..., Sim]]:
    made: list[Sim] = []

    def make(**options: int) -> Sim:
        made.append(Sim(**options))
        return made[-1]

    yield make
    for sim in made:
        sim.store.allow.set()
        sim.loader.close()
    assert "aclog-snapshots" not in {thread.name for thread in threading.enumerate()}


def test_one_is_written_after_enough_bytes(sims: Callable[..., Sim]) -> None:
    """Of the image published then, with its log's identity and the time when it was the log's end."""
    sim = sims()
    sim.append(9)
    sim.settle()
    assert sim.ends == []
    sim.append(1)
    sim.written(1)
    (snapshot,) = sim.store.snapshots
    assert snapshot.image is sim.witness.image
    assert snapshot.identity == identity()
    assert snapshot.log_end_time_ms == sim.clock.now_ms()
    assert sim.generator.metrics.last_end_offset == 10
    assert sim.generator.metrics.last_written_ms == sim.clock.now_ms()
    sim.append(9)
    sim.settle()
    assert sim.ends == [10]
    sim.append(1)
    sim.written(2)
    assert sim.ends == [10, 20]


def test_one_is_written_after_enough_time_if_anything_is_new(sims: Callable[..., Sim]) -> None:
    """Kafka's metadata.log.max.snapshot.interval.ms; a log that rests gets no second one."""
    sim = sims(interval_ms=HOUR_MS)
    sim.append(1)
    sim.clock.advance(HOUR_MS - 1)
    sim.append(1)
    sim.settle()
    assert sim.ends == []
    sim.clock.advance(1)
    sim.append(1)
    sim.written(1)
    assert sim.ends == [3]
    sim.clock.advance(HOUR_MS)
    sim.append(0)
    sim.settle()
    assert sim.ends == [3]
    sim.append(1)
    sim.written(2)
    assert sim.ends == [3, 4]


def test_time_alone_makes_one_due() -> None:
    """Unlike Kafka's, which waits for the next record."""
    log, store = SimLog(), SimStore()
    generator = SnapshotGenerator(store, keep=1, interval_ms=50)
    log.append([acl_named("a")])
    loader = Loader(log, (), [generator])
    while loader.iterate() is Iteration.MORE:
        pass
    wait_until(lambda: generator.metrics.written == 1)
    time.sleep(0.2)  # four intervals
    assert generator.metrics.written == 1, "nothing was new"
    loader.close()


def test_a_long_first_load_is_worth_a_snapshot(sims: Callable[..., Sim]) -> None:
    """The next start is spared the replay; a load from a snapshot counts only what came after it."""
    sim = sims()
    for _ in range(30):
        sim.log.append([acl_named("a")])
    sim.append(0)
    sim.written(1)
    assert sim.ends == [30]
    again = sims()
    again.log, again.store.snapshots = sim.log, sim.store.snapshots
    again.loader = Loader(sim.log, [sim.store], [again.generator], clock=again.clock)
    while again.loader.iterate() is Iteration.MORE:
        pass
    again.settle()
    assert again.generator.metrics.written == 0


def test_none_is_written_while_an_error_stands(sims: Callable[..., Sim]) -> None:
    """I13: what is due waits until the node is ready again."""
    sim = sims()
    sim.store.allow.clear()
    sim.append(10)
    assert sim.store.writing.wait(TIMEOUT_S)
    sim.append(10)
    sim.log.append([acl_named("c")])
    sim.log.damage(20)
    assert sim.loader.iterate() is Iteration.FAILED
    sim.store.allow.set()
    sim.written(1)  # was under way when the error came: its state is sound
    sim.settle()
    assert sim.ends == [10]
    sim.log.repair()
    sim.append(0)
    sim.written(2)
    assert sim.ends == [10, 21]


def test_none_is_written_before_the_node_is_ready(sims: Callable[..., Sim]) -> None:
    """I13 and I4: on_update comes first, on_ready makes it count."""
    sim = sims(bytes_between=1)
    sim.append(1)
    sim.written(1)
    update = sim.store.snapshots[0].image, sim.witness.manifests[0]
    store = SimStore()
    generator = SnapshotGenerator(store, keep=1, bytes_between=1)
    generator.on_update(None, *update)  # type: ignore[arg-type]
    sim.settle()
    assert not store.writing.is_set()
    generator.on_ready()
    wait_until(lambda: generator.metrics.written == 1)
    generator.close()


@pytest.mark.parametrize("error", [SnapshotRefusedError("other state"), LogError("disk"), RuntimeError("?")])
def test_a_failed_write_is_counted_and_the_next_one_tried(sims: Callable[..., Sim], error: Exception) -> None:
    """Whatever the store raises; the loader never learns of it."""
    sim = sims()
    sim.store.errors = [error]
    sim.append(10)
    sim.written(1)
    assert (sim.generator.metrics.failed, sim.ends) == (1, [])
    sim.clock.advance(MINUTE_MS)
    sim.append(1)
    sim.written(2)
    assert sim.ends == [11]
    sim.append(9)
    sim.settle()
    assert sim.ends == [11], "as often as before"
    assert sim.loader.status().ready


def test_a_full_store_is_tried_and_complained_about_once_a_minute(sims: Callable[..., Sim]) -> None:
    """It is tried immediately, then each minute, until there is room."""
    sim = sims(bytes_between=1)
    sim.store.errors = [OSError(errno.ENOSPC, "No space left on device") for _ in range(3)]
    with capture_logs() as lines:
        for failed in (1, 2, 3):
            sim.append(1)
            sim.written(failed)
            sim.clock.advance(MINUTE_MS - 1)
            sim.append(50)
            sim.settle()
            assert sim.generator.metrics.failed == failed
            sim.clock.advance(1)
        sim.append(1)
        sim.written(4)
        wait_until(lambda: lines[-1]["event"] == "snapshot_written")
    assert [line["event"] for line in lines if line["event"].startswith("snapshot_")] == [
        *["snapshot_failed"] * 3,
        "snapshot_written",
    ]
    assert sim.ends == [sim.witness.updates[-1][0]]


def test_time_alone_makes_a_failed_write_due_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing new has to come in."""
    monkeypatch.setattr(snapshot_generator, "RETRY_S", 0.05)
    log, store = SimLog(), SimStore()
    store.errors = [LogError("disk")]
    generator = SnapshotGenerator(store, keep=1, bytes_between=1)
    log.append([acl_named("a")])
    loader = Loader(log, (), [generator])
    while loader.iterate() is Iteration.MORE:
        pass
    wait_until(lambda: (generator.metrics.failed, generator.metrics.written) == (1, 1))
    loader.close()


def test_a_slow_write_delays_no_update(sims: Callable[..., Sim]) -> None:
    """Updates go on; what became due meanwhile is written after it, once, with the newest state."""
    sim = sims()
    sim.store.allow.clear()
    sim.append(10)
    assert sim.store.writing.wait(TIMEOUT_S)
    sim.append(25)
    assert sim.witness.updates[-1][0] == 35
    sim.store.allow.set()
    sim.written(2)
    assert sim.ends == [10, 35]


def test_close_waits_for_a_write(sims: Callable[..., Sim]) -> None:
    """And writes nothing else."""
    sim = sims()
    sim.store.allow.clear()
    sim.append(10)
    assert sim.store.writing.wait(TIMEOUT_S)
    sim.append(10)
    threading.Timer(0.05, sim.store.allow.set).start()
    sim.loader.close()
    assert sim.ends == [10]


def test_close_leaves_a_write_that_hangs_behind(sims: Callable[..., Sim]) -> None:
    """The node must be able to stop."""
    sim = sims()
    sim.store.allow.clear()
    sim.append(10)
    assert sim.store.writing.wait(TIMEOUT_S)
    began_s = time.monotonic()
    sim.loader.close()
    assert time.monotonic() - began_s < TIMEOUT_S / 2
    assert sim.ends == []
    sim.store.allow.set()
    wait_until(lambda: sim.generator.metrics.written == 1)


def test_a_generator_without_updates_can_be_closed() -> None:
    """There is no thread yet."""
    SnapshotGenerator(SimStore(), keep=1).close()
