"""Loader: the thread that drives a log through the core to the publishers.

Source: org.apache.kafka.image.loader.MetadataLoader. An iteration reads the log, gives the result to the
core, and carries out its effects. The core decides about offsets, readiness and publishing; the loader adds
the thread, the clock, waits, log lines and metrics.

The log and the snapshot sources belong to the caller; publishers are closed with the loader.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from enum import Enum
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from records.errors import AclogError, LogHeldUpError, OffsetOutOfRangeError
from records.ids import uuid_to_string
from replay.clock import Backoff, Clock, SystemClock
from replay.core import OUT_OF_REACH, Core, Phase
from replay.events import (
    BatchesRead,
    Event,
    Fail,
    GapSeen,
    OutOfRange,
    Publish,
    ReadFailed,
    Recovered,
    Reload,
    ReportNotReady,
    ReportReady,
    StateLost,
)
from replay.manifest import ReloadManifest
from replay.publishers import FaultHandler, Subscriptions
from replay.recovery import recover
from replay.status import LoaderMetrics, LoaderStatus
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from records.log.base import LogIdentity, MetadataLog
    from replay.publishers import Publisher
    from replay.snapshot_source import SnapshotSource

#: Maximum time of one wait for new records; a close, or a new publisher, may have to wait as long.
IDLE_WAIT_S: Final = 0.2
#: After so many of these waits the log is read again, which finds another log in its place, too.
_IDLE_WAITS: Final = 5
#: Time between two progress lines of a load.
PROGRESS_INTERVAL_S: Final = 2.0
#: A last read of the log that is older than this does not prove that there is no lag.
OBSERVATION_AGE_MS_MAX: Final = 5_000

_log = structlog.get_logger(__name__)


class Iteration(Enum):
    """Outcome of one iteration."""

    MORE = "there may be more to read"
    IDLE = "nothing more to read now"
    FAILED = "retry after a pause"


class Loader:
    """Follows one log. All methods but ``iterate`` are thread-safe.

    ``metrics``: written by the loader's thread, read by any.
    """

    def __init__(
        self,
        log: MetadataLog,
        snapshots: Sequence[SnapshotSource] = (),
        publishers: Iterable[Publisher] = (),
        *,
        fault_handler: FaultHandler | None = None,
        clock: Clock | None = None,
        on_settled: Callable[[], None] | None = None,
    ) -> None:
        """Follow nothing before ``start``.

        Args:
            log: to follow; from ``start`` on only the loader's thread reads it.
            snapshots: to start from, see ``recover``.
            publishers: receivers of the images, in this order.
            fault_handler: by default every fault of a publisher makes the node not ready.
            clock: default: the system's.
            on_settled: called by the loader's thread at the end of each iteration, when ``status`` and
                ``wait_for`` reflect what the publishers have: then writers get their results.
        """
        self.metrics = LoaderMetrics()
        self._log = log
        self._snapshots = snapshots
        self._faults = fault_handler or FaultHandler()
        self._clock = clock or SystemClock()
        self._on_settled = on_settled
        self._core = Core()
        self._subscriptions = Subscriptions(self._faults, self._clock, self.metrics)
        for publisher in publishers:
            self._subscriptions.add(publisher)
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._backoff = Backoff()
        self._identity: LogIdentity | None = None
        self._logger = _log.bind(log=log.url)
        # Start time and position of the load, for progress lines.
        self._load_began_s = self._progress_due_s = self._clock.monotonic_s()
        self._load_position = 0
        # Read by other threads; changed under the condition, which is notified.
        self._changed = threading.Condition()
        self._image: AclsImage | None = None
        self._image_identity: LogIdentity | None = None
        self._reason: str | None = self._core.reason
        self._high_watermark: int | None = None
        self._made_at_ms = self._observed_at_ms = self._clock.now_ms()
        self._error: Exception | None = None
        # The end offset that each future waits for.
        self._waiting: dict[Future[bool], int] = {}

    # --- for any thread ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow the log, unless it was closed before. Call once."""
        with self._changed:  # a close by another thread finds no thread, or one that it can join
            if self._thread is not None:
                raise RuntimeError("the loader was started before")
            if not self._closing.is_set():
                self._thread = threading.Thread(target=self._run, name="aclog-loader", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stop, and close the publishers; returns when the thread has ended. Idempotent."""
        with self._changed:
            self._closing.set()
            self._changed.notify_all()
            waiting = self._pop_waiting(list(self._waiting))
        _resolve(waiting, is_visible=False)
        if self._thread is None:
            self._subscriptions.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def add_publisher(self, publisher: Publisher) -> None:
        """Add a publisher, which first gets the complete state.

        Raises:
            ValueError: a publisher with that name exists.
        """
        self._subscriptions.add(publisher)

    def visible(self, end_offset: int) -> Future[bool]:
        """A future that is done when every publisher has an image that reaches ``end_offset``.

        True does not imply readiness; False: the loader was closed before. Cancel it to stop
        waiting. Callbacks run on the loader's thread and must be short.
        """
        future: Future[bool] = Future()
        with self._changed:
            is_visible = self._published_end() >= end_offset
            waits = not is_visible and not self._closing.is_set()
            if waits:
                self._waiting[future] = end_offset
        if waits:
            future.add_done_callback(self._forget)
        else:
            future.set_result(is_visible)
        return future

    def wait_for(self, end_offset: int, timeout_s: float) -> bool:
        """Block until ``visible``; False on timeout or close."""
        future = self.visible(end_offset)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            return not future.cancel() and future.result()

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Block until decisions may be made; False on timeout or close.

        Raises:
            AclogError: a record of the log prevents completion (I7). The loader keeps retrying.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing.is_set() or self._reason is None or self._is_stuck(), timeout_s
            )
            if self._error is not None and self._is_stuck():
                raise self._error
            return self._reason is None

    def status(self) -> LoaderStatus:
        now_ms = self._clock.now_ms()
        with self._changed:
            core, image, high_watermark, error = self._core, self._image, self._high_watermark, self._error
            held = AclsImage.EMPTY if image is None else image
            end_offset = held.provenance.end_offset
            lag = None if high_watermark is None else max(0, high_watermark - end_offset)
            known = lag == 0 and error is None and now_ms - self._observed_at_ms <= OBSERVATION_AGE_MS_MAX
            return LoaderStatus(
                identity=self._image_identity,
                end_offset=None if image is None else end_offset,
                epoch=held.provenance.epoch,
                acl_count=len(held),
                digest=held.digest,
                phase=core.phase,
                position=core.position,
                high_watermark=high_watermark,
                lag_records=lag,
                lag_ms=0 if known else max(0, now_ms - (core.log_end_time_ms or self._made_at_ms)),
                ready=self._reason is None,
                reason=self._reason,
                error=None if error is None else str(error),
            )

    def _is_stuck(self) -> bool:
        return self._error is not None and self._reason == str(self._error)

    def _is_at_end(self) -> bool:
        """Whether the last read has reached the log's end; the wait then sees new records with less work."""
        return self._core.phase is Phase.FOLLOWING and self._core.position == self._high_watermark

    def _published_end(self) -> int:
        return -1 if self._image is None else self._image.provenance.end_offset

    def _pop_waiting(self, waiting: Sequence[Future[bool]]) -> Sequence[Future[bool]]:
        """Remove them; this thread resolves them. Called under the lock."""
        for future in waiting:
            del self._waiting[future]
        return waiting

    def _forget(self, future: Future[bool]) -> None:
        with self._changed:
            self._waiting.pop(future, None)

    # --- the thread --------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                outcome = self.iterate()
                if outcome is Iteration.IDLE or (outcome is Iteration.MORE and self._is_at_end()):
                    self._wait_for_records()
            except (AclogError, OSError):
                outcome = Iteration.FAILED  # the wait failed; the next read reports the reason
            except Exception as error:  # noqa: BLE001 - the last resort: without the thread the log would seem idle
                outcome = self._start_over(error)
            if outcome is Iteration.FAILED:
                self._closing.wait(self._backoff.next_s())
        self._subscriptions.close()

    def _wait_for_records(self) -> None:
        """Wait for the log, and update new publishers meanwhile: a read takes ten times a wait's CPU."""
        for _ in range(_IDLE_WAITS if self._is_at_end() else 1):
            if self._log.wait(self._core.position, IDLE_WAIT_S) or self._closing.is_set():
                return
            self._subscriptions.update_outdated()
            self._announce()

    def iterate(self) -> Iteration:
        """Run one iteration. The thread calls it, or a simulation in its place."""
        began_s = self._clock.monotonic_s()
        event = self._observe()
        effects = self._core.step(event)
        failed = any(isinstance(effect, Fail | Reload) for effect in effects)
        if not failed:
            self._record_success(event)
        for effect in effects:
            match effect:
                case Publish():
                    self._publish(effect, began_s)
                case ReportReady() | ReportNotReady():
                    self._announce()
                case Fail():
                    self._record_failure(effect.error)
                case Reload():
                    self._reload(effect)
                case GapSeen():
                    self.metrics.gaps += 1
                    # In a topic every transaction marker is one.
                    write = (
                        self._logger.info if self._log.removal_retention_ms is None else self._logger.debug
                    )
                    write(
                        "gap_seen", offset=effect.offset, next_offset=effect.next_offset, until=effect.until
                    )
                case _:
                    assert_never(effect)
        self._subscriptions.update_outdated()
        self._announce()
        if self._on_settled is not None:
            self._on_settled()
        if isinstance(event, ReadFailed) and isinstance(event.error, LogHeldUpError):
            return Iteration.IDLE  # the log's wait ends when the open transaction has ended
        if failed:
            return Iteration.FAILED
        return Iteration.IDLE if isinstance(event, BatchesRead) and not event.batches else Iteration.MORE

    def _observe(self) -> Event:
        """Read the log, as the core's phase requires."""
        core, log = self._core, self._log
        try:
            event: Event
            if core.phase is Phase.RECOVERING:
                event = self._recover()
            else:
                batches = log.read(core.position)
                event = BatchesRead(
                    batches=batches, high_watermark=log.high_watermark(), now_ms=self._clock.now_ms()
                )
            # After the read: the batches are of this log, or of one that it replaced.
            identity = log.identity
        except OffsetOutOfRangeError as error:
            if core.phase is Phase.RECOVERING:
                return ReadFailed(error)
            return OutOfRange(start=error.start, end=error.end)
        except (AclogError, OSError) as error:
            return ReadFailed(error)
        before, self._identity = self._identity, identity
        if before is not None and identity != before:
            return StateLost(f"another log is in its place: {_name(identity)} instead of {_name(before)}")
        return event

    def _recover(self) -> Recovered:
        self._load_began_s = self._clock.monotonic_s()
        self._progress_due_s = self._load_began_s + PROGRESS_INTERVAL_S
        found = recover(self._log, self._snapshots, self._clock)
        self.metrics.snapshots_refused += len(found.refused)
        for reason in found.refused:
            self._logger.warning("snapshot_refused", reason=reason)
        if found.snapshot is not None:
            self.metrics.snapshots_loaded += 1
        return found

    def _publish(self, effect: Publish, began_s: float) -> None:
        image, manifest, metrics = effect.image, effect.manifest, self.metrics
        end_offset, before = image.provenance.end_offset, self._published_end()
        self._subscriptions.publish(effect.delta, image, manifest)
        with self._changed:
            self._image, self._image_identity = image, manifest.identity
            reached = self._pop_waiting(
                [future for future, wanted in self._waiting.items() if wanted <= end_offset]
            )
        _resolve(reached, is_visible=True)
        elapsed_ms = (self._clock.monotonic_s() - began_s) * 1000
        metrics.publishes += 1
        metrics.last_publish_ms = elapsed_ms
        metrics.batches += manifest.batches
        metrics.records += manifest.records
        metrics.size_bytes += manifest.size_bytes
        metrics.fold.add(manifest.counts)
        if end_offset < before:
            metrics.offset_regressions += 1
            self._logger.warning("offset_went_back", offset=end_offset, before=before)
        line = self._logger.bind(offset=end_offset, records=manifest.records, acls=len(image))
        if isinstance(manifest, ReloadManifest):
            load_s = self._clock.monotonic_s() - self._load_began_s
            line.info("image_published", elapsed_ms=round(load_s * 1000), origin=manifest.origin)
        elif effect.delta.changes:
            line.info("image_published", elapsed_ms=round(elapsed_ms, 1))
        else:
            line.debug("image_published", elapsed_ms=round(elapsed_ms, 1))

    def _announce(self) -> None:
        """Announce whether the node is ready, if that has changed.

        To the publishers first: a thread that the status wakes may rely on them.
        """
        core, subscriptions = self._core, self._subscriptions
        reason = subscriptions.failure if core.ready else core.reason
        if not core.ready and self._error is not None and str(self._error) != reason:
            reason = f"{reason}: {self._error}"
        subscriptions.announce(reason)
        if reason is None and subscriptions.failure is not None:
            reason = subscriptions.failure  # a publisher raised on the announcement
            subscriptions.announce(reason)
        if reason == self._reason:
            return
        with self._changed:
            self._reason = reason
            self._changed.notify_all()
        if reason is None:
            self._logger.info("ready", offset=self._published_end())
        else:
            self._logger.warning("not_ready", reason=reason)

    def _record_failure(self, error: Exception) -> None:
        if str(error) == str(self._error):
            return  # a retry with the same error
        if isinstance(error, OUT_OF_REACH):
            self.metrics.read_errors += 1
        else:
            self.metrics.apply_errors += 1
        self._logger.error(
            "replay_failed", error=str(error), kind=type(error).__name__, offset=self._core.position
        )
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _reload(self, effect: Reload) -> None:
        self.metrics.reloads += 1
        self._logger.warning("reload", reason=effect.reason, offset=self._published_end())
        if effect.lost:
            self._subscriptions.withdraw()

    def _record_success(self, event: Event) -> None:
        self._backoff.reset()
        core = self._core
        with self._changed:
            self._error = None
            if isinstance(event, Recovered | BatchesRead):
                self._high_watermark, self._observed_at_ms = event.high_watermark, event.now_ms
        if isinstance(event, Recovered):
            self._load_position = core.position
            self._logger.info(
                "load_started",
                offset=core.position,
                log_start=event.log_start,
                high_watermark=event.high_watermark,
            )
        now_s = self._clock.monotonic_s()
        if core.phase is Phase.CATCHING_UP and now_s >= self._progress_due_s and self._high_watermark:
            self._progress_due_s = now_s + PROGRESS_INTERVAL_S
            self._logger.info(
                "replay_progress",
                offset=core.position,
                high_watermark=self._high_watermark,
                percent=round(100 * core.position / self._high_watermark),
                records_per_s=round((core.position - self._load_position) / (now_s - self._load_began_s)),
            )

    def _start_over(self, error: Exception) -> Iteration:
        """The loader itself failed: discard its state."""
        self._core = Core()
        reason = f"the loader failed: {error!r}"
        self._core.step(StateLost(reason))
        self._reload(Reload(reason, lost=True))
        self._announce()
        self._faults.handle("loader", reason, error)
        return Iteration.FAILED


def _resolve(futures: Iterable[Future[bool]], *, is_visible: bool) -> None:
    for future in futures:
        if future.set_running_or_notify_cancel():
            future.set_result(is_visible)


def _name(identity: LogIdentity) -> str:
    return f"cluster {identity.cluster_id} topic {uuid_to_string(identity.topic_id)}"
