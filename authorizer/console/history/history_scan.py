"""Past: the states that a log went through, so that a page can step through them.

It begins with the state of now, and is extended backwards part by part, the newest first: a second reader
takes a part of the log from a state before it, and what it finds is undone, change by change, on the state
that is known. So all states stand on the columns that decide now, and share what did not change. States on
other columns are held while those are few rows together; what is before the first state that is held is not
known here.

Where the log has forgotten its beginning, or has holes (I6), and a history was kept of it, that comes before
the first state from which on the log itself tells everything (``stored_history``).
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import structlog

from authorizer.analysis.retained_tables import too_early
from authorizer.console.history.history_states import (
    EARLIER_ROWS_MAXIMUM,
    HistoryState,
    StoredStates,
    acls_in,
    scan_states,
)
from records.log.read_with_retry import read_with_retry
from replay.clock import SystemClock
from replay.core import LOG_START
from replay.errors import LogGapError, OffsetUnavailableError, ReplayError
from replay.load_image import load_image
from replay.steps import first_state
from snapshot.image import Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.base import LogIdentity, MetadataLog
    from replay.snapshot_source import SnapshotSource
    from snapshot.image import AclsImage

_log: Final = structlog.get_logger(__name__)
#: States that are held at most; ACLs in all of their changes.
HELD_MAXIMUM: Final = 20_000
HELD_ACLS_MAXIMUM: Final = 200_000
#: Offsets of the first part that is looked through, which people wait for; and of each one before it.
FIRST_PART: Final = 1 << 14
PART: Final = 1 << 16
# What is before the first moment, where that is no snapshot.
_MORE: Final = "it is being looked through"
_TOO_MUCH: Final = "more is not kept in memory"


class History(NamedTuple):
    """What is held at one moment.

    Attributes:
        moments: in order; between two of them no ACL changed.
        end: the end offset up to which.
        origin: why nothing is known before the first one, for people.
        is_whole: nothing was before the first one.
        progress: how many offsets were looked through, and how many there are; None when that is over.
        refusal: why a kept history is not among them, for people.
    """

    moments: tuple[HistoryState, ...]
    end: int
    origin: str
    is_whole: bool
    progress: tuple[int, int] | None
    refusal: str | None = None

    def at(self, end_offset: int) -> int | None:
        """Which moment's state ends at ``end_offset``; None if it is not known, or was never visible."""
        if not self.moments or end_offset > self.end:
            return None
        at = bisect_right(self.moments, end_offset, key=lambda moment: moment.end_offset) - 1
        if at < 0:
            return None
        later = self.moments[at + 1] if at + 1 < len(self.moments) else None
        if later is not None and later.unknown_from is not None and end_offset > later.unknown_from:
            return None
        return None if later is not None and later.has_inside(end_offset) else at

    def around(self, end_offset: int) -> HistoryState | None:
        """The moment inside whose batch or transaction a state would end there, if there is one."""
        at = bisect_right(self.moments, end_offset, key=lambda moment: moment.end_offset)
        return next((each for each in self.moments[at : at + 1] if each.has_inside(end_offset)), None)


