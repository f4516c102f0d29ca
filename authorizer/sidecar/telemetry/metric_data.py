"""Metrics of a Prometheus registry as OpenTelemetry's data, under the same names.

A counter has no ``_total``, as OpenTelemetry names them; Prometheus' own receiver of OTLP puts it back.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import prometheus_client
    from opentelemetry.sdk.resources import Resource
    from prometheus_client.samples import Sample

#: By how a name ends, in UCUM.
_UNITS: Final = {"_seconds": "s", "_ms": "ms", "_bytes": "By"}
_SCOPE: Final = InstrumentationScope("aclog")


def metrics_data(
    metric_families: Iterable[prometheus_client.Metric], resource: Resource, *, since_ns: int, now_ns: int
) -> MetricsData:
    """All metrics, collected now; ``since_ns``: when the counters were zero, since the epoch."""
    metrics = [_metric(family, since_ns, now_ns) for family in metric_families if family.samples]
    scope = ScopeMetrics(scope=_SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(family: prometheus_client.Metric, since_ns: int, now_ns: int) -> Metric:
    data: Sum | Gauge | Histogram
    if family.type == "histogram":
        data = Histogram(
            [_histogram(series, since_ns, now_ns) for series in _series(family.samples)],
            AggregationTemporality.CUMULATIVE,
        )
    else:
        is_counter = family.type == "counter"
        start_ns = since_ns if is_counter else now_ns
        points = [
            NumberDataPoint(each.labels, start_ns, now_ns, float(each.value))
            for each in family.samples
            if not each.name.endswith("_created")
        ]
        data = Sum(points, AggregationTemporality.CUMULATIVE, is_counter) if is_counter else Gauge(points)
    unit = next((unit for end, unit in _UNITS.items() if family.name.endswith(end)), "")
    return Metric(name=family.name, description=family.documentation, unit=unit, data=data)


def _series(samples: Iterable[Sample]) -> Iterator[list[Sample]]:
    """The samples of each histogram: its buckets, then its count and its sum."""
    series: list[Sample] = []
    for each in samples:
        series.append(each)
        if each.name.endswith("_sum"):
            yield series
            series = []


def _histogram(series: list[Sample], since_ns: int, now_ns: int) -> HistogramDataPoint:
    buckets = [each for each in series if each.name.endswith("_bucket")]
    cumulative = [int(each.value) for each in buckets]
    labels = {name: value for name, value in buckets[0].labels.items() if name != "le"}
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=since_ns,
        time_unix_nano=now_ns,
        count=cumulative[-1],
        sum=series[-1].value,
        bucket_counts=[cumulative[0], *(after - before for before, after in pairwise(cumulative))],
        explicit_bounds=[float(each.labels["le"]) for each in buckets[:-1]],
        # Not known; the encoder leaves them out.
        min=None,  # type: ignore[arg-type]
        max=None,  # type: ignore[arg-type]
    )
