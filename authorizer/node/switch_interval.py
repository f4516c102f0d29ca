"""Lowers the interpreter's switch interval during a background computation, for the threads that decide."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# A thread that decides gets the interpreter after this time, instead of Python's default of 5 ms.
_SHORT_INTERVAL_S: Final = 0.0005
_default_s: Final = sys.getswitchinterval()
_lock: Final = threading.Lock()
_active = 0


@contextmanager
def short_switch_interval() -> Iterator[None]:
    """Shorten the switch interval while any thread is in this context. Thread-safe."""
    _count(1)
    try:
        yield
    finally:
        _count(-1)


def _count(change: int) -> None:
    global _active  # noqa: PLW0603 - the switch interval is global, too
    with _lock:
        _active += change
        sys.setswitchinterval(_SHORT_INTERVAL_S if _active else _default_s)
