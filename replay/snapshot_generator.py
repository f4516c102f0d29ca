"""SnapshotGenerator: writes the published state to the snapshot store periodically.

Source: org.apache.kafka.image.publisher.SnapshotGenerator. The rules:

- A snapshot is due once enough of the log was replayed since the last one, or enough time passed and
  anything was. Unlike in Kafka, time also counts while nothing is replayed.
- It holds the last published image: immutable, and at the end of a batch outside any transaction.
- None is written while the node is not ready (I13), as the state may be wrong.
- A worker thread writes; the loader never waits for it. A snapshot that becomes due during a write waits.
- A failed write is counted, logged, and retried a minute later with the newest state, until one succeeds;
  no sooner, so that a full store causes no write and no log line at every update.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from replay.clock import Clock, SystemClock
from replay.manifest import LoaderManifest, ReloadManifest
from replay.status import SnapshotMetrics

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage, Provenance

#: Kafka's metadata.log.max.record.bytes.between.snapshots.
BYTES_BETWEEN_DEFAULT: Final = 20 * 1024 * 1024
#: Kafka's metadata.log.max.snapshot.interval.ms.
INTERVAL_MS_DEFAULT: Final = 60 * 60 * 1000
#: Time from a failed write to the next one.
RETRY_S: Final = 60.0
#: How long close waits for a write. One that hangs is abandoned: without a manifest it is ignored.
CLOSE_WAIT_S: Final = 30.0

_log = structlog.get_logger(__name__)


class SnapshotSink(Protocol):
    """Target of snapshots: the SnapshotStore."""

    def write(self, image: AclsImage, identity: LogIdentity, *, log_end_time_ms: int, keep: int) -> object:
        """Store the image atomically; no effect if it exists already."""


class SnapshotGenerator:
    """A publisher with a worker thread, from the first update to ``close``.

    ``metrics``: counted by the worker, to be read by any thread.
    """

    name: Final = "snapshot_generator"

    def __init__(
        self,
        sink: SnapshotSink,
        *,
        keep: int,
        bytes_between: int = BYTES_BETWEEN_DEFAULT,
        interval_ms: int = INTERVAL_MS_DEFAULT,
        close_wait_s: float = CLOSE_WAIT_S,
        clock: Clock | None = None,
    ) -> None:
        """Wait for the first update.

        A snapshot is due after ``bytes_between`` bytes of the log, or after ``interval_ms`` if the state is
        new (0: never). ``close`` waits up to ``close_wait_s`` for a write.
        """
        self.metrics = SnapshotMetrics()
        self._sink = sink
        self._keep = keep
        self._bytes_between = bytes_between
        self._interval_s = interval_ms / 1000
        self._close_wait_s = close_wait_s
        self._clock = clock or SystemClock()
        self._thread: threading.Thread | None = None
        # The condition guards everything below.
        self._changed = threading.Condition()
        self._closing = False
        self._ready = False
        self._latest: tuple[AclsImage, LoaderManifest] | None = None
        self._bytes = 0
        self._began_s = self._clock.monotonic_s()
        self._written: Provenance | None = None
        self._failed_s: float | None = None

    # --- on the loader's thread --------------------------------------------------------------------------

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        with self._changed:
            if isinstance(manifest, ReloadManifest):
                self._bytes = 0
            self._bytes += manifest.size_bytes
            self._latest = image, manifest
            self._wake_if_due()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="aclog-snapshots", daemon=True)
            self._thread.start()

    def on_ready(self) -> None:
        with self._changed:
            self._ready = True
            self._wake_if_due()

    def on_not_ready(self, reason: str) -> None:
        with self._changed:
            self._ready = False

    def close(self) -> None:
        """Wait for a running write, or abandon it. Nothing is written afterwards."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is None:
            return
        self._thread.join(self._close_wait_s)
        if self._thread.is_alive():
            _log.warning("snapshot_abandoned", waited_s=self._close_wait_s)

    # --- on the worker's thread --------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._closing and not self._is_due():
                    self._changed.wait(self._next_due_s())
                if self._closing or self._latest is None:
                    return
                image, manifest = self._latest
                self._bytes = 0
                self._began_s = self._clock.monotonic_s()
            self._write(image, manifest)

    def _write(self, image: AclsImage, manifest: LoaderManifest) -> None:
        began_s = self._clock.monotonic_s()
        line = _log.bind(offset=image.provenance.end_offset, epoch=image.provenance.epoch)
        try:
            self._sink.write(
                image, manifest.identity, log_end_time_ms=manifest.log_end_time_ms, keep=self._keep
            )
        except Exception as error:  # noqa: BLE001 - a store may raise anything, and the next write may succeed
            line.error("snapshot_failed", error=str(error), kind=type(error).__name__)
            with self._changed:
                self._failed_s = self._clock.monotonic_s()
            self.metrics.failed += 1
            return
        elapsed_ms = (self._clock.monotonic_s() - began_s) * 1000
        self.metrics.last_written_ms = self._clock.now_ms()
        self.metrics.last_end_offset = image.provenance.end_offset
        self.metrics.last_write_ms = elapsed_ms
        with self._changed:
            self._written, self._failed_s = image.provenance, None
        self.metrics.written += 1
        line.info("snapshot_written", acls=len(image), elapsed_ms=round(elapsed_ms))

    # --- under the condition -----------------------------------------------------------------------------

    def _wake_if_due(self) -> None:
        if self._is_due():
            self._changed.notify_all()

    def _is_due(self) -> bool:
        if not self._ready or self._latest is None or self._latest[0].provenance == self._written:
            return False
        if self._failed_s is not None:
            return self._retry_left_s(self._failed_s) <= 0
        return self._bytes >= self._bytes_between or 0 < self._interval_s <= self._age_s()

    def _retry_left_s(self, failed_s: float) -> float:
        return failed_s + RETRY_S - self._clock.monotonic_s()

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._began_s

    def _next_due_s(self) -> float | None:
        """Time until one can become due without an update; None if an update is needed."""
        failed_s = self._failed_s
        left_s = self._interval_s - self._age_s() if failed_s is None else self._retry_left_s(failed_s)
        return left_s if left_s > 0 else None
