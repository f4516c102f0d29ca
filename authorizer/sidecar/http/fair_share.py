"""FairShare: a limited number of places, of which no single holder can take all."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class FairShare:
    """Counts the places that each holder has.

    A holder gets one more place while it has fewer than there are free. So one holder gets at most half of
    the places, and n that take all they can get a (n + 1)th each, with as many left for the next one.

    Attributes:
        taken: the places that are taken, by all holders.
    """

    def __init__(self) -> None:
        self.taken = 0
        self._counts: dict[Hashable, int] = {}

    def take(self, holder: Hashable, places: int) -> bool:
        """Take one of ``places`` for a holder, until ``release``; False: it gets none now."""
        count = self._counts.get(holder, 0)
        if count >= places - self.taken:
            return False
        self._counts[holder] = count + 1
        self.taken += 1
        return True

    def release(self, holder: Hashable) -> None:
        """Give one of its places back."""
        self.taken -= 1
        self._counts[holder] -= 1
        if not self._counts[holder]:
            del self._counts[holder]
