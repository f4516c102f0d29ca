"""KeptCounts: how many ACLs there were when, as ``aclog spark counts`` has kept it.

Its files are read one after the other, each once, and without Spark. A look ends after some seconds; the next
one goes on where it ended, so that no thread is kept for long.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from snapshot.jobs.counts.count_files import CountFiles, state_store
from snapshot.jobs.counts.count_rows import MINUTE_MS
from snapshot.store.committed import committed_state

if TYPE_CHECKING:
    from records.log.base import LogIdentity

#: For how long a look reads, and how long what it found is given out once all is read.
_LOOK_S: Final = 2.0
_KEPT_S: Final = 30.0
#: Times that are told apart; more are counted by longer spans.
_TIMES_MAX: Final = 100_000
_COARSER: Final = 60
#: Points that are drawn.
_POINTS_MAX: Final = 400


class StoredCounts:
    """Of one log. Thread-safe; ``look`` takes a while."""

    def __init__(self, output: str) -> None:
        """``output``: of the job, a path or a URL that fsspec knows."""
        self._output = output
        self._looking = threading.Lock()
        self._forget()

    def look(self, identity: LogIdentity) -> dict[str, Any]:
        """What is known of a log: from when to when, and at most _POINTS_MAX points of (ms, count).

        Raises:
            SnapshotError, SparkJobError: it cannot be read.
        """
        with self._looking:
            if time.monotonic() >= self._known_until_s:
                self._read(identity)
            return self._shown()

    def _forget(self) -> None:
        self._deltas: Counter[int] = Counter()
        self._span_ms = MINUTE_MS
        self._read_ends: set[int] = set()
        self._left = 0
        self._end_ms: int | None = None
        self._known_until_s = 0.0

    def _read(self, identity: LogIdentity) -> None:
        ends_s = time.monotonic() + _LOOK_S
        state = committed_state(state_store(self._output), identity)
        tables = CountFiles(self._output)
        files = {} if state is None else tables.deltas_by_end(identity.cluster_id)
        if state is None or not self._read_ends <= files.keys():
            self._forget()  # the job was started anew
        if state is None:
            return
        self._end_ms = max(state.log_end_time_ms, state.provenance.timestamp_ms)
        wanted = sorted(end for end in files.keys() - self._read_ends if end <= state.provenance.end_offset)
        for done, end in enumerate(wanted):
            if time.monotonic() >= ends_s:
                self._left = len(wanted) - done
                return
            self._add(tables.deltas(files[end]))
            self._read_ends.add(end)
        self._left = 0
        self._known_until_s = time.monotonic() + _KEPT_S

    def _add(self, deltas: dict[int, int]) -> None:
        for minute_ms, delta in deltas.items():
            self._deltas[minute_ms // self._span_ms * self._span_ms] += delta
        while len(self._deltas) > _TIMES_MAX:
            self._span_ms *= _COARSER
            finer, self._deltas = self._deltas, Counter()
            for at_ms, delta in finer.items():
                self._deltas[at_ms // self._span_ms * self._span_ms] += delta

    def _shown(self) -> dict[str, Any]:
        times = sorted(self._deltas)
        counts = accumulate(self._deltas[each] for each in times)
        points = list(zip(times, counts, strict=True))
        if len(points) > _POINTS_MAX:
            first, span = times[0], (times[-1] - times[0]) // (_POINTS_MAX - 1) or 1
            # The last of each span.
            points = list({(at - first) // span: (at, count) for at, count in points}.values())
        return {
            "from": times[0] if times else None,
            "until": self._end_ms,
            "span": self._span_ms,
            "points": points,
            "files_left": self._left,
        }
