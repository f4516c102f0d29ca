"""Counters and log lines of rejected callers, and the metrics of authentication."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.listeners.log_throttle import LogThrottle

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import Metric

    from authorizer.authentication.reloading_value import ReloadingValue
    from authorizer.sidecar.http.request_origin import Origin

log = structlog.get_logger(__name__)


class RejectionCounter:
    """Those of one sidecar. Not thread-safe: the event loop's.

    ``counts``: by reason, each from the start on.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(Reason, 0)
        self._lines = LogThrottle()

    def add(self, refusal: RejectionError, origin: Origin, now_s: float) -> None:
        """Count it, and log it unless its reason was logged a short time ago."""
        reason = refusal.reason
        self.counts[reason] += 1
        if (since_last_line := self._lines.count(reason, now_s)) is None:
            return
        log.warning(
            "caller_refused",
            reason=reason.value,
            message=refusal.message,
            address=origin.address,
            listener=origin.listener.name,
            since_last_line=since_last_line,
        )


class AuthenticationCollector(Collector):
    """Refusals, and what tokens are checked with."""

    def __init__(self, refusals: RejectionCounter, followed: Sequence[ReloadingValue[Any]]) -> None:
        self._refusals = refusals
        self._reloading_values = followed

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
        for each in self._reloading_values:
            reloads.add_metric([each.name], each.failures)
            failing.add_metric([each.name], each.failure is not None)
        yield from (refused, reloads, failing)
