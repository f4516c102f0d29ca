"""The thread that extends the past where people look, and gives its memory back when nobody has for long."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from authorizer.console.history.history_scan import HistoryScan

#: Since the last look: then nothing of the past is held.
KEPT_S: Final = 600.0


class ScanThread:
    """Of one past. Thread-safe."""

    def __init__(self, past: HistoryScan, forget: Callable[[], None]) -> None:
        """``forget``: gives the memory back of what was made of the past."""
        self._past = past
        self._forget = forget
        self._starting = threading.Lock()
        self._looked = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """People look: go on."""
        with self._starting:
            self._looked.set()
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._work, name="aclog-console-past", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Go no further, and hold nothing. Returns at once; from any thread. Idempotent."""
        with self._starting:
            self._is_closed = True
            self._looked.set()

    def _work(self) -> None:
        while True:
            while not (self._past.is_over or self._is_closed):
                self._past.extend()
            if not self._is_closed and self._looked.wait(KEPT_S):
                self._looked.clear()
                continue
            with self._starting:
                if self._is_closed or not self._looked.is_set():
                    self._past.forget()
                    self._forget()
                    self._thread = None
                    return
