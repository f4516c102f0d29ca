"""What a worker has counted, as it goes to another one, and what several of them have together. Pure.

Counters and histograms are added up. Everything else is each worker's own, and says whose it is by a label,
as in prometheus_client's multiprocess mode, which does not know the collectors that count here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from prometheus_client import Metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.registry import Collector

_ADDED: Final = ("counter", "histogram", "gaugehistogram", "summary")
_LABEL: Final = "worker"
_CLUSTER: Final = "cluster"


class Family(msgspec.Struct, array_like=True):
    """One metric: its samples' names, labels and values."""

    name: str
    documentation: str
    type: str
    samples: list[tuple[str, dict[str, str], float]]

    @property
    def is_summable(self) -> bool:
        """Whether those of several workers are one."""
        return self.type in _ADDED


class MergedFamilies:
    """For ``prometheus_client.generate_latest``."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """As of a registry."""
        for family in self._families:
            metric = Metric(family.name, family.documentation, family.type)
            for name, labels, value in family.samples:
                metric.add_sample(name, labels, value)
            yield metric

    def of_cluster(self, cluster: str) -> MergedFamilies:
        """What is one's of a fleet, without its name, and what is the process's."""
        families = []
        for family in self._families:
            samples = [
                (name, {key: text for key, text in labels.items() if key != _CLUSTER}, value)
                for name, labels, value in family.samples
                if labels.get(_CLUSTER, cluster) == cluster
            ]
            families.append(Family(family.name, family.documentation, family.type, samples))
        return MergedFamilies(families)


def collect_families(collector: Collector) -> list[Family]:
    """What a registry, or one of its collectors, has now."""
    return [
        Family(
            metric.name,
            metric.documentation,
            metric.type,
            [(sample.name, dict(sample.labels), float(sample.value)) for sample in metric.samples],
        )
        for metric in collector.collect()
    ]


def sum_families(families: Iterable[Family]) -> list[Family]:
    """Those that are added up, each once."""
    sums: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
    first: dict[str, Family] = {}
    for family in families:
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
    """What all workers have, by their numbers."""
    own: dict[str, Family] = {}
    for number, families in reports.items():
        for family in families:
            if not family.is_summable:
                mine = own.setdefault(family.name, Family(family.name, family.documentation, family.type, []))
                mine.samples += [
                    (name, {**labels, _LABEL: str(number)}, value) for name, labels, value in family.samples
                ]
    return [*sum_families(family for families in reports.values() for family in families), *own.values()]


def family_by_worker(name: str, documentation: str, type_: str, values: Iterable[float]) -> Family:
    """A family of one value for each worker, in their order."""
    sample = f"{name}_total" if type_ == "counter" else name
    return Family(
        name,
        documentation,
        type_,
        [(sample, {_LABEL: str(number)}, value) for number, value in enumerate(values)],
    )
