"""What a worker has counted, and those before it that died: a sum that never goes back.

A scrape that found less than the one before would look like a restart, and all of what is left like new. So
what is shown is kept beside the worker's socket, and the process that comes after it begins there; what was
counted since the last scrape is lost with the process, as it is with any.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.sidecar.workers.metric_families import Family, collect_families, sum_families
from authorizer.sidecar.workers.socket_directory import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from prometheus_client import CollectorRegistry

_decoder: Final = msgspec.msgpack.Decoder(list[Family])


class MetricArchive:
    """Those of one worker."""

    def __init__(self, registry: CollectorRegistry, path: Path) -> None:
        """``path``: where they are kept."""
        self._registry = registry
        self._path = path
        self._before = read_archive(path)
        self._showing = threading.Lock()

    def show(self) -> list[Family]:
        """All that it has now, its own and what was kept; and keep what is added up. From any thread."""
        with self._showing:
            own = collect_families(self._registry)
            sums = sum_families([*self._before, *own])
            replace_file(self._path, msgspec.msgpack.encode(sums))
        return [*sums, *(family for family in own if not family.is_summable)]


def read_archive(path: Path) -> list[Family]:
    """What was shown last of a worker; nothing if that never was."""
    try:
        return _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return []
