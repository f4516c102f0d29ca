"""replay.loader with its thread: waiting, closing, and faults of the loader."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from records.errors import DecodeError, LogStorageError
from records.log.base import READ_BYTES_MAX
from records.log_batch import LogBatch
from replay.loader import Loader
from replay.manifest import LoaderManifest
from replay.publishers import FaultHandler
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage
from support.sim_log import SimLog
from support.sim_publisher import Witness
from support.sim_scenario import acl_named
from support.waiting import wait_until

#: Far longer than anything here takes.
TIMEOUT_S = 30.0


@contextmanager
def running(loader: Loader) -> Iterator[Loader]:
    loader.start()
    try:
        yield loader
    finally:
        loader.close()


def test_a_write_can_be_waited_for() -> None:
    """wait_for returns once every publisher has been given the image."""
    log = SimLog()
    witness = Witness(lambda: log.history)
    with running(Loader(log, (), [witness])) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        for number in range(50):
            end_offset = log.append([acl_named(f"t{number}")])
            assert loader.wait_for(end_offset, TIMEOUT_S)
            assert witness.updates[-1][0] >= end_offset
        assert not loader.wait_for(51, 0.01)


def test_visibility_futures_need_no_thread() -> None:
    """Each future is done at its own offset; one that is not waited for any more does not matter."""
    log = SimLog()
    loader = Loader(log)
    with running(loader):
        assert loader.wait_until_ready(TIMEOUT_S)
        soon, later, cancelled, never = (loader.visible(end_offset) for end_offset in (1, 2, 2, 100))
        assert cancelled.cancel()
        assert log.append([acl_named("a")]) == 1
        assert soon.result(TIMEOUT_S)
        assert not later.done()
        assert loader.visible(1).done()
        log.append([acl_named("b")])
        assert later.result(TIMEOUT_S)
        assert not never.done()
    assert never.result(TIMEOUT_S) is False
    assert loader.visible(100).result(0) is False
    assert loader.visible(2).result(0) is True


class _SlowToBeReady(Witness):
    """Takes its time over on_ready, as one that takes a lock does."""

    def on_ready(self) -> None:
        time.sleep(0.2)  # slow by purpose
        super().on_ready()


def test_ready_is_only_seen_once_every_publisher_knows() -> None:
    """A caller may write directly after the wait: the writer is a publisher, too, and accepts it."""
    witness = _SlowToBeReady()
    with running(Loader(SimLog(), (), [witness])) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        assert witness.ready
        assert loader.status().ready


def test_close_ends_the_thread_and_everything_that_waits() -> None:
    """Promptly, once, and the publishers are closed on the way."""
    log = SimLog()
    witness = Witness()
    loader = Loader(log, (), [witness])
    loader.start()
    assert loader.wait_until_ready(TIMEOUT_S)
    answers: list[bool] = []
    waiting = threading.Thread(target=lambda: answers.append(loader.wait_for(1, TIMEOUT_S)))
    waiting.start()
    began_s = time.monotonic()
    loader.close()
    loader.close()
    waiting.join(TIMEOUT_S)
    assert time.monotonic() - began_s < TIMEOUT_S / 2
    assert answers == [False]
    assert witness.closed == 1
    assert "aclog-loader" not in {thread.name for thread in threading.enumerate()}


def test_close_interrupts_a_pause_after_a_failure() -> None:
    """However long the pauses have become."""
    log = SimLog()
    log.append([acl_named("a")])
    log.damage(0)
    loader = Loader(log)
    loader.start()
    with pytest.raises(DecodeError):
        loader.wait_until_ready(TIMEOUT_S)
    loader.close()


def test_a_close_during_the_start_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet that ends closes nodes that other threads start."""
    before, start = set(threading.enumerate()), threading.Thread.start
    loader = Loader(SimLog())
    closing = threading.Thread(target=loader.close)

    def start_late(thread: threading.Thread) -> None:
        if thread.name == "aclog-loader":
            start(closing)
            closing.join(0.1)  # as long as nothing prevents it, the close would be over
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    loader.start()
    closing.join(TIMEOUT_S)
    assert set(threading.enumerate()) <= before


def test_a_closed_loader_does_not_start() -> None:
    before = set(threading.enumerate())
    loader = Loader(SimLog())
    loader.close()
    loader.start()
    assert not loader.wait_until_ready(0)
    assert set(threading.enumerate()) <= before


def test_a_loader_that_was_never_started_can_be_closed() -> None:
    """Its publishers are closed."""
    witness = Witness()
    loader = Loader(SimLog(), (), [witness])
    loader.close()
    assert witness.closed == 1
    assert not loader.wait_until_ready(TIMEOUT_S)


