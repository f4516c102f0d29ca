"""LogThrottle: limits log lines to one in ten seconds for each key, so that no client fills the log."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

LOG_INTERVAL_S: Final = 10.0
#: Keys that are remembered; beyond them the oldest is dropped.
KEYS_MAX: Final = 1000


class LogThrottle:
    """Counts events by key. Not thread-safe: the event loop's."""

    def __init__(self) -> None:
        # When a line was logged, and the events since then.
        self._lines: dict[Hashable, tuple[float, int]] = {}

    def count(self, key: Hashable, now_s: float) -> int | None:
        """Count an event; return how many are new since the last line, or None if no line is due."""
        logged_at_s, before = self._lines.get(key, (float("-inf"), 0))
        is_due = now_s - logged_at_s >= LOG_INTERVAL_S
        if key not in self._lines and len(self._lines) >= KEYS_MAX:
            del self._lines[next(iter(self._lines))]
        self._lines[key] = (now_s, 0) if is_due else (logged_at_s, before + 1)
        return before + 1 if is_due else None
