"""Metric families in the form that workers exchange, and their merge. Pure.

Counters and histograms of all workers are summed. Other metrics get the label ``worker``, as in
prometheus_client's multiprocess mode, which does not support custom collectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
from prometheus_client import Metric
from prometheus_client.registry import Collector

_ADDED: Final = ("counter", "histogram", "gaugehistogram", "summary")
_LABEL: Final = "worker"
_CLUSTER: Final = "cluster"


class Family(msgspec.Struct, array_like=True):
    """One metric family: names, labels and values of its samples."""

    name: str
    documentation: str
    type: str
    samples: list[tuple[str, dict[str, str], float]]

    @property
    def is_summable(self) -> bool:
        """Whether the values of several workers are summed."""
        return self.type in _ADDED


class MergedFamilies:
    """Metric families as a registry, for ``prometheus_client.generate_latest``."""

    def __init__(self, metric_families: Iterable[Family]) -> None:
        self._metric_families = metric_families

    def collect(self) -> Iterator[Metric]:
        """Return the metrics as a registry does."""
        for family in self._metric_families:
            metric = Metric(family.name, family.documentation, family.type)
            for name, labels, value in family.samples:
                metric.add_sample(name, labels, value)
            yield metric

    def of_cluster(self, cluster: str) -> MergedFamilies:
        """Return the metrics of one cluster, without the label ``cluster``, and those of the process."""
        metric_families = []
        for family in self._metric_families:
            samples = [
                (name, {key: text for key, text in labels.items() if key != _CLUSTER}, value)
                for name, labels, value in family.samples
                if labels.get(_CLUSTER, cluster) == cluster
            ]
            metric_families.append(Family(family.name, family.documentation, family.type, samples))
        return MergedFamilies(metric_families)


def collect_families(collector: Collector) -> list[Family]:
    """Return the current metric families of a registry or a collector."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples],
        )
        for metric in collector.collect()
    ]


def sum_families(metric_families: Iterable[Family]) -> list[Family]:
    """Return the summable families, one for each name, with summed values."""
    sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    first: dict[str, Family] = {}
    for family in metric_families:
        if family.is_summable:
            first.setdefault(family.name, family)
            of_family = sums.setdefault(family.name, {})
            for name, labels, value in family.samples:
                key = name, tuple(labels.items())
                of_family[key] = of_family.get(key, 0.0) + value
    return [
        Family(
            name,
            family.documentation,
            family.type,
            [(sample, dict(labels), value) for (sample, labels), value in sums[name].items()],
        )
        for name, family in first.items()
    ]


def merge_families(reports: Mapping[int, Iterable[Family]]) -> list[Family]:
    """Merge the families of all workers; ``reports`` has them by worker number."""
    unsummed: dict[str, Family] = {}
    for number, metric_families in reports.items():
        for family in metric_families:
            if not family.is_summable:
                merged = unsummed.setdefault(
                    family.name, Family(family.name, family.documentation, family.type, [])
                )
                merged.samples += [
                    (name, {**labels, _LABEL: str(number)}, value) for name, labels, value in family.samples
                ]
    return [
        *sum_families(family for metric_families in reports.values() for family in metric_families),
        *unsummed.values(),
    ]


def family_by_worker(name: str, documentation: str, type_: str, values: Iterable[float]) -> Family:
    """Return a family with one value for each worker, in the order of their numbers."""
    sample = f"{name}_total" if type_ == "counter" else name
    return Family(
        name,
        documentation,
        type_,
        [(sample, {_LABEL: str(number)}, value) for number, value in enumerate(values)],
    )
