"""QuietFiles: whether a log's files are as when they were last checked completely.

A complete check lists the directory and reads files; comparing times and sizes takes a fifth of that. Two
writes within a tick of the file system's clock have the same time. So a check counts only if it comes more
than a tick after the times were first seen, and it is repeated every second.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

#: Longer than a tick of the kernel's clock for files (10 ms at most).
_TICK_S: Final = 0.02
_CHECK_INTERVAL_S: Final = 1.0


class QuietFiles:
    """Not thread-safe."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._stamp: tuple[object, ...] = ()
        self._seen_s = self._now_s = 0.0
        self._checked_s: float | None = None

    def are_quiet(self, offset: int, paths: Sequence[Path]) -> bool:
        """Whether no complete check is needed. Raises OSError."""
        stats = [path.stat() for path in paths]
        stamp = (offset, *((each.st_ino, each.st_size, each.st_mtime_ns) for each in stats))
        now_s = self._now_s = self._monotonic_s()
        if stamp != self._stamp:
            self._stamp, self._seen_s, self._checked_s = stamp, now_s, None
        return self._checked_s is not None and now_s < self._checked_s + _CHECK_INTERVAL_S

    def record_check(self) -> None:
        """Record that a complete check after the last ``are_quiet`` found no change."""
        self._checked_s = self._now_s if self._now_s >= self._seen_s + _TICK_S else None
