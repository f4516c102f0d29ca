"""Metrics of the requests of Kafka's protocol: RequestMetrics' LocalTimeMs and RemoteTimeMs (KIP-504)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.api_keys import api_key_name
from authorizer.listeners.durations import Durations

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric


class AdminRequestMetrics(Collector):
    """Counts requests by API; the event loop's thread writes, any thread reads."""

    def __init__(self) -> None:
        self._local: dict[int, Durations] = {}
        self._remote: dict[int, Durations] = {}
        self._closed = 0

    def add(self, api_key: int, local_s: float, remote_s: float) -> None:
        """Count an answered request."""
        for durations, duration_s in ((self._local, local_s), (self._remote, remote_s)):
            if api_key not in durations:
                durations[api_key] = Durations()
            durations[api_key].add(duration_s)

    def count_closed(self) -> None:
        """Count a connection that was closed because of its request."""
        self._closed += 1

    def collect(self) -> Iterator[Metric]:
        """The families."""
        for name, doc, durations in (
            ("local", "Time of a request of Kafka's protocol without its wait for replay.", self._local),
            ("remote", "Time that a request of Kafka's protocol waited for replay.", self._remote),
        ):
            family = HistogramMetricFamily(f"aclog_admin_request_{name}_seconds", doc, labels=("request",))
            for key, each in list(durations.items()):
                each.show(family, (api_key_name(key),))
            yield family
        yield CounterMetricFamily(
            "aclog_admin_connections_closed",
            "Connections closed because their request could not be read or is not served",
            value=self._closed,
        )
