"""Chooses the stored state that a batch continues.

    base             the newest stored state that can be continued and does not exceed the batch's end
      ends there     nothing to do: the program ended between its manifest and Spark's commit
      ends before    records are read from the base's end on, again if a snapshot was lost or refused
    no base          everything is read again from offset 0; if the log no longer starts there, the job fails

A log that was deleted and created again, or truncated, fails the job: its checkpoint is of another log.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from records.errors import AclogError, DecodeError, LogError, OffsetOutOfRangeError
from records.ids import uuid_to_string
from records.log.views import known_histories, view_logs
from snapshot.continuation import reason_diverged, reason_too_old
from snapshot.errors import CheckpointForeignError, SnapshotError, SparkJobError
from snapshot.files.kraft_checkpoint import checkpoint_of
from snapshot.jobs.sources.log_failures import answered, caught, for_logs
from snapshot.jobs.sources.log_ranges import ends_early
from snapshot.jobs.sources.logs import connected
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from records.log.base import BatchPosition, LogIdentity, LogView, MetadataLog
    from snapshot.jobs.sources.log_failures import LogFailures
    from snapshot.jobs.sources.logs import FollowedLog
    from snapshot.store.manifest import SnapshotManifest, SnapshotPart
    from snapshot.store.snapshot_store import SnapshotStore

# `logEndTimeMs` of an idle log's state is refreshed this often: far below any log's retention.
_FRESHEN_INTERVAL_MS: Final = 60_000
# The smallest read: one batch.
_ONE_BATCH_BYTES: Final = 1


@dataclass(frozen=True, slots=True)
class NextState:
    """The base of a batch's state.

    Attributes:
        log_end_time_ms: the last time at which the batch's end was known to be the log's end, or a time since
            which no removal was deleted unseen (I10).
        position_hint: for a reader from the base's end on.
    """

    base: SnapshotManifest | None
    before: SnapshotManifest | None
    log_end_time_ms: int
    position_hint: BatchPosition | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBacklog:
    """The records of one log that its stored states do not have when a batch begins.

    Attributes:
        log_end: end offset of the log; the batch may end before it.
        oldest_ms: time of the first record of the batch; None if it has none that can be read.
        next_ms: time of the first record after the batch; None if there is none that can be read.
    """

    cluster_id: str
    start: int
    log_end: int
    oldest_ms: int | None
    next_ms: int | None


class BaseSearch:
    """The search for the base of one log's state, in one step of a batch.

    Attributes:
        view: what the log answered when the step began.
        end: of the state.
        queried_at_ms: a time before the view.
        candidates: stored states up to the end, newest first; read from the store as far as the caller goes.
        newest: the first of them; None: there is none.
        is_newest_history: whether the log is known to have its history; False: that is to be asked.
    """

    def __init__(
        self, view: LogView, end: int, queried_at_ms: int, candidates: Iterator[SnapshotManifest]
    ) -> None:
        self.view = view
        self.end = end
        self.queried_at_ms = queried_at_ms
        self.newest = next(candidates, None)
        self.candidates = candidates if self.newest is None else chain([self.newest], candidates)
        self.is_newest_history = False


class LogStates:
    """One log and its stored states, for one job's driver. Not thread-safe."""

    def __init__(
        self,
        followed: FollowedLog,
        store: SnapshotStore,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.followed = followed
        self._store = store
        self._clock_ms = clock_ms
        self._log: MetadataLog | None = None
        self._freshened_at_ms = 0
        self._intact_parts: tuple[SnapshotPart, ...] = ()

    def close(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            log.close()

    @property
    def log(self) -> MetadataLog:
        """The log, opened at the first use; a topic is connected by ``view_states``. Raises LogError."""
        if self._log is None:
            self._log = self.followed.open()
        return self._log

    def now_ms(self) -> int:
        """Take it before the log is asked whether a state is at its end."""
        return self._clock_ms()

    def search(self, view: LogView, end: int | None, queried_at_ms: int) -> BaseSearch:
        """Begin the search for the base of a state at ``end``.

        Args:
            view: of the log, asked in this step.
            end: None: the log's end.
            queried_at_ms: a time before the view.

        Raises:
            SparkJobError: the log was replaced.
            SnapshotError: the store cannot be read.
            LogError: the log cannot be read.
        """
        self._check_identity(view.identity)
        end = view.high_watermark if end is None else end
        return BaseSearch(view, end, queried_at_ms, self._candidates(view, end))

    def choose_start(self, search: BaseSearch, *, keep: int) -> int:
        """The first offset of a new job: the end of the newest state that can be continued, or 0.

        If the log no longer starts at offset 0 and the store has no usable snapshot, the job starts from
        Kafka's newest checkpoint, which is stored; ``keep`` as in SnapshotStore.write.

        Raises:
            SparkJobError: there is no checkpoint, either.
            SnapshotError: the checkpoint cannot be read or stored.
            LogError: the log cannot be read.
        """
        base, _ = self._base(search)
        if base is not None:
            return base.provenance.end_offset
        if search.view.start_offset and (checkpoints := self.log.checkpoints()):
            image = checkpoint_of(self.log, checkpoints[-1])
            end_time_ms = image.provenance.timestamp_ms
            return self._store.write(
                image, self.followed.identity, log_end_time_ms=end_time_ms, keep=keep
            ).end_offset
        self._check_start(search.view)
        return 0

    def backlog(self, start: int, search: BaseSearch) -> LogBacklog:
        """The backlog when a batch from ``start`` to the search's end begins. Call ``next_state`` after it.

        Raises:
            LogError: the log cannot be opened.
        """
        end = search.end
        log_end = max(search.view.high_watermark, end)
        return LogBacklog(
            cluster_id=self.followed.identity.cluster_id,
            start=start,
            log_end=log_end,
            oldest_ms=_record_time_ms(self.log, start, end),
            next_ms=_record_time_ms(self.log, end, log_end),
        )

    def next_state(self, search: BaseSearch, *, end_time_ms: int | None) -> NextState | None:
        """The base of a batch's state at the search's end; None if it is already stored.

        Args:
            search: of this step.
            end_time_ms: when the batch's end was the log's end, if known from Spark's plan.

        Raises:
            SparkJobError: the log was truncated, or no state at the end can be built.
            LogError: the log cannot be read.
        """
        end, view, log = search.end, search.view, self.log
        if view.high_watermark < end:
            raise ends_early(self.followed.url, view.high_watermark, end)
        base, before = self._base(search)
        newest = base or before
        if newest is not None and newest.provenance.end_offset == end:
            log.end_reading()
            return None
        if base is None:
            self._check_start(view)
        hint = log.position_hint(0 if base is None else base.provenance.end_offset)
        log.end_reading()
        now_ms = search.queried_at_ms
        return NextState(
            base=base,
            before=before,
            log_end_time_ms=_log_end_time_ms(
                base, now_ms if view.high_watermark == end else end_time_ms, now_ms
            ),
            position_hint=hint,
        )

    def gap_until(self, end: int, view: LogView) -> int:
        """``gap_until`` for the manifest of a new state at ``end``; ``view``: asked after its rows were read.

        Records hidden by compaction may have been superseded up to this offset, and a partly compacted
        transaction is complete there (I6). 0 if the log is known to have had the state.

        Raises:
            SparkJobError: the log was replaced, so the rows may be the other log's.
        """
        self._check_identity(view.identity)
        if self.log.removal_retention_ms is None:
            return 0  # not compacted, so gaps hide no records
        return view.log_end_offset if view.log_end_offset > end else 0

    def set_committed(self, manifest: SnapshotManifest) -> None:
        """Report that this state was just stored."""
        self._intact_parts = manifest.parts
        self._freshened_at_ms = manifest.log_end_time_ms

    @property
    def is_freshen_due(self) -> bool:
        """Whether the last ``freshen`` was a minute ago."""
        return self._clock_ms() - self._freshened_at_ms >= _FRESHEN_INTERVAL_MS

    def must_freshen(self) -> bool:
        """Whether the newest state's ``logEndTimeMs`` is a minute old; ``is_freshen_due`` is False then.

        False also if the store cannot be read: the next call or the next batch reports it.
        """
        now_ms = self._freshened_at_ms = self._clock_ms()
        with suppress(SnapshotError):
            newest = self._store.newest_complete(self.followed.identity)
            return newest is None or now_ms - newest.log_end_time_ms >= _FRESHEN_INTERVAL_MS
        return False

    def freshen(self, found: BaseSearch | AclogError) -> None:
        """Move ``logEndTimeMs`` of the newest state forward if its end still is the log's end (I10).

        ``found``: a search for the state at the log's end, or its error. Errors of the log or the store are
        left to the next call or the next batch.

        Raises:
            SparkJobError: the log was replaced.
        """
        with suppress(LogError, SnapshotError):
            search = answered(found)
            base, _ = self._base(search)
            if (
                base is not None
                and base.provenance.end_offset == search.end
                and search.queried_at_ms - base.log_end_time_ms >= _FRESHEN_INTERVAL_MS
            ):
                self._store.freshen(base, log_end_time_ms=search.queried_at_ms)
            self.log.end_reading()

    def _check_identity(self, found: LogIdentity) -> None:
        wanted = self.followed.identity
        if found.topic_id != wanted.topic_id or (
            found.cluster_id != wanted.cluster_id and not self.followed.is_of_fleet
        ):
            raise CheckpointForeignError(
                f"{self.followed.url} was deleted and created again: the job follows topic id "
                f"{uuid_to_string(wanted.topic_id)} of cluster {wanted.cluster_id}, and this is "
                f"{uuid_to_string(found.topic_id)} of cluster {found.cluster_id}. Start with another "
                "--checkpoint to follow the new log"
            )

    def _check_start(self, view: LogView) -> None:
        if view.start_offset:
            raise SparkJobError(
                f"{self.followed.url} starts at offset {view.start_offset}, and {self._store.url} has no "
                "snapshot that can be continued there. Store one of a node (aclog snapshot create), and "
                "start with another --checkpoint"
            )

    def _candidates(self, view: LogView, end: int) -> Iterator[SnapshotManifest]:
        """Stored states up to ``end``, newest first, that the log may continue if they are of its history."""
        for status in self._store.newest_first(self.followed.identity):
            manifest = status.manifest
            if (
                status.state is SnapshotState.COMPLETE
                and manifest is not None
                and manifest.provenance.end_offset <= end
                and self._is_continued(view, manifest.provenance.end_offset)
                and view.log_end_offset >= manifest.gap_until
            ):
                yield manifest

    def _base(self, search: BaseSearch) -> tuple[SnapshotManifest | None, SnapshotManifest | None]:
        """The newest usable stored state up to the end, and, if there is none, the newest outdated one."""
        before: SnapshotManifest | None = None
        for manifest in search.candidates:
            if not self._is_history(search, manifest) or not self._is_intact(manifest):
                continue
            if reason_too_old(
                manifest.log_end_time_ms,
                now_ms=search.queried_at_ms,
                removal_retention_ms=self.log.removal_retention_ms,
            ):
                before = before or manifest
                continue
            return manifest, None
        return None, before

    def _is_history(self, search: BaseSearch, manifest: SnapshotManifest) -> bool:
        if manifest is search.newest and search.is_newest_history:
            return True
        is_history = reason_diverged(self.log, manifest.provenance) is None
        # As of this answer.
        self._check_identity(self.log.identity)
        return is_history

    def _is_continued(self, view: LogView, offset: int) -> bool:
        """Whether the log can be read from there on; a leader may have records before its start offset."""
        if offset >= view.start_offset:
            return True
        try:
            self.log.read(offset, max_bytes=_ONE_BATCH_BYTES)
        except OffsetOutOfRangeError:
            return False
        return True

    def _is_intact(self, manifest: SnapshotManifest) -> bool:
        """Whether its parts are undamaged; reads them once, not before every batch."""
        if manifest.parts != self._intact_parts:
            if self._store.part_problems(manifest):
                return False
            self._intact_parts = manifest.parts
        return True


def view_states(all_states: Sequence[LogStates]) -> list[LogView | AclogError]:
    """What each log answers now, or its error; the topics of a cluster are asked together."""
    opened = connected(lambda states: states.log, all_states)
    views = iter(view_logs([log for log in opened if not isinstance(log, AclogError)]))
    return [log if isinstance(log, AclogError) else next(views) for log in opened]


def search_bases(ends: Mapping[LogStates, int | None]) -> dict[LogStates, BaseSearch | AclogError]:
    """Begin a step for these logs: the search for each one's base, or its error.

    ``ends``: of the states; None: the log's end. Another step begins another search.
    """
    queried_at_ms = {states: states.now_ms() for states in ends}
    views = dict(zip(ends, view_states(list(ends)), strict=True))

    def search(states: LogStates) -> BaseSearch:
        return states.search(answered(views[states]), ends[states], queried_at_ms[states])

    searches = dict(zip(ends, for_logs(caught(search), ends), strict=True))
    _check_histories(searches)
    return searches


def _check_histories(searches: Mapping[LogStates, BaseSearch | AclogError]) -> None:
    """Ask the topics of each cluster together whether they have the histories of the newest states."""
    checked: list[tuple[LogStates, BaseSearch, SnapshotManifest]] = []
    for states, search in searches.items():
        if not isinstance(search, AclogError) and search.newest is not None:
            checked.append((states, search, search.newest))
    logs, ends = [states.log for states, _, _ in checked], [newest.provenance for _, _, newest in checked]
    for (_, search, _), is_known in zip(checked, known_histories(logs, ends), strict=True):
        search.is_newest_history = is_known


def choose_starts(all_states: Mapping[str, LogStates], failures: LogFailures, *, keep: int) -> dict[str, int]:
    """The first offset of a new job in each log, by cluster id; see LogStates.choose_start.

    Raises:
        LogsFailedError: it failed for some logs, which ``failures`` collects.
    """
    searches = search_bases(dict.fromkeys(all_states.values()))
    starts: dict[str, int] = {}

    def choose(cluster_id: str) -> None:
        states = all_states[cluster_id]
        with failures.collect(cluster_id):
            starts[cluster_id] = states.choose_start(answered(searches[states]), keep=keep)

    for_logs(choose, all_states)
    failures.check()
    return starts


def freshen_states(all_states: Sequence[LogStates]) -> None:
    """LogStates.freshen for those logs whose newest states are a minute old. Raises as that."""
    old = [
        states
        for states, is_old in zip(all_states, for_logs(LogStates.must_freshen, all_states), strict=True)
        if is_old
    ]
    if old:
        searches = search_bases(dict.fromkeys(old))
        for_logs(lambda states: states.freshen(searches[states]), old)


def _record_time_ms(log: MetadataLog, offset: int, below: int) -> int | None:
    if offset < below:
        with suppress(DecodeError, LogError):
            for batch in log.read(offset, max_bytes=_ONE_BATCH_BYTES):
                for logged in batch.records:
                    if offset <= logged.offset < below:
                        return logged.timestamp_ms
    return None


def _log_end_time_ms(base: SnapshotManifest | None, end_time_ms: int | None, now_ms: int) -> int:
    if end_time_ms is None:
        # Read from the log's start, the state includes every removal that the log holds now.
        return now_ms if base is None else base.log_end_time_ms
    return end_time_ms if base is None else max(end_time_ms, base.log_end_time_ms)
