"""Background threads of the console: the log scan and the prefetch of the first view."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import structlog

from records.polling import PeriodicThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from authorizer.console.history.history_scan import HistoryScan

log: Final = structlog.get_logger(__name__)

#: Time without a request after which the scanned states are dropped.
IDLE_TTL_S: Final = 600.0
#: Until the node is ready, and from then on: with a million ACLs a prefetch takes a second of CPU time.
_RETRY_INTERVAL_S: Final = 0.1
_REFRESH_INTERVAL_S: Final = 60.0


class ScanThread:
    """Scans a log backwards while the console is in use. Thread-safe.

    Drops the scanned states after ten idle minutes.
    """

    def __init__(self, scan: HistoryScan, clear_caches: Callable[[], None]) -> None:
        """``clear_caches``: drops everything that was computed from the scanned states."""
        self._scan = scan
        self._clear_caches = clear_caches
        self._lock = threading.Lock()
        self._touched = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        """Keep the scan going, because the console is in use."""
        with self._lock:
            self._touched.set()
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="aclog-console-scan", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the scan and drop the states, without waiting. From any thread; idempotent."""
        with self._lock:
            self._is_closed = True
            self._touched.set()

    def _run(self) -> None:
        while True:
            while not (self._scan.is_done or self._is_closed):
                self._scan.extend()
            if not self._is_closed and self._touched.wait(IDLE_TTL_S):
                self._touched.clear()
                continue
            with self._lock:
                if self._is_closed or not self._touched.is_set():
                    self._scan.clear()
                    self._clear_caches()
                    self._thread = None
                    return


class Prefetcher(PeriodicThread):
    """Prefetches the page's first view in a thread, while the context is open."""

    def __init__(self, prefetch: Callable[[], bool]) -> None:
        """``prefetch``: computes the view unless it is up to date; False while the node is not ready."""

        def work() -> float:
            try:
                is_ready = prefetch()
            except Exception:
                # A request for the view gets the same error, and the page shows it.
                log.exception("console_prefetch_failed")
                return _REFRESH_INTERVAL_S
            return _REFRESH_INTERVAL_S if is_ready else _RETRY_INTERVAL_S

        super().__init__("aclog-console-prefetch", work)
