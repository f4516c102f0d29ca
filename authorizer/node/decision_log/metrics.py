"""What the decision log shows to Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from authorizer.node.decision_log.decision_log import DecisionLog


class DecisionLogCollector(Collector):
    """Events by destination; decisions without an event of their own."""

    def __init__(self, decision_log: DecisionLog) -> None:
        self._decision_log = decision_log

    def collect(self) -> Iterator[Metric]:
        written = CounterMetricFamily(
            "aclog_decision_events_written", "Decision events that are written.", labels=["destination"]
        )
        lost = CounterMetricFamily(
            "aclog_decision_events_lost", "Decision events that could not be written.", labels=["destination"]
        )
        for each in self._decision_log.destinations:
            written.add_metric([each.name], each.written)
            lost.add_metric([each.name], each.lost)
        without = CounterMetricFamily(
            "aclog_decisions_without_event",
            "Decisions without an event of their own: dropped or sampled out by a rule, folded into an "
            "earlier one's, lost because too many waited.",
            labels=["why"],
        )
        counts = self._decision_log
        for why, count in (
            ("dropped", counts.dropped),
            ("sampled_out", counts.sampled_out),
            ("folded", counts.folded),
            ("lost", counts.lost),
        ):
            without.add_metric([why], count)
        yield from (written, lost, without)
