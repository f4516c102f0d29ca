"""KIP-801's AclCount for Prometheus, by cluster and kind, as of the last committed batch of each log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from snapshot.jobs.counts.count_rows import AclKind


class AclCountMetric(Collector):
    """One gauge; a kind whose ACLs were all removed is exported as 0."""

    def __init__(self) -> None:
        self._counts: Mapping[str, Mapping[AclKind, int]] = MappingProxyType({})

    def publish(self, cluster_id: str, counts: Mapping[AclKind, int]) -> None:
        """Set the counts of one cluster. Called by one thread."""
        before = self._counts.get(cluster_id, {})
        # A single assignment: a scrape in another thread sees either the old or the new counts.
        self._counts = {**self._counts, cluster_id: {**dict.fromkeys(before, 0), **counts}}

    def describe(self) -> list[Metric]:
        """Empty: the registry has no other metrics of these names."""
        return []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "kafka_server_authorizer_aclcount",
            "ACLs in force (KIP-801 AclCount).",
            labels=["cluster_id", *AclKind._fields],
        )
        for cluster_id, counts in sorted(self._counts.items()):
            for kind, count in sorted(counts.items()):
                family.add_metric([cluster_id, *kind], count)
        yield family
