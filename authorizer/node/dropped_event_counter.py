"""Losses: when the program's log says how much was lost, so that a flood of losses is no flood of lines."""

from __future__ import annotations

import math
import time
from typing import Final

_BETWEEN_S: Final = 10.0


class Losses:
    """Of one kind: how many were said. Not thread-safe."""

    __slots__ = ("_said", "_said_s")

    def __init__(self) -> None:
        self._said = 0
        self._said_s = -math.inf

    def to_say(self, lost: int, *, is_last: bool = False) -> int:
        """How many of those that were lost are to be said now, and count as said from here on.

        0 if there are none, or some were said less than ten seconds ago; ``is_last``: none are said later.
        """
        unsaid, now_s = lost - self._said, time.monotonic()
        if not unsaid or (now_s - self._said_s < _BETWEEN_S and not is_last):
            return 0
        self._said, self._said_s = lost, now_s
        return unsaid
