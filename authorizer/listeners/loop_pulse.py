"""LoopPulse: when an event loop last ran, for a watcher in another thread."""

from __future__ import annotations

import asyncio
import time
from typing import Final, NoReturn

_INTERVAL_S: Final = 0.1


class LoopPulse:
    """Is beaten on one event loop and read by others."""

    def __init__(self) -> None:
        self._beaten_at_s: float | None = None

    def silent_s(self) -> float:
        """Return for how long the loop has not run; 0 before its first beat and after its last one."""
        beaten_at_s = self._beaten_at_s
        return 0.0 if beaten_at_s is None else max(0.0, time.monotonic() - beaten_at_s - _INTERVAL_S)

    async def beat(self) -> NoReturn:
        """Run until it is cancelled."""
        try:
            while True:
                self._beaten_at_s = time.monotonic()
                await asyncio.sleep(_INTERVAL_S)
        finally:
            self._beaten_at_s = None
