"""Time in the replay layer: clocks, of which tests and simulations inject their own, and waits of retries."""

from __future__ import annotations

import time
from typing import Final, Protocol


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


#: A file being replaced or a leader being elected takes about this long.
FIRST_WAIT_S: Final = 0.1
#: Long enough to be no load on what fails, short enough that no operator restarts the node by hand.
LONGEST_WAIT_S: Final = 10.0


class Backoff:
    """Doubles the wait with each failure in a row."""

    def __init__(self) -> None:
        self._next_s = FIRST_WAIT_S

    def next_s(self) -> float:
        """The wait after one more failure, in seconds."""
        wait_s = self._next_s
        self._next_s = min(2 * wait_s, LONGEST_WAIT_S)
        return wait_s

    def reset(self) -> None:
        """Start again with the first wait, after a success."""
        self._next_s = FIRST_WAIT_S
