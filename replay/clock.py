"""The time, as the replay layer is given it: tests and simulations bring their own."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is compared across processes, monotonic time for what is measured here."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic_s(self) -> float:
        """Seconds since some moment; never goes back."""


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()
