"""Scrapes of /metrics of a running sidecar."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scrape:
    """One scrape.

    Attributes:
        metric_families: by name, without a counter's ``_total``.
    """

    metric_families: dict[str, Metric]

    def value(self, sample: str, **labels: str) -> float:
        """The sum of a sample's series that have these labels."""
        return sum(
            each.value
            for family in self.metric_families.values()
            for each in family.samples
            if each.name == sample and labels.items() <= each.labels.items()
        )

    def labels(self) -> dict[str, set[str]]:
        """The names of the labels of each sample."""
        found: dict[str, set[str]] = {}
        for family in self.metric_families.values():
            for each in family.samples:
                found.setdefault(each.name, set()).update(each.labels)
        return found


def scrape(client: httpx.Client) -> Scrape:
    """Scrape the sidecar."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Scrape({family.name: family for family in text_string_to_metric_families(answer.text)})
