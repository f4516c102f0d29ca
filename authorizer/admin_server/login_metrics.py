"""LoginMetrics: logins by listener and outcome, as Kafka's Selector counts them (socket-server-metrics)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

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
