"""What /metrics of a running sidecar says."""

from __future__ import annotations

from dataclasses import dataclass

import httpx
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True)
class Scraped:
    """One scrape.

    Attributes:
        families: by their names, without a counter's ``_total``.
    """

    families: dict[str, Metric]

    def value(self, sample: str, **labels: str) -> float:
        """The sum of a sample's series that have these labels."""
        return sum(
            each.value
            for family in self.families.values()
            for each in family.samples
            if each.name == sample and labels.items() <= each.labels.items()
        )

    def labels(self) -> dict[str, set[str]]:
        """The names of the labels of each sample."""
        found: dict[str, set[str]] = {}
        for family in self.families.values():
            for each in family.samples:
                found.setdefault(each.name, set()).update(each.labels)
        return found


def scrape(client: httpx.Client) -> Scraped:
    """Ask for it."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    return Scraped({family.name: family for family in text_string_to_metric_families(answer.text)})
