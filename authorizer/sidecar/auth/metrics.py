"""What authentication shows to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from authorizer.sidecar.auth.rejection_counter import Refusals
    from authorizer.sidecar.auth.reloading_value import Followed


class AuthenticationCollector(Collector):
    """Refusals, and what tokens are checked with."""

    def __init__(self, refusals: Refusals, followed: Sequence[Followed[Any]]) -> None:
        self._refusals = refusals
        self._followed = followed

    def collect(self) -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "aclog_authentication_failures", "Requests whose caller was not believed.", labels=["reason"]
        )
        for reason, count in self._refusals.counts.items():
            refused.add_metric([reason.value], count)
        reloads = CounterMetricFamily(
            "aclog_authentication_reload_failures",
            "Tokens files and key sets that could not be used.",
            labels=["source"],
        )
        failing = GaugeMetricFamily(
            "aclog_authentication_reload_failed",
            "1 while the newest cannot be used and the one before is in use.",
            labels=["source"],
        )
        for each in self._followed:
            reloads.add_metric([each.name], each.failures)
            failing.add_metric([each.name], each.failure is not None)
        yield from (refused, reloads, failing)