def test_a_loader_starts_once() -> None:
    """A second thread would break the order of updates."""
    with running(Loader(SimLog())) as loader, pytest.raises(RuntimeError, match="started before"):
        loader.start()


def test_waiting_for_readiness_raises_the_error() -> None:
    """I7: the waiting caller gets the error, while the loader retries."""
    log = SimLog()
    log.append([acl_named("a")])
    log.append([acl_named("b")])
    log.damage(1)
    with running(Loader(log)) as loader:
        with pytest.raises(DecodeError, match=r"CRC does not fit \(in sim:log, offset 1\)"):
            loader.wait_until_ready(TIMEOUT_S)
        log.repair()
        assert loader.wait_for(2, TIMEOUT_S)
        assert loader.wait_until_ready(TIMEOUT_S)


def test_an_unreachable_log_is_retried() -> None:
    """That is no reason to give up; only time is."""
    log = SimLog()
    log.fail_reads(LogStorageError("connection refused"), OSError("connection reset"))
    log.append([acl_named("a")])
    with running(Loader(log)) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        assert loader.metrics.read_errors == 2


class _FaultyLog(SimLog):
    """Raises what no log may raise, once."""

    fault: Exception | None = None

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        return super().read(offset, max_bytes=max_bytes)


def test_a_fault_of_the_loader_makes_it_start_over() -> None:
    """The node is not ready until the state is rebuilt; publishers get the complete state."""
    log = _FaultyLog()
    log.append([acl_named("a")])
    witness = Witness(lambda: log.history)
    faults = FaultHandler()
    with running(Loader(log, (), [witness], fault_handler=faults)) as loader:
        assert loader.wait_for(1, TIMEOUT_S)
        log.fault = KeyError("what is this")
        assert loader.wait_for(log.append([acl_named("b")]), TIMEOUT_S)
        assert loader.wait_until_ready(TIMEOUT_S)
    assert witness.updates == [(1, True), (2, True)]
    assert witness.calls == ["on_not_ready", "on_update", "on_ready"] * 2 + ["close"]
    assert faults.faults == {"loader": 1}
    assert loader.metrics.reloads == 1


class _Closing(Witness):
    """Closes the loader from within an update."""

    loader: Loader | None = None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        super().on_update(delta, image, manifest)
        assert self.loader is not None
        self.loader.close()


def test_a_publisher_may_close_the_loader() -> None:
    """Without waiting for itself."""
    closing = _Closing()
    closing.loader = Loader(SimLog(), (), [closing])
    closing.loader.start()
    assert not closing.loader.wait_for(1, TIMEOUT_S)
    closing.loader.close()
    wait_until(lambda: closing.closed)
    assert closing.closed == 1


def test_publishers_can_be_added_while_it_runs() -> None:
    """From any thread."""
    log = SimLog()
    log.append([acl_named("a")])
    with running(Loader(log)) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        late = Witness(lambda: log.history)
        loader.add_publisher(late)
        log.append([acl_named("b")])
        wait_until(lambda: late.ready)


def test_a_loader_at_the_end_of_the_log_waits_without_another_read() -> None:
    """A read lists the files of a directory, which would compete with the answer to a write."""
    log = RecordingLog()
    with running(Loader(log)) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        end_offset = log.append([acl_named("a")])
        calls = ("read", end_offset - 1), ("wait", end_offset)

        def is_waiting() -> bool:
            return calls[1] in log.calls

        wait_until(is_waiting, "the wait after the record")
        at = log.calls.index(calls[1])
        assert log.calls[at - 1] == calls[0]


def test_an_idle_log_is_waited_for_several_times_before_it_is_read_again() -> None:
    """A read takes much more CPU than a wait; a new publisher is updated between two reads."""
    log = RecordingLog()
    log.append([acl_named("a")])
    with running(Loader(log)) as loader:
        assert loader.wait_until_ready(TIMEOUT_S)
        late = Witness(lambda: log.history)
        loader.add_publisher(late)
        waits = ("wait", 1), ("wait", 1), ("wait", 1)

        def has_waited() -> bool:
            return waits in zip(log.calls, log.calls[1:], log.calls[2:], strict=False)

        wait_until(has_waited, "three waits in a row")
        wait_until(lambda: late.ready)


class RecordingLog(SimLog):
    """Keeps the reads and waits, with their offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int]] = []

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        self.calls.append(("read", offset))
        return super().read(offset, max_bytes=max_bytes)

    def wait(self, offset: int, timeout_s: float) -> bool:
        self.calls.append(("wait", offset))
        return super().wait(offset, timeout_s)
