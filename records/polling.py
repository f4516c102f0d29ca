"""Polling: waiting until a check succeeds, and a thread that repeats its work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self


def poll_until(
    check: Callable[[], bool],
    interval_s: float,
    deadline_s: float,
    closing: threading.Event | None = None,
) -> bool:
    """Repeat ``check`` until it succeeds; it runs at least once.

    Args:
        check: what it raises ends the wait.
        interval_s: pause between two checks.
        deadline_s: end of the wait, on the clock of ``time.monotonic``.
        closing: ends the wait early when it is set.

    Returns:
        Whether the check succeeded.
    """
    closing = closing or threading.Event()
    while not check():
        if time.monotonic() > deadline_s or closing.wait(interval_s):
            return False
    return True


class PeriodicThread:
    """A daemon thread that repeats its work until it is closed."""

    def __init__(
        self,
        name: str,
        work: Callable[[], float],
        *,
        delay_s: float = 0.0,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        """Prepare the thread.

        ``work`` returns the seconds until its next run; an exception ends the thread. ``on_close`` runs last,
        in the thread.
        """
        self._work = work
        self._delay_s = delay_s
        self._on_close = on_close
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread and wait until it has ended. Idempotent; also without a start."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _run(self) -> None:
        pause_s = self._delay_s
        while not self._closing.wait(pause_s):
            pause_s = self._work()
        if self._on_close is not None:
            self._on_close()
