"""A limit on failed tries, for each address. Not thread-safe: the event loop's."""

from __future__ import annotations

import ipaddress
from typing import Final

#: Failures that an address has at once, and how long one takes to be forgotten.
TRIES_MAX: Final = 20
FORGOTTEN_AFTER_S: Final = 1.0
#: Beyond as many addresses the one that failed first is forgotten.
ADDRESSES_MAX: Final = 10_000


class FailedTries:
    """Of each address: when all of its failures will be forgotten."""

    def __init__(self) -> None:
        self._forgotten_at: dict[str, float] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """How long it has to wait for its next try; 0 if it has not."""
        forgotten_at = self._forgotten_at.get(_network(address), now_s)
        return max(0.0, forgotten_at - now_s - (TRIES_MAX - 1) * FORGOTTEN_AFTER_S)

    def add(self, address: str, now_s: float) -> None:
        """One more failure."""
        network = _network(address)
        forgotten_at = max(self._forgotten_at.pop(network, now_s), now_s)
        if len(self._forgotten_at) >= ADDRESSES_MAX:
            del self._forgotten_at[next(iter(self._forgotten_at))]
        self._forgotten_at[network] = forgotten_at + FORGOTTEN_AFTER_S


def _network(address: str) -> str:
    """What one caller can have: a single address of IPv4, and 2^64 of IPv6."""
    if ":" not in address:
        return address
    return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
