"""Metric families in the form that workers exchange, and their merge.

Counters and histograms of all workers are summed. Other metrics get the label ``worker``, as in
prometheus_client's multiprocess mode, which does not support custom collectors.

Sums never decrease, also if a worker dies: Prometheus takes a decrease for a restart from zero, and would
count the remaining value again. So each scrape stores the sums next to the worker's socket, and the successor
continues from there (MetricArchive). Counts since the last scrape are lost with the process.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.registry import Collector

from authorizer.sidecar.workers.socket_directory import replace_file

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


_decoder: Final = msgspec.msgpack.Decoder(list[Family])


class MetricArchive:
    """The metrics of one worker."""

    def __init__(self, registry: CollectorRegistry, path: Path) -> None:
        """``path``: of the stored sums."""
        self._registry = registry
        self._path = path
        self._archived = read_archive(path)
        self._lock = threading.Lock()

    def collect_and_store(self) -> list[Family]:
        """Return the current metrics with the stored sums added, and store the new sums. Thread-safe."""
        with self._lock:
            current = collect_families(self._registry)
            sums = sum_families([*self._archived, *current])
            replace_file(self._path, msgspec.msgpack.encode(sums))
        return [*sums, *(family for family in current if not family.is_summable)]


def read_archive(path: Path) -> list[Family]:
    """Return a worker's stored sums; none if there was no scrape."""
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return []
