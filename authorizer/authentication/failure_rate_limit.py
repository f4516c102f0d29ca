"""Rate limit of authentication failures by address. Not thread-safe: used on the event loop.

A valid token is always accepted. Over the limit, invalid tokens are answered with 429 in place of 401, and
slow verifications have the lowest priority.
"""

from __future__ import annotations

import ipaddress
from typing import Final

#: Limit of failures, and the time after which one is forgotten. Further failures are not counted, so that an
#: address is below the limit again soon after its last one.
FAILURES_MAX: Final = 20
FORGET_AFTER_S: Final = 1.0
#: Addresses that are remembered; beyond them the oldest is dropped.
ADDRESSES_MAX: Final = 10_000


class FailureRateLimit:
    """Knows for each address when all of its failures will be forgotten."""

    def __init__(self) -> None:
        self._forget_at_s: dict[str, float] = {}

    def wait_s(self, address: str, now_s: float) -> float:
        """Return the time until one more failure is within the limit; 0 if it is now."""
        forget_at_s = self._forget_at_s.get(client_network(address), now_s)
        return max(0.0, forget_at_s - now_s - (FAILURES_MAX - 1) * FORGET_AFTER_S)

    def add(self, address: str, now_s: float) -> None:
        """Count a failure."""
        network = client_network(address)
        forget_at_s = max(self._forget_at_s.pop(network, now_s), now_s)
        if len(self._forget_at_s) >= ADDRESSES_MAX:
            del self._forget_at_s[next(iter(self._forget_at_s))]
        most = now_s + FAILURES_MAX * FORGET_AFTER_S
        self._forget_at_s[network] = min(forget_at_s + FORGET_AFTER_S, most)


def client_network(address: str) -> str:
    """Return the addresses of one client: a single one of IPv4, a /64 network of IPv6."""
    if ":" not in address:
        return address
    return str(ipaddress.IPv6Network((address.partition("%")[0], 64), strict=False))
