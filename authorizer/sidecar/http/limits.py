"""Limits of concurrent requests and their memory, and detection of overload.

LoadLimiter serves all listeners of a process, on its event loop. A delay of the event loop shows that more
requests arrive than are answered. A rejection costs little: no body is read or decoded. Health and metrics
are never rejected, so that operators see the reason and orchestrators do not restart the sidecar.

Concurrent requests are limited for each node: requests that wait for one cluster of a fleet do not block the
others.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.cluster_name import CLUSTERS_PATH
from authorizer.api.http.error_code import ErrorCode
from authorizer.listeners.connection_limiter import ConnectionLimiter
from authorizer.sidecar.http.errors import RETRY, HttpError
from authorizer.sidecar.http.systemd import notify_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import Metric

    from authorizer.configuration.load import Config
    from authorizer.listeners.durations import Durations
    from authorizer.listeners.loop_pulse import LoopPulse


_HEALTH_PATH: Final = re.compile(rf"({CLUSTERS_PATH}[^/]*)?/(livez|readyz|metrics)")
#: Commas of a body for each evaluation: of its fields, its names, and unknown fields.
COMMAS_OF_QUESTION: Final = 20
#: How many requests may be queued on connections, for each that is being answered.
WAITING_OF_IN_FLIGHT: Final = 10
#: A smaller body is decoded in a millisecond or two, whatever its contents.
_UNCOUNTED_BYTES: Final = 64 * 1024
_CHECK_INTERVAL_S: Final = 0.1
#: Without connections no request is late.
_IDLE_CHECK_INTERVAL_S: Final = 0.5
#: No sign of life is sent while another loop of the process has not run for longer.
_OTHER_SILENCE_MAX_S: Final = 1.0


def is_health(path: str) -> bool:
    """Whether a path is for health or metrics, also of a fleet's cluster: these are never rejected."""
    return _HEALTH_PATH.fullmatch(path) is not None


class Limit(StrEnum):
    """The limit that caused a rejection, as a label of the metrics."""

    REQUESTS_IN_FLIGHT = "requests_in_flight"
    OFFSET_WAITS = "offset_waits"
    BYTES_IN_FLIGHT = "bytes_in_flight"
    ANSWER_BYTES_IN_FLIGHT = "answer_bytes_in_flight"
    REQUEST_BYTES = "request_bytes"
    QUESTIONS = "questions"
    HEAD = "head"
    REQUEST_TIMEOUT = "request_timeout"
    UNREAD_TIMEOUT = "unread_timeout"
    LATE = "late"


