"""TokenBuckets: rates by key, in units of the time that a bucket needs to refill (KIP-599's TokenBucket).

FailureRateLimit limits failures of authentication by address. A valid token is always accepted. Over the
limit, invalid tokens are answered with 429 in place of 401, and slow verifications have the lowest priority.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Hashable
from mmap import mmap
from typing import Final

#: Keys that are remembered; beyond them the oldest is dropped.
KEYS_MAX: Final = 10_000
#: Bytes of memory for buckets that several processes share: a hash and a time for each of 4,096 keys.
SHARED_BYTES: Final = 4096 * 16
#: Slots that a key may take, from its hash on.
_PROBES: Final = 8


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

    def clear(self) -> None:
        self._full_at_s.clear()


class SharedTokenBuckets:
    """The same for several processes of one machine, in shared memory; at most 4,096 keys.

    There is no lock, so that a process that hangs or dies does not stop the others: of requests that two
    processes count within the same microseconds, one may be lost.
    """

    def __init__(self, memory: mmap) -> None:
        """``memory``: SHARED_BYTES, zeros at first; the processes inherit it."""
        of_hashes, of_times = memoryview(memory)[: SHARED_BYTES // 2], memoryview(memory)[SHARED_BYTES // 2 :]
        self._hashes, self._full_at_s = of_hashes.cast("Q"), of_times.cast("d")

    def refill_s(self, key: Hashable, now_s: float) -> float:
        slot, is_known = self._slot(_hash(key))
        return max(0.0, self._full_at_s[slot] - now_s) if is_known else 0.0

    def take(self, key: Hashable, cost_s: float, now_s: float) -> None:
        """As TokenBuckets; a key without a free slot replaces the one that is full first."""
        slot, is_known = self._slot(hashed := _hash(key))
        refill_s = max(0.0, self._full_at_s[slot] - now_s) if is_known else 0.0
        self._full_at_s[slot] = now_s + refill_s + cost_s
        self._hashes[slot] = hashed

    def clear(self) -> None:
        """Fill all buckets, for all processes."""
        for slot in range(len(self._hashes)):
            self._hashes[slot] = 0

    def _slot(self, hashed: int) -> tuple[int, bool]:
        """The key's slot, else the one to replace; and whether it is the key's."""
        slots = [(hashed + probe) % len(self._hashes) for probe in range(_PROBES)]
        for slot in slots:
            if self._hashes[slot] == hashed:
                return slot, True
        return min(slots, key=lambda slot: self._full_at_s[slot] if self._hashes[slot] else 0.0), False


def _hash(key: Hashable) -> int:
    # The same in all processes; 0 is a free slot.
    return int.from_bytes(hashlib.blake2b(str(key).encode(), digest_size=8).digest()) | 1


#: Limit of failures, and the time after which one is forgotten. Further failures are not counted, so that an
#: address is below the limit again soon after its last one.
FAILURES_MAX: Final = 20
FORGET_AFTER_S: Final = 1.0


class FailureRateLimit:
    """Counts the failures of each address in a token bucket."""

    def __init__(self) -> None:
        self._buckets = TokenBuckets()

    def wait_s(self, address: str, now_s: float) -> float:
        """Return the time until one more failure is within the limit; 0 if it is now."""
        refill_s = self._buckets.refill_s(client_network(address), now_s)
        return max(0.0, refill_s - (FAILURES_MAX - 1) * FORGET_AFTER_S)

    def add(self, address: str, now_s: float) -> None:
        network = client_network(address)
        left_s = FAILURES_MAX * FORGET_AFTER_S - self._buckets.refill_s(network, now_s)
        self._buckets.take(network, min(FORGET_AFTER_S, left_s), now_s)


def client_network(address: str) -> str:
    """Return the addresses of one client: a single one of IPv4, a /64 network of IPv6."""
    if ":" not in address:
        return address
    return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
