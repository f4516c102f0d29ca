"""Rate limit of authentication failures by address. Not thread-safe: used on the event loop.

A valid token is always accepted. Over the limit, invalid tokens are answered with 429 in place of 401, and
slow verifications have the lowest priority.
"""

from __future__ import annotations

import ipaddress
from typing import Final

from authorizer.authentication.token_buckets import TokenBuckets

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
