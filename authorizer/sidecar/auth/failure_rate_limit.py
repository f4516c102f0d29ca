"""The failed tries of each address: its debt. Not thread-safe: the event loop's.

The debt never keeps a valid token out. It decides what a wrong token is answered (429 in place of 401), and
whose slow checks come last.
"""

from __future__ import annotations

import ipaddress
from typing import Final

#: Failures after which an address is in debt, and how long one takes to be forgotten. More are not counted,
#: so that the debt is over as long after the last one as it takes to forget one.
FAILURES_MAX: Final = 20
FORGET_AFTER_S: Final = 1.0
#: Beyond as many addresses the one that failed first is forgotten.
ADDRESSES_MAX: Final = 10_000


class FailureRateLimit:
    """Of each address: when all of its failures will be forgotten."""

    def __init__(self) -> None:
        self._forget_at_s: dict[str, float] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """How long until one more failure is within the limit; 0 if it is now."""
        forget_at_s = self._forget_at_s.get(client_network(address), now_s)
        return max(0.0, forget_at_s - now_s - (FAILURES_MAX - 1) * FORGET_AFTER_S)

    def add(self, address: str, now_s: float) -> None:
        """One more failure."""
        network = client_network(address)
        forget_at_s = max(self._forget_at_s.pop(network, now_s), now_s)
        if len(self._forget_at_s) >= ADDRESSES_MAX:
            del self._forget_at_s[next(iter(self._forget_at_s))]
        most = now_s + FAILURES_MAX * FORGET_AFTER_S
        self._forget_at_s[network] = min(forget_at_s + FORGET_AFTER_S, most)


def client_network(address: str) -> str:
    """What one caller can have: a single address of IPv4, and 2^64 of IPv6."""
    if ":" not in address:
        return address
    return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
