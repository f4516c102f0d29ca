"""StoredCounts: number of ACLs over time, as stored by ``aclog spark counts``.

The files are read one after the other, each once, without Spark. One read takes at most two seconds; the next
one continues where it ended.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import accumulate
from typing import Any, Final

from records.log.base import LogIdentity
from snapshot.jobs.counts.count_files import CountFiles, state_store
from snapshot.jobs.counts.count_rows import MINUTE_MS
from snapshot.store.snapshot_store import SnapshotStore

#: Maximum time of one read, and how long its result is cached once all files are read.
_READ_TIMEOUT_S: Final = 2.0
_CACHE_TTL_S: Final = 30.0
#: Maximum number of distinct times; with more, spans become longer by this factor.
_TIMES_MAXIMUM: Final = 100_000
_SPAN_FACTOR: Final = 60
#: Maximum number of points in an answer.
_POINTS_MAXIMUM: Final = 400


class StoredCounts:
    """The counts of one log. Thread-safe; ``read`` may take seconds."""

    def __init__(self, output: str) -> None:
        """``output``: the job's output, a path or a URL of fsspec."""
        self._output = output
        self._lock = threading.Lock()
        self._clear()

    def read(self, identity: LogIdentity) -> dict[str, Any]:
        """Return the known time range, and at most _POINTS_MAXIMUM points of (ms, count).

        SnapshotError, SparkJobError: the counts cannot be read.
        """
        with self._lock:
            if time.monotonic() >= self._cached_until_s:
                self._read_files(identity)
            return self._to_json()

    def _clear(self) -> None:
        self._deltas: Counter[int] = Counter()
        self._span_ms = MINUTE_MS
        self._read_ends: set[int] = set()
        self._files_left = 0
        self._end_ms: int | None = None
        self._cached_until_s = 0.0

    def _read_files(self, identity: LogIdentity) -> None:
        deadline_s = time.monotonic() + _READ_TIMEOUT_S
        state = SnapshotStore(state_store(self._output)).newest_complete(identity)
        tables = CountFiles(self._output)
        files = {} if state is None else tables.deltas_by_end(identity.cluster_id)
        if state is None or not self._read_ends <= files.keys():
            self._clear()  # the job was started again
        if state is None:
            return
        self._end_ms = max(state.log_end_time_ms, state.provenance.timestamp_ms)
        unread = sorted(end for end in files.keys() - self._read_ends if end <= state.provenance.end_offset)
        for done, end in enumerate(unread):
            if time.monotonic() >= deadline_s:
                self._files_left = len(unread) - done
                return
            self._add(tables.deltas(files[end]))
            self._read_ends.add(end)
        self._files_left = 0
        self._cached_until_s = time.monotonic() + _CACHE_TTL_S

    def _add(self, deltas: dict[int, int]) -> None:
        for minute_ms, delta in deltas.items():
            self._deltas[minute_ms // self._span_ms * self._span_ms] += delta
        while len(self._deltas) > _TIMES_MAXIMUM:
            self._span_ms *= _SPAN_FACTOR
            finer, self._deltas = self._deltas, Counter()
            for at_ms, delta in finer.items():
                self._deltas[at_ms // self._span_ms * self._span_ms] += delta

    def _to_json(self) -> dict[str, Any]:
        times = sorted(self._deltas)
        counts = accumulate(self._deltas[each] for each in times)
        points = list(zip(times, counts, strict=True))
        if len(points) > _POINTS_MAXIMUM:
            first, span = times[0], (times[-1] - times[0]) // (_POINTS_MAXIMUM - 1) or 1
            # The last point of each span.
            points = list({(at - first) // span: (at, count) for at, count in points}.values())
        return {
            "from": times[0] if times else None,
            "until": self._end_ms,
            "span": self._span_ms,
            "points": points,
            "files_left": self._files_left,
        }
