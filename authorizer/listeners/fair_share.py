"""FairShare: a limit of a shared resource, of which no single holder can take all."""

from __future__ import annotations

from collections.abc import Hashable


class FairShare:
    """Limits a shared resource so that no single holder can take all of it.

    A holder gets one more place while it has fewer places than are free. So one holder gets at most half of
    the places; n holders that take all they can get 1 / (n + 1) each, and as many places remain free.

    Attributes:
        taken: places that all holders have.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._counts: dict[Hashable, int] = {}

    def take(self, holder: Hashable, places: int) -> bool:
        """Take one of ``places`` for a holder, until ``release``; False: the holder gets none now."""
        count = self._counts.get(holder, 0)
        if count >= places - self.taken:
            return False
        self._counts[holder] = count + 1
        self.taken += 1
        return True

    def release(self, holder: Hashable) -> None:
        self.taken -= 1
        self._counts[holder] -= 1
        if not self._counts[holder]:
            del self._counts[holder]
