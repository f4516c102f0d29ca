"""Durations: a histogram of durations, as a metric."""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily

#: Upper bounds of the buckets: an evaluation takes tens of microseconds, a listing seconds.
BOUNDS_S: Final = (
    *(0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01),
    *(0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)
_LABELS: Final = [*map(floatToGoString, BOUNDS_S), "+Inf"]


class Durations:
    """A histogram of durations."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * len(_LABELS)
        self._sum_s = 0.0

    def add(self, duration_s: float) -> None:
        self._counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self._sum_s += duration_s

    def show(self, family: HistogramMetricFamily, labels: tuple[str, ...] = ()) -> None:
        buckets = list(zip(_LABELS, accumulate(self._counts), strict=True))
        family.add_metric(labels, buckets, self._sum_s)