class LoadLimiter(Collector):
    """Counts and limits the load of a process.

    Attributes:
        is_late: whether requests are rejected because the event loop is late.
        waiting: requests that are queued on their connections.
        refused: number of rejections by limit.
        other_loop: of another server of the process, if there is one.
    """

    def __init__(self, config: Config) -> None:
        self.other_loop: LoopPulse | None = None
        self.config = config
        self.is_late = False
        self.waiting = 0
        self.refused = Counter(dict.fromkeys(Limit, 0))
        self.rendering = asyncio.Lock()
        self.connections = ConnectionLimiter(config)
        self._bytes = 0
        self._answer_bytes = 0
        self._late_s = 0.0

    def apply(self, config: Config) -> None:
        """Set new limits; existing connections stay open."""
        self.config = config
        self.connections.apply(config)

    # --- requests ----------------------------------------------------------------------------------------

    def refusal(self, path: str, in_flight: int) -> HttpError | None:
        """Return why a request must be rejected now; ``in_flight``: other requests of its node."""
        if is_health(path):
            return None
        if self.is_late:
            return self._overloaded(Limit.LATE, f"requests are answered {self._late_s:.1f} s late")
        if in_flight >= self.config.sidecar_max_requests_in_flight:
            return self._overloaded(Limit.REQUESTS_IN_FLIGHT, f"{in_flight} requests are being answered")
        return None

    def has_too_many_waiting(self) -> bool:
        """Whether a connection must end because no more requests may be queued."""
        return self.waiting >= WAITING_OF_IN_FLIGHT * self.config.sidecar_max_requests_in_flight

    @property
    def offset_waits_max(self) -> int:
        """How many requests of a node may wait for an offset; the rest is for other requests."""
        return max(self.config.sidecar_max_requests_in_flight // 2, 1)

    def offset_waits_error(self, count: int) -> HttpError:
        """503: a request cannot wait for its offset, because ``count`` others do."""
        return self._overloaded(
            Limit.OFFSET_WAITS,
            f"{count} requests wait for an offset, and your address has its share of those",
        )

    def hold(self, count: int) -> None:
        """Reserve memory for more bytes of a body, until ``release``. HttpError 503: the limit is reached."""
        if self._bytes + count > self.config.sidecar_max_bytes_in_flight:
            raise self._overloaded(Limit.BYTES_IN_FLIGHT, f"bodies of {self._bytes} bytes are held")
        self._bytes += count

    def release(self, count: int) -> None:
        """Release the memory of a body whose request was answered."""
        self._bytes -= count

    def hold_answer(self, count: int, *, can_refuse: bool = True) -> None:
        """Reserve memory for an answer that its client must still read, until ``release_answer``.

        HttpError 503: the limit is reached by other answers, and ``can_refuse``.
        """
        is_beyond = self._answer_bytes + count > self.config.sidecar_max_bytes_in_flight
        # A single answer may have any size.
        if can_refuse and is_beyond and self._answer_bytes:
            raise self._overloaded(
                Limit.ANSWER_BYTES_IN_FLIGHT, f"answers of {self._answer_bytes} bytes wait to be read"
            )
        self._answer_bytes += count

    def release_answer(self, count: int) -> None:
        """Release the memory of an answer that was read, or whose client has disconnected."""
        self._answer_bytes -= count

    def require_size(self, size: int) -> None:
        """Raise HttpError 413 if a body is too large."""
        if size > self.config.sidecar_max_request_bytes:
            raise self._too_large(
                Limit.REQUEST_BYTES,
                f"the request body is larger than {self.config.sidecar_max_request_bytes} bytes",
            )

    def require_value_count(self, body: bytes) -> None:
        """Raise HttpError 413 if a body has too many values, before it is decoded.

        Decoding it would delay other requests. Counting commas takes a fiftieth of that time; some of them
        may be in names.
        """
        most = COMMAS_OF_QUESTION * self.config.sidecar_max_questions
        if len(body) > max(most, _UNCOUNTED_BYTES) and body.count(b",") > most:
            raise self._too_large(Limit.QUESTIONS, f"more than {most} values in one request")

    def require_item_count(self, count: int, things: str) -> None:
        """Raise HttpError 413 if a request has too many items."""
        if count > self.config.sidecar_max_questions:
            most = self.config.sidecar_max_questions
            raise self._too_large(Limit.QUESTIONS, f"{count} {things} in one request: at most {most}")

    # --- the event loop ----------------------------------------------------------------------------------

    async def watch(self, delays: Durations, notify: Callable[[], None] = notify_alive) -> None:
        """Measure the delay of the event loop, into ``delays``: requests wait as long before they are read.

        ``notify`` reports that the event loops run; by default to systemd's watchdog.
        """
        while True:
            is_idle = not any(self.connections.by_listener.values())
            interval_s = _IDLE_CHECK_INTERVAL_S if is_idle else _CHECK_INTERVAL_S
            due_s = time.monotonic() + interval_s
            await asyncio.sleep(interval_s)
            # uvloop rounds to milliseconds, so it may be early.
            late_s = max(time.monotonic() - due_s, 0)
            delays.add(late_s)
            self.record_delay(late_s)
            if self._other_silence_s() < _OTHER_SILENCE_MAX_S:
                notify()

    def record_delay(self, late_s: float) -> None:
        """Record a delay. A single one may have any cause; two in a row mean overload."""
        self.is_late = min(late_s, self._late_s) * 1000 > self.config.sidecar_overload_late_ms
        self._late_s = late_s

    def hang_reason(self) -> str | None:
        """Return why the process must be restarted; the present loop runs, or it could not ask."""
        silence_s, hang_ms = self._other_silence_s(), self.config.workers_hang_timeout_ms
        if not 0 < hang_ms < silence_s * 1000:
            return None
        return f"the event loop of Kafka's protocol has not turned for {silence_s:.0f} s"

    def _other_silence_s(self) -> float:
        return 0.0 if self.other_loop is None else self.other_loop.silent_s()

    # --- metrics -----------------------------------------------------------------------------------------

    def collect(self) -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "aclog_sidecar_refused", "Connections and requests refused because of a limit.", labels=["limit"]
        )
        for limit, count in (*self.connections.refused.items(), *self.refused.items()):
            refused.add_metric([limit.value], count)
        yield refused
        yield GaugeMetricFamily("aclog_sidecar_body_bytes", "Bytes of the bodies that are held.", self._bytes)
        yield GaugeMetricFamily(
            "aclog_sidecar_answer_bytes", "Bytes of large answers that wait to be read.", self._answer_bytes
        )
        yield GaugeMetricFamily(
            "aclog_sidecar_overloaded", "1 while requests are refused because the loop is late.", self.is_late
        )

    def _overloaded(self, limit: Limit, why: str) -> HttpError:
        self.refused[limit] += 1
        return HttpError(ErrorCode.OVERLOADED, f"{why}: try again", RETRY)

    def _too_large(self, limit: Limit, why: str) -> HttpError:
        self.refused[limit] += 1
        return HttpError(ErrorCode.CONTENT_TOO_LARGE, f"{why}: send less in one request")
