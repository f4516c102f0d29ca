"""Metrics of the requests of Kafka's protocol."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.api_keys import api_key_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric


class AdminRequestMetrics(Collector):
    """Counts requests by API; the event loop's thread writes, any thread reads."""

    def __init__(self) -> None:
        self._requests: Counter[int] = Counter()
        self._seconds: Counter[int] = Counter()
        self._closed = 0

    def add(self, api_key: int, duration_s: float) -> None:
        """Count an answered request."""
        self._requests[api_key] += 1
        self._seconds[api_key] += duration_s  # type: ignore[assignment]  # a Counter takes any number

    def count_closed(self) -> None:
        """Count a connection that was closed because of its request."""
        self._closed += 1

    def collect(self) -> Iterator[Metric]:
        """The families."""
        requests = CounterMetricFamily(
            "aclog_admin_requests", "Answered requests of Kafka's protocol", labels=("request",)
        )
        seconds = CounterMetricFamily(
            "aclog_admin_request_seconds", "Time that their answers took", labels=("request",)
        )
        for key, count in self._requests.copy().items():
            requests.add_metric((api_key_name(key),), count)
            seconds.add_metric((api_key_name(key),), self._seconds[key])
        yield requests
        yield seconds
        yield CounterMetricFamily(
            "aclog_admin_connections_closed",
            "Connections closed because their request could not be read or is not served",
            value=self._closed,
        )
