"""HistoryScan: backward scan of a log for the states of the time bar.

The scan starts at the current state and adds older parts, the newest part first. A second reader loads a
state before the part and reads forward; the changes are then undone one by one on the known state. So all
states share the columns of the current state. States on other columns are retained while these have few rows.

If the log starts after offset 0 or lacks records (I6), Spark's stored history replaces everything before the
first state from which the log is complete (``stored_history``).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from authorizer.console.history.history_states import (
    EARLIER_ROWS_MAXIMUM,
    HistoryState,
    StoredStates,
    count_changes,
    scan_states,
)
from authorizer.node.recent_states import count_to_evict
from records.log.base import read_with_retry
from replay.clock import SystemClock
from replay.core import LOG_START
from replay.errors import LogGapError, OffsetUnavailableError, ReplayError
from replay.load_image import load_image
from replay.steps import first_state
from snapshot.image import AclsImage, Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.base import LogIdentity, MetadataLog
    from replay.snapshot_source import SnapshotSource

_log: Final = structlog.get_logger(__name__)
#: Maximum number of retained states, and of ACLs in all of their changes.
STATES_MAXIMUM: Final = 20_000
CHANGES_MAXIMUM: Final = 200_000
#: Offsets of the first part, for which a request waits, and of each later part.
FIRST_PART_OFFSETS: Final = 1 << 14
PART_OFFSETS: Final = 1 << 16
# Origins of the first state if it is neither the log's start nor a snapshot.
_IN_PROGRESS: Final = "the log is being read"
_EVICTED: Final = "older states are not held in memory"


def _log_error(before_offset: int, error: Exception) -> None:
    _log.warning("console_past_unknown", before_offset=before_offset, error=str(error))


class History(NamedTuple):
    """The states that are known now.

    Attributes:
        states: in order; between two of them no ACL changed.
        origin: why nothing is known before the first state, for users.
        is_complete: whether nothing came before the first state.
        progress: offsets scanned, and offsets in all; None after the scan.
        refusal: why the stored history is not used, for users.
    """

    states: tuple[HistoryState, ...]
    end: int
    origin: str
    is_complete: bool
    progress: tuple[int, int] | None
    refusal: str | None = None

    def index_at(self, end_offset: int) -> int | None:
        """Return the index of the state at ``end_offset``; None if it is unknown or never existed."""
        if not self.states or end_offset > self.end:
            return None
        index = bisect_right(self.states, end_offset, key=lambda state: state.end_offset) - 1
        if index < 0:
            return None
        later = self.states[index + 1] if index + 1 < len(self.states) else None
        if later is not None and later.unknown_from is not None and end_offset > later.unknown_from:
            return None
        return None if later is not None and later.has_inside(end_offset) else index

    def state_at(self, time_ms: int) -> HistoryState:
        """Return the last state up to a time; the first one if it is later."""
        known = (each for each in reversed(self.states) if each.timestamp_ms <= time_ms)
        return next(known, self.states[0])

    def state_around(self, end_offset: int) -> HistoryState | None:
        """Return the state whose batch or transaction contains ``end_offset``, if any."""
        index = bisect_right(self.states, end_offset, key=lambda state: state.end_offset)
        return next((each for each in self.states[index : index + 1] if each.has_inside(end_offset)), None)


class HistoryScan:
    """See the module. Thread-safe; one thread extends it."""

    def __init__(
        self,
        open_log: Callable[[], MetadataLog],
        sources: Callable[[MetadataLog], Sequence[SnapshotSource]],
        pause: Callable[[], None],
        read_stored: Callable[[LogIdentity, HistoryState], StoredStates] | None = None,
        on_error: Callable[[int, Exception], None] = _log_error,
    ) -> None:
        """Create it without states.

        ``pause`` is called often during a scan; it may wait for requests in progress. ``on_error`` receives
        the error that ends a scan, and the offset before which nothing is known.
        """
        self._on_error = on_error
        self._open_log = open_log
        self._sources = sources
        self._pause = pause
        self._read_stored = read_stored
        self._lock = threading.Lock()
        self._generation = 0
        self.clear()

    def clear(self) -> None:
        """Drop all states; the next update starts a new scan."""
        with self._lock:
            self._states: deque[HistoryState] = deque()
            self._end = 0
            self._change_count = 0
            self._stored: StoredStates | None = None
            self._refusal: str | None = None
            self._origin = _IN_PROGRESS
            self._is_done = False
            self._parts = self._part_begin = 0
            self._progress = 0, 0

    def update(self, generation: int, now: AclsImage) -> History:
        """Extend the states to ``now``, the node's current one, and return all that are known.

        ``generation``: how often the node has reloaded its log; a new value drops all states. Raises what
        reading and replaying the log raises.
        """
        end = now.provenance.end_offset
        if generation != self._generation or end - self._end > PART_OFFSETS:
            self.clear()
        with self._lock:
            self._generation = generation
            if not self._states:
                self._states.append(HistoryState(now, now.provenance.timestamp_ms, (), 0, 0))
                self._end = end
            elif end > self._end:
                with closing(self._open_log()) as log:
                    last = self._states[-1].image
                    provenance = Provenance(self._end, last.provenance.epoch, last.provenance.timestamp_ms)
                    part = scan_states(
                        log, msgspec.structs.replace(last, provenance=provenance), now, lambda *_: None
                    )
                self._states.extend(part[1:])
                self._change_count += count_changes(part)
                self._end = end
                self._is_done = self._evict() or self._is_done
            return self._known()

    def _known(self) -> History:
        stored, states = self._stored, tuple(self._states)
        if stored is not None:
            return History((*stored.states, *states), self._end, stored.origin, stored.is_complete, None)
        is_complete = self._origin == LOG_START and not states[0].end_offset
        progress = None if self._is_done else self._progress
        return History(states, self._end, self._origin, is_complete, progress, self._refusal)

    @property
    def has_begun(self) -> bool:
        """Whether the first part was scanned, or failed."""
        return self._parts > 0

    @property
    def is_done(self) -> bool:
        return self._is_done

    def extend(self) -> None:
        """Scan one more part of the log, before the known states. Takes long.

        An error ends the scan and becomes the origin of the first state.
        """
        with self._lock:
            if not self._states or self._is_done:
                return
            first, generation = self._states[0], self._generation
        try:
            with closing(self._open_log()) as log:
                identity = log.identity
                before, origin = self._state_before(log, first.end_offset)
                part = scan_states(log, before, first.image, self._report_progress)
        except Exception as error:  # noqa: BLE001 - shown on the page: a thread has no caller
            self._on_error(first.end_offset, error)
            identity, origin, part = None, str(error), [first]
        with self._lock:
            if generation != self._generation or not self._states or self._states[0] is not first:
                return
            self._states.popleft()
            self._states.extendleft(reversed(part))
            self._change_count += count_changes(part)
            self._origin = origin
            is_full = self._evict()
        if origin != _IN_PROGRESS and not is_full and identity is not None and self._read_stored is not None:
            self._join(self._read_stored, identity)
        self._is_done = is_full or origin != _IN_PROGRESS
        self._parts += 1

    def _join(
        self, read_stored: Callable[[LogIdentity, HistoryState], StoredStates], identity: LogIdentity
    ) -> None:
        """Replace the states before the last missing record by the stored ones."""
        with self._lock:
            states = tuple(self._states)
        index = max((index for index, each in enumerate(states) if each.unknown_from is not None), default=0)
        if not states or not states[index].end_offset:
            return
        try:
            stored = read_stored(identity, states[index])
        except Exception as error:  # noqa: BLE001 - shown on the page, as in `extend`
            _log.warning("console_history_unread", error=str(error))
            self._refusal = str(error)
            return
        with self._lock:
            if len(self._states) <= index or self._states[index] is not states[index]:
                return
            for _ in range(index):
                self._change_count -= len(self._states.popleft().changes or ())
            self._change_count += len(stored.joined.changes or ()) - len(self._states[0].changes or ())
            self._states[0] = stored.joined
            self._stored = stored

    def _state_before(self, log: MetadataLog, end: int) -> tuple[AclsImage, str]:
        """A state one part before an end offset, or the first state of all; and its origin."""
        start, size = log.start_offset(), PART_OFFSETS if self._parts else FIRST_PART_OFFSETS
        self._progress = self._end - end, self._end - start
        begin = self._part_begin = end - size
        if begin > start and (batches := read_with_retry(log, begin)):
            try:
                begin = batches[0].base_offset
                found = load_image(
                    log, self._sources(log), at_offset=begin - 1, on_progress=lambda *_: self._pause()
                )
            except (OffsetUnavailableError, LogGapError):
                pass  # this state cannot be known, but the first one can
            else:
                return found.image, _IN_PROGRESS
        first = first_state(log, self._sources(log), SystemClock())
        if first.image.provenance.end_offset > end:
            raise ReplayError(f"before offset {first.image.provenance.end_offset}: {first.origin}")
        return first.image, first.origin

    def _report_progress(self, offset: int, end: int) -> None:
        """Record how far a part that ends at ``end`` was scanned."""
        scanned = self._end - end + max(0, offset - self._part_begin)
        self._progress = scanned, self._progress[1]
        self._pause()

    def _evict(self) -> bool:
        """Drop the oldest states and changes over the limits; return whether any were dropped."""
        states = self._states
        columns = [each.image.columns for each in states]
        drop = max(len(states) - STATES_MAXIMUM, count_to_evict(columns, EARLIER_ROWS_MAXIMUM))
        for _ in range(drop):
            self._change_count -= len(states.popleft().changes or ())
            self._stored = None  # records would be missing after it
        dropped_changes = 0
        while self._change_count > CHANGES_MAXIMUM and dropped_changes < len(states):
            self._change_count -= len(states[dropped_changes].changes or ())
            states[dropped_changes] = states[dropped_changes]._replace(changes=None)
            dropped_changes += 1
        if drop > 0 or (dropped_changes and self._origin == _IN_PROGRESS):
            self._origin = _EVICTED
        return drop > 0 or dropped_changes > 0


#: Time without a request after which the scanned states are dropped.
IDLE_TTL_S: Final = 600.0


class ScanThread:
    """Scans a log backwards while the console is in use. Thread-safe.

    Drops the scanned states after ten idle minutes.
    """

    def __init__(self, scan: HistoryScan, clear_caches: Callable[[], None]) -> None:
        """``clear_caches``: drops everything that was computed from the scanned states."""
        self._scan = scan
        self._clear_caches = clear_caches
        self._lock = threading.Lock()
        self._touched = threading.Event()
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def touch(self) -> None:
        """Keep the scan going, because the console is in use."""
        with self._lock:
            self._touched.set()
            if self._thread is None and not self._is_closed:
                self._thread = threading.Thread(target=self._run, name="aclog-console-scan", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """End the scan and drop the states, without waiting. From any thread; idempotent."""
        with self._lock:
            self._is_closed = True
            self._touched.set()

    def _run(self) -> None:
        while True:
            while not (self._scan.is_done or self._is_closed):
                self._scan.extend()
            if not self._is_closed and self._touched.wait(IDLE_TTL_S):
                self._touched.clear()
                continue
            with self._lock:
                if self._is_closed or not self._touched.is_set():
                    self._scan.clear()
                    self._clear_caches()
                    self._thread = None
                    return