class HistoryScan:
    """See the module. Thread-safe; one thread extends it."""

    def __init__(
        self,
        open_log: Callable[[], MetadataLog],
        sources: Callable[[MetadataLog], Sequence[SnapshotSource]],
        pause: Callable[[], None],
        keeper: Callable[[LogIdentity, HistoryState], StoredStates] | None = None,
    ) -> None:
        """Begin with nothing.

        Args:
            open_log: a reader of its own.
            sources: where snapshots of it may be.
            pause: called again and again while the log is looked through, to let others go first.
            keeper: finds what is before a moment in a kept history.
        """
        self._open_log = open_log
        self._sources = sources
        self._pause = pause
        self._keeper = keeper
        self._looking = threading.Lock()
        self._generation = 0
        self.forget()

    def forget(self) -> None:
        """Give its memory back; a look begins anew."""
        with self._looking:
            self._moments: deque[HistoryState] = deque()
            self._end = 0
            self._acls = 0
            self._kept: StoredStates | None = None
            self._refusal: str | None = None
            self._origin = _MORE
            self._is_over = False
            self._parts = self._part_begin = 0
            self._progress = 0, 0

    def look(self, generation: int, now: AclsImage) -> History:
        """Everything that is known, up to the state of now: that was not looked for before is looked for.

        Args:
            generation: how often the node has loaded its log anew: what was known before that is forgotten.
            now: the node's state.

        Raises:
            LogError, OSError: the log cannot be read.
            DecodeError, ReplayError: what is in it.
        """
        end = now.provenance.end_offset
        if generation != self._generation or end - self._end > PART:
            self.forget()
        with self._looking:
            self._generation = generation
            if not self._moments:
                self._moments.append(HistoryState(now, now.provenance.timestamp_ms, (), 0, 0))
                self._end = end
            elif end > self._end:
                with closing(self._open_log()) as log:
                    last = self._moments[-1].image
                    here = Provenance(self._end, last.provenance.epoch, last.provenance.timestamp_ms)
                    part = scan_states(
                        log, msgspec.structs.replace(last, provenance=here), now, lambda *_: None
                    )
                self._moments.extend(part[1:])
                self._acls += acls_in(part)
                self._end = end
                self._is_over = self._forget_early() or self._is_over
            return self._walked()

    def _walked(self) -> History:
        kept, moments = self._kept, tuple(self._moments)
        if kept is not None:
            return History((*kept.moments, *moments), self._end, kept.origin, kept.is_whole, None)
        is_whole = self._origin == LOG_START and not moments[0].end_offset
        progress = None if self._is_over else self._progress
        return History(moments, self._end, self._origin, is_whole, progress, self._refusal)

    @property
    def has_begun(self) -> bool:
        """Whether something of the past is known, or nothing will be."""
        return self._parts > 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be looked through."""
        return self._is_over

    def extend(self) -> None:
        """Look through one more part of the log, the one before what is known. Takes long.

        Where that fails, the reason is said in place of what is before, and nothing more is looked through.
        """
        with self._looking:
            if not self._moments or self._is_over:
                return
            first, generation = self._moments[0], self._generation
        try:
            with closing(self._open_log()) as log:
                identity = log.identity
                before, origin = self._state_before(log, first.end_offset)
                part = scan_states(log, before, first.image, self._at)
        except Exception as error:  # noqa: BLE001 - said on the page: a thread has no caller
            _log.warning("console_past_unknown", before_offset=first.end_offset, error=str(error))
            identity, origin, part = None, str(error), [first]
        with self._looking:
            if generation != self._generation or not self._moments or self._moments[0] is not first:
                return
            self._moments.popleft()
            self._moments.extendleft(reversed(part))
            self._acls += acls_in(part)
            self._origin = origin
            is_full = self._forget_early()
        if origin != _MORE and not is_full and identity is not None and self._keeper is not None:
            self._join(self._keeper, identity)
        self._is_over = is_full or origin != _MORE
        self._parts += 1

    def _join(
        self, keeper: Callable[[LogIdentity, HistoryState], StoredStates], identity: LogIdentity
    ) -> None:
        """Put what was kept in the place of everything before the last hole."""
        with self._looking:
            moments = tuple(self._moments)
        at = max((at for at, each in enumerate(moments) if each.unknown_from is not None), default=0)
        if not moments or not moments[at].end_offset:
            return
        try:
            kept = keeper(identity, moments[at])
        except Exception as error:  # noqa: BLE001 - said on the page, as in `extend`
            _log.warning("console_history_unread", error=str(error))
            self._refusal = str(error)
            return
        with self._looking:
            if len(self._moments) <= at or self._moments[at] is not moments[at]:
                return
            for _ in range(at):
                self._acls -= len(self._moments.popleft().changes or ())
            self._acls += len(kept.joined.changes or ()) - len(self._moments[0].changes or ())
            self._moments[0] = kept.joined
            self._kept = kept

    def _state_before(self, log: MetadataLog, end: int) -> tuple[AclsImage, str]:
        """A state some way before an end offset, or the first one of all; and what is before that."""
        start, size = log.start_offset(), PART if self._parts else FIRST_PART
        self._progress = self._end - end, self._end - start
        at = self._part_begin = end - size
        if at > start and (batches := read_with_retry(log, at)):
            try:
                at = batches[0].base_offset
                found = load_image(
                    log, self._sources(log), at_offset=at - 1, on_progress=lambda *_: self._pause()
                )
            except (OffsetUnavailableError, LogGapError):
                pass  # there are states that cannot be known, but the first one
            else:
                return found.image, _MORE
        first = first_state(log, self._sources(log), SystemClock())
        if first.image.provenance.end_offset > end:
            raise ReplayError(f"before offset {first.image.provenance.end_offset}: {first.origin}")
        return first.image, first.origin

    def _at(self, offset: int, end: int) -> None:
        """How far a part has been looked through that ends there."""
        looked = self._end - end + max(0, offset - self._part_begin)
        self._progress = looked, self._progress[1]
        self._pause()

    def _forget_early(self) -> bool:
        """Drop changes of early moments where all are too many, and moments where these are; whether any."""
        moments = self._moments
        columns = [each.image.columns for each in moments]
        drop = max(len(moments) - HELD_MAXIMUM, too_early(columns, EARLIER_ROWS_MAXIMUM))
        for _ in range(drop):
            self._acls -= len(moments.popleft().changes or ())
            self._kept = None  # it would have a hole behind it
        at = 0
        while self._acls > HELD_ACLS_MAXIMUM and at < len(moments):
            self._acls -= len(moments[at].changes or ())
            moments[at] = moments[at]._replace(changes=None)
            at += 1
        if drop > 0 or (at and self._origin == _MORE):
            self._origin = _TOO_MUCH
        return drop > 0 or at > 0
