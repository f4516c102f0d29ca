"""Metrics of the requests of Kafka's protocol: RequestMetrics' LocalTimeMs and RemoteTimeMs (KIP-504)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from authorizer.api.api_keys import api_key_name
from authorizer.listeners.durations import Durations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.admin_server.limits import RequestQuota


class AdminRequestMetrics(Collector):
    """Counts the requests of one node by API; the event loop's thread writes, any thread reads."""

    def __init__(self, connections: Mapping[str, int], quota: RequestQuota) -> None:
        """Args: connections: open ones by listener; quota: of the node's principals."""
        self._connections = connections
        self._quota = quota
        self._listeners: list[str] = []
        self._local: dict[int, Durations] = {}
        self._remote: dict[int, Durations] = {}
        self._closed = 0

    def add_listener(self, listener: str) -> None:
        self._listeners.append(listener)

    def add(self, api_key: int, local_s: float, remote_s: float) -> None:
        for durations, duration_s in ((self._local, local_s), (self._remote, remote_s)):
            if api_key not in durations:
                durations[api_key] = Durations()
            durations[api_key].add(duration_s)

    def count_closed(self) -> None:
        """Count a connection that was closed because of its request."""
        self._closed += 1

    def collect(self) -> Iterator[Metric]:
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
        yield CounterMetricFamily(
            "aclog_admin_requests_throttled",
            "Requests of Kafka's protocol beyond the quota of their principal.",
            value=self._quota.throttled,
        )
        connections = GaugeMetricFamily(
            "aclog_admin_connections", "Open connections of Kafka's protocol.", labels=("listener",)
        )
        for listener in self._listeners:
            connections.add_metric((listener,), self._connections.get(listener, 0))
        yield connections


_OUTCOMES: Final = ("successful", "failed")
_KINDS: Final = ("authentication", "reauthentication")


class LoginMetrics(Collector):
    """Counts on the event loop's thread; any thread reads."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}

    def add_listener(self, listener: str) -> None:
        """Show a listener's counters from the start."""
        for outcome in _OUTCOMES:
            for kind in _KINDS:
                self._counts[outcome, kind, listener] = 0

    def count(self, listener: str, *, is_successful: bool, is_again: bool = False) -> None:
        """Count a login; ``is_again``: a re-authentication (KIP-368)."""
        key = _OUTCOMES[not is_successful], _KINDS[is_again], listener
        self._counts[key] = self._counts.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        for outcome in _OUTCOMES:
            for kind in _KINDS:
                family = CounterMetricFamily(
                    f"aclog_admin_{outcome}_{kind}",
                    f"Logins of clients of Kafka's protocol: {outcome} {kind}.",
                    labels=("listener",),
                )
                for (*of_login, listener), count in list(self._counts.items()):
                    if of_login == [outcome, kind]:
                        family.add_metric((listener,), count)
                yield family
