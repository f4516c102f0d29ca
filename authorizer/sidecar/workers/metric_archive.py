"""Metrics of a worker and of its predecessors that died: sums that never decrease.

Prometheus takes a decrease for a restart from zero, and would count the remaining value again. So each scrape
stores the sums next to the worker's socket, and the successor continues from there. Counts since the last
scrape are lost with the process, as with any process.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry

from authorizer.sidecar.workers.metric_families import Family, collect_families, sum_families
from authorizer.sidecar.workers.socket_directory import replace_file

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
