"""TokenBuckets: rates by key, in units of the time that a bucket needs to refill (KIP-599's TokenBucket)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Hashable

#: Keys that are remembered; beyond them the oldest is dropped.
KEYS_MAX: Final = 10_000


class TokenBuckets:
    """Knows for each key when its bucket will be full again. Not thread-safe: the event loop's."""

    def __init__(self) -> None:
        self._full_at_s: dict[Hashable, float] = {}

    def refill_s(self, key: Hashable, now_s: float) -> float:
        """Return the time until the bucket is full; 0 if it is."""
        return max(0.0, self._full_at_s.get(key, now_s) - now_s)

    def take(self, key: Hashable, cost_s: float, now_s: float) -> None:
        """Take what refills in ``cost_s``, also from an empty bucket."""
        full_at_s = now_s + self.refill_s(key, now_s) + cost_s
        self._full_at_s.pop(key, None)
        if len(self._full_at_s) >= KEYS_MAX:
            del self._full_at_s[next(iter(self._full_at_s))]
        self._full_at_s[key] = full_at_s
