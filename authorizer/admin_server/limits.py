"""AdminLimits and RequestQuota: limits of connections, requests and their memory; the rate of a principal."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.authentication.rate_limits import SharedTokenBuckets, TokenBuckets
from authorizer.listeners.connection_limiter import ConnectionLimiter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from mmap import mmap

    from prometheus_client import Metric

    from authorizer.configuration.load import Config
    from records.principal import KafkaPrincipal

#: Bytes of a connection that are received also while others hold all memory: most requests are smaller.
_ALWAYS_RECEIVED: Final = 4096
#: The reader pauses its connection beyond twice this.
_READER_LIMIT: Final = 64 * 1024
#: Smaller answers are not counted: they are in the buffers of the connection, which are bounded.
_UNCOUNTED_ANSWER: Final = 64 * 1024


class AdminLimit(StrEnum):
    """The limit because of which a connection was closed, as a label of the metrics."""

    BYTES_IN_FLIGHT = "bytes_in_flight"
    ANSWER_BYTES_IN_FLIGHT = "answer_bytes_in_flight"
    REQUEST_BYTES = "request_bytes"
    REQUEST_TIMEOUT = "request_timeout"
    UNREAD_TIMEOUT = "unread_timeout"


class LimitExceededError(Exception):
    """The connection must be closed because of a limit; the message says why."""

    def __init__(self, limit: AdminLimit, reason: str) -> None:
        super().__init__(reason)
        self.limit = limit


class AdminLimits(Collector):
    """The present limits, and what they count; on the event loop of the server.

    Attributes:
        idle_s: a connection without a request for this long is closed.
        request_s: time from the first byte of a request to its last.
        unread_s: time in which a client must read each part of its answer.
    """

    def __init__(self, config: Config) -> None:
        self.refused = Counter(dict.fromkeys(AdminLimit, 0))
        # HTTP's, in the same process, warns about the limit of open files.
        self.connections = ConnectionLimiter(config, warns_of_few_files=False)
        self._bytes = 0
        self._answer_bytes = 0
        self._set(config)

    def apply(self, config: Config) -> None:
        """Set new limits; existing connections stay open."""
        self._set(config)
        self.connections.apply(config)

    def _set(self, config: Config) -> None:
        self.idle_s = config.admin_connections_max_idle_ms / 1000
        self.request_s = config.sidecar_request_timeout_ms / 1000
        self.unread_s = config.sidecar_unread_timeout_ms / 1000
        self.request_bytes = config.sidecar_max_request_bytes
        self._bytes_max = config.sidecar_max_bytes_in_flight

    def hold(self, count: int, of_connection: int) -> None:
        """Count bytes that arrived, until ``release``.

        Raises:
            LimitExceededError: there are too many; they are counted nevertheless.
        """
        self._bytes += count
        if self._bytes > self._bytes_max and of_connection > _ALWAYS_RECEIVED:
            raise LimitExceededError(
                AdminLimit.BYTES_IN_FLIGHT, f"requests of {self._bytes} bytes are being received or answered"
            )

    def release(self, count: int) -> None:
        self._bytes -= count

    def hold_answer(self, count: int, *, can_refuse: bool) -> int:
        """Count memory of an answer that its client must still read; returns what to release.

        Raises:
            LimitExceededError: other answers reach the limit, and ``can_refuse``.
        """
        if count <= _UNCOUNTED_ANSWER:
            return 0
        # A single answer may have any size.
        if can_refuse and self._answer_bytes and self._answer_bytes + count > self._bytes_max:
            raise LimitExceededError(
                AdminLimit.ANSWER_BYTES_IN_FLIGHT, f"answers of {self._answer_bytes} bytes wait to be read"
            )
        self._answer_bytes += count
        return count

    def release_answer(self, count: int) -> None:
        """Stop counting an answer that was read, or whose client has disconnected."""
        self._answer_bytes -= count

    def collect(self) -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "aclog_admin_refused",
            "Connections of Kafka's protocol closed because of a limit.",
            labels=("limit",),
        )
        for limit, count in (*self.connections.refused.items(), *self.refused.items()):
            refused.add_metric((limit.value,), count)
        yield refused
        yield GaugeMetricFamily(
            "aclog_admin_request_bytes",
            "Bytes of Kafka's requests that are being received or answered.",
            self._bytes,
        )
        yield GaugeMetricFamily(
            "aclog_admin_answer_bytes",
            "Memory of large answers of Kafka's protocol that wait to be read.",
            self._answer_bytes,
        )


class RequestSlots:
    """Limits the requests of one node that are answered at a time: those of others in a fleet do not wait.

    ``slots``: admits requests; further ones wait, and their connections are not read.
    """

    def __init__(self, config: Config) -> None:
        self._count = 0
        self.apply(config)

    def apply(self, config: Config) -> None:
        """Set a new limit; requests in flight leave the semaphore that they entered."""
        if config.sidecar_max_requests_in_flight != self._count:
            self._count = config.sidecar_max_requests_in_flight
            self.slots = asyncio.Semaphore(self._count)


class RequestReader(asyncio.StreamReader):
    """Reads one connection, and counts its bytes from their arrival until they are released.

    Beyond the limit the next read raises LimitExceededError. To stop reading would not help: each connection
    might hold a part of a request, and wait for the others.
    """

    def __init__(self, limits: AdminLimits) -> None:
        super().__init__(limit=_READER_LIMIT)
        self._limits = limits
        self._held = 0
        self._is_closed = False

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]  # the types have Iterable[SupportsIndex]
        if self._is_closed:
            return
        self._held += len(data)
        try:
            self._limits.hold(len(data), self._held)
        except LimitExceededError as error:
            self._is_closed = True
            self.set_exception(error)
        else:
            super().feed_data(data)

    def release(self, count: int) -> None:
        self._held -= count
        self._limits.release(count)

    def stop(self) -> None:
        """Read no further: what is incomplete ends here."""
        self._is_closed = True
        self.feed_eof()

    def close(self) -> None:
        """Drop what still arrives, and stop counting all bytes."""
        self._is_closed = True
        self.release(self._held)


#: Seconds whose requests may come together (quota.window.num of quota.window.size.seconds).
BURST_S: Final = 11.0
_THROTTLE_MS_MAX: Final = 2**31 - 1


class RequestQuota:
    """Rate of requests of each principal of one node (KIP-219, KIP-599); on the event loop of the server.

    As on a broker, a request beyond the quota is answered immediately with throttle_time_ms, and its
    connection is muted for that time. Here all connections of the principal are: a new one for each request,
    as of tools in a loop, must not evade the quota. Processes of one node count together.

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
