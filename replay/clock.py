"""Clock of the replay layer; tests and simulations inject their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for comparisons across processes, monotonic time for measurements."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic_s(self) -> float:
        """Seconds since an arbitrary point; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
