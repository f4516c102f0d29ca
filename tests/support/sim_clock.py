"""A clock that changes only by ``advance``."""

from __future__ import annotations


class SimClock:
    """Implements replay.clock.Clock."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._now_ms / 1000

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
