"""RequestQuota: the rate of requests of each principal of one node (KIP-219, KIP-599).

As on a broker, a request beyond the quota is answered immediately with throttle_time_ms, and its connection
is muted for that time. Here all connections of the principal are: a new one for each request, as of tools in
a loop, must not evade the quota. Processes of one node count together.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from authorizer.authentication.token_buckets import SharedTokenBuckets, TokenBuckets

if TYPE_CHECKING:
    from mmap import mmap

    from authorizer.configuration.load import Config
    from records.principal import KafkaPrincipal

#: Seconds whose requests may come together (quota.window.num of quota.window.size.seconds).
BURST_S: Final = 11.0
_THROTTLE_MS_MAX: Final = 2**31 - 1


class RequestQuota:
    """On the event loop of the server.

    ``throttled``: number of requests that were answered with a throttle time.
    """

    def __init__(self, config: Config, memory: mmap | None = None) -> None:
        """Args: memory: shared with the other processes of the node, if there are any."""
        self.throttled = 0
        self._buckets = TokenBuckets() if memory is None else SharedTokenBuckets(memory)
        self._rate = config.admin_quota_request_rate

    def apply(self, config: Config) -> None:
        """Set a new rate. A changed one forgets what was requested before."""
        if config.admin_quota_request_rate != self._rate:
            self._rate = config.admin_quota_request_rate
            self._buckets.clear()

    def throttle_s(self, principal: KafkaPrincipal) -> float:
        """Return for how long the principal's connections are muted."""
        if not self._rate:
            return 0.0
        return max(0.0, self._buckets.refill_s(principal, time.monotonic()) - BURST_S)

    def take(self, principal: KafkaPrincipal, cost: int) -> int:
        """Count a request; return its throttle time in milliseconds."""
        if not self._rate:
            return 0
        self._buckets.take(principal, cost / self._rate, time.monotonic())
        throttle_s = self.throttle_s(principal)
        self.throttled += throttle_s > 0
        return min(int(throttle_s * 1000), _THROTTLE_MS_MAX)
