"""Metrics of requests: count and duration by endpoint and status, and requests in flight.

The request path only adds numbers; metric families are built at a scrape. The event loop's thread writes, any
thread reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from authorizer.listeners.durations import Durations

#: All inline evaluations are counted, and one in TIMED_EVERY is timed: timing each would add a twentieth to
#: the time that the protocol needs.
TIMED_EVERY: Final = 16

#: The label of unknown paths and methods, so that clients cannot create labels.
OTHER: Final = "other"
_REQUEST_LABELS: Final = ("method", "endpoint", "status")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})


def method_label(method: str) -> str:
    """Return a known method, or OTHER."""
    return method if method in _METHODS else OTHER


class Requests:
    """Requests of one method and endpoint with one status."""

    __slots__ = ("count", "durations")

    def __init__(self) -> None:
        self.count = 0
        self.durations = Durations()


class RequestMetrics(Collector):
    """Metrics of one application, on all listeners.

    ``in_flight``: requests in flight by endpoint, without inline ones.
    """

    def __init__(self) -> None:
        self.in_flight: dict[str, int] = {}
        self._requests: dict[tuple[str, str, str], Requests] = {}

    def of(self, method: str, endpoint: str, status: int | None) -> Requests:
        """Return the counters of requests with this result; status None: no answer was sent."""
        key = method_label(method), endpoint, "none" if status is None else f"{status:d}"
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = Requests()
        return found

    def add(self, method: str, endpoint: str, status: int | None, duration_s: float) -> None:
        requests = self.of(method, endpoint, status)
        requests.count += 1
        requests.durations.add(duration_s)

    def collect(self) -> Iterator[Metric]:
        counts = CounterMetricFamily("aclog_http_requests", "Requests answered.", labels=_REQUEST_LABELS)
        durations = HistogramMetricFamily(
            "aclog_http_request_duration_seconds",
            "From a request's head, or an evaluation's last byte, until its answer was written.",
            labels=_REQUEST_LABELS,
        )
        for labels, requests in list(self._requests.items()):
            counts.add_metric(labels, requests.count)
            requests.durations.show(durations, labels)
        under_way = GaugeMetricFamily(
            "aclog_http_requests_in_flight",
            "Requests under way, streams of changes among them.",
            labels=("endpoint",),
        )
        for endpoint, count in list(self.in_flight.items()):
            under_way.add_metric((endpoint,), count)
        yield from (counts, durations, under_way)


class ServerMetrics(Collector):
    """Metrics of all listeners of one sidecar.

    ``loop_delays``: delays of the event loop: requests wait as long before they are read.
    """

    def __init__(self, connections: Mapping[str, int]) -> None:
        """``connections``: open connections by listener; the caller updates them."""
        self.loop_delays = Durations()
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        connections = GaugeMetricFamily("aclog_http_connections", "Open connections.", labels=("listener",))
        for listener, count in tuple(self._connections.items()):
            connections.add_metric((listener,), count)
        delays = HistogramMetricFamily(
            "aclog_event_loop_delay_seconds", "How late the event loop came to what was due."
        )
        self.loop_delays.show(delays)
        yield from (connections, delays)
