"""Chooses the stored state that a batch continues, and the provenance of the new state.

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
from typing import TYPE_CHECKING, Final

from records.errors import DecodeError, LogError, OffsetOutOfRangeError
from records.ids import uuid_to_string
from snapshot.continuation import reason_diverged, reason_too_old
from snapshot.errors import SnapshotError, SparkJobError
from snapshot.files.kraft_checkpoint import checkpoint_of
from snapshot.image import Provenance
from snapshot.jobs.sources.logs import ends_early
from snapshot.store.stored import SnapshotState

if TYPE_CHECKING:
    from collections.abc import Callable

    from records.ids import Uuid
    from records.log.base import MetadataLog
    from snapshot.jobs.sources.logs import FollowedLog
    from snapshot.store.manifest import SnapshotManifest, SnapshotPart
    from snapshot.store.snapshot_store import SnapshotStore

# `logEndTimeMs` of an idle log's state is refreshed this often: far below any log's retention.
_FRESHEN_INTERVAL_MS: Final = 60_000
# The smallest read: one batch.
_ONE_BATCH_BYTES: Final = 1


@dataclass(frozen=True, slots=True)
class NextState:
    """The base and the provenance of a batch's state.

    Attributes:
        log_end_time_ms: the last time at which the batch's end was known to be the log's end, or a time since
            which no removal was deleted unseen (I10).
    """

    base: SnapshotManifest | None
    before: SnapshotManifest | None
    provenance: Provenance
    log_end_time_ms: int


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

    def choose_start(self, *, keep: int) -> int:
        """The first offset of a new job: the end of the newest state that can be continued, or 0.

        If the log no longer starts at offset 0 and the store has no usable snapshot, the job starts from
        Kafka's newest checkpoint, which is stored; ``keep`` as in SnapshotStore.write.

        Raises:
            SparkJobError: there is no checkpoint, either.
            SnapshotError: the checkpoint cannot be read or stored.
            LogError: the log cannot be read.
        """
        log = self._opened()
        base, _ = self._base(log, log.high_watermark(), self._clock_ms())
        if base is not None:
            return base.provenance.end_offset
        if log.start_offset() and (checkpoints := log.checkpoints()):
            image = checkpoint_of(log, checkpoints[-1])
            end_time_ms = image.provenance.timestamp_ms
            return self._store.write(
                image, self.followed.identity, log_end_time_ms=end_time_ms, keep=keep
            ).end_offset
        self._check_start(log)
        return 0

    def backlog(self, start: int, end: int) -> LogBacklog:
        """The backlog when a batch with the offsets [start, end) begins. Call ``next_state`` after it.

        Raises:
            LogError: the log cannot be opened.
        """
        log = self._opened()
        log_end = max(log.high_watermark(), end)
        return LogBacklog(
            cluster_id=self.followed.identity.cluster_id,
            start=start,
            log_end=log_end,
            oldest_ms=_record_time_ms(log, start, end),
            next_ms=_record_time_ms(log, end, log_end),
        )

    def next_state(self, end: int, *, end_time_ms: int | None) -> NextState | None:
        """The base and provenance of a batch that ends at ``end``; None if its state is already stored.

        Args:
            end: of the batch.
            end_time_ms: when that was the log's end, if known from Spark's plan.

        Raises:
            SparkJobError: the log was replaced or truncated, or no state at ``end`` can be built.
            LogError: the log cannot be read.
        """
        log = self._opened()
        now_ms = self._clock_ms()
        high_watermark = log.high_watermark()
        self._check_identity(log.identity.topic_id)
        if high_watermark < end:
            raise ends_early(self.followed.url, high_watermark, end)
        base, before = self._base(log, end, now_ms)
        newest = base or before
        if newest is not None and newest.provenance.end_offset == end:
            log.end_reading()
            return None
        if base is None:
            self._check_start(log)
        provenance = _provenance(log, end, base)
        log.end_reading()
        return NextState(
            base=base,
            before=before,
            provenance=provenance,
            log_end_time_ms=_log_end_time_ms(base, now_ms if high_watermark == end else end_time_ms, now_ms),
        )

    def gap_until(self, end: int) -> int:
        """``gap_until`` for the manifest of a new state at ``end``. Call it after its rows were read.

        Records hidden by compaction may have been superseded up to this offset, and a partly compacted
        transaction is complete there (I6). 0 if the log is known to have had the state.

        Raises:
            SparkJobError: the log was replaced, so the rows may be the other log's.
            LogError: the log cannot be read.
        """
        log = self._opened()
        self._check_identity(log.current_topic_id())
        if log.removal_retention_ms is None:
            return 0  # not compacted, so gaps hide no records
        log_end_offset = log.log_end_offset()
        return log_end_offset if log_end_offset > end else 0

    def set_committed(self, manifest: SnapshotManifest) -> None:
        """Report that this state was just stored."""
        self._intact_parts = manifest.parts
        self._freshened_at_ms = manifest.log_end_time_ms

    @property
    def is_freshen_due(self) -> bool:
        """Whether the last ``freshen`` was a minute ago."""
        return self._clock_ms() - self._freshened_at_ms >= _FRESHEN_INTERVAL_MS

    def freshen(self) -> None:
        """Move ``logEndTimeMs`` of the newest state forward if its end still is the log's end (I10).

        Reads and writes at most once a minute. Errors of the log or the store are left to the next call or
        the next batch.

        Raises:
            SparkJobError: the log was replaced.
        """
        now_ms = self._clock_ms()
        if not self.is_freshen_due:
            return
        self._freshened_at_ms = now_ms
        with suppress(LogError, SnapshotError):
            newest = self._store.newest_complete(self.followed.identity)
            if newest is not None and now_ms - newest.log_end_time_ms < _FRESHEN_INTERVAL_MS:
                return
            log = self._opened()
            high_watermark = log.high_watermark()
            self._check_identity(log.identity.topic_id)
            base, _ = self._base(log, high_watermark, now_ms)
            if (
                base is not None
                and base.provenance.end_offset == high_watermark
                and now_ms - base.log_end_time_ms >= _FRESHEN_INTERVAL_MS
            ):
                self._store.freshen(base, log_end_time_ms=now_ms)
            log.end_reading()

    def _opened(self) -> MetadataLog:
        if self._log is None:
            self._log = self.followed.open()
        return self._log

    def _check_identity(self, found: Uuid) -> None:
        wanted = self.followed.identity.topic_id
        if wanted != found:
            raise SparkJobError(
                f"{self.followed.url} was deleted and created again: the job follows topic id "
                f"{uuid_to_string(wanted)}, and this is {uuid_to_string(found)}. Start with another "
                "--checkpoint to follow the new log"
            )

    def _check_start(self, log: MetadataLog) -> None:
        start = log.start_offset()
        if start:
            raise SparkJobError(
                f"{self.followed.url} starts at offset {start}, and {self._store.url} has no snapshot that "
                "can be continued there. Store one of a node (aclog snapshot create), and start with another "
                "--checkpoint"
            )

    def _base(
        self, log: MetadataLog, end: int, now_ms: int
    ) -> tuple[SnapshotManifest | None, SnapshotManifest | None]:
        """The newest usable stored state up to ``end``, and, if there is none, the newest outdated one."""
        before: SnapshotManifest | None = None
        for status in self._store.newest_first(self.followed.identity):
            manifest = status.manifest
            if (
                status.state is not SnapshotState.COMPLETE
                or manifest is None
                or manifest.provenance.end_offset > end
                or not _is_continued(log, manifest.provenance.end_offset)
                or log.log_end_offset() < manifest.gap_until
                or reason_diverged(log, manifest.provenance)
                or not self._is_intact(manifest)
            ):
                continue
            if reason_too_old(
                manifest.log_end_time_ms, now_ms=now_ms, removal_retention_ms=log.removal_retention_ms
            ):
                before = before or manifest
                continue
            return manifest, None
        return None, before

    def _is_intact(self, manifest: SnapshotManifest) -> bool:
        """Whether its parts are undamaged; reads them once, not before every batch."""
        if manifest.parts != self._intact_parts:
            if self._store.part_problems(manifest):
                return False
            self._intact_parts = manifest.parts
        return True


def _is_continued(log: MetadataLog, offset: int) -> bool:
    """Whether the log can be read from ``offset`` on; a leader may have records before its start offset."""
    if offset >= log.start_offset():
        return True
    try:
        log.read(offset, max_bytes=_ONE_BATCH_BYTES)
    except OffsetOutOfRangeError:
        return False
    return True


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


def _provenance(log: MetadataLog, end: int, base: SnapshotManifest | None) -> Provenance:
    """The provenance of the state at ``end``: epoch and time of the last batch with a record below it.

    Logs are only read forwards, and the offsets just below ``end`` may hold no record (transaction markers,
    compacted records). So the search reads adjacent windows of 2, 4, 8, ... offsets, backwards from ``end``,
    until one holds a record: most often the first does, and the number of windows is logarithmic in the
    length of a tail without records. It stops at the base's end.
    """
    floor = 0 if base is None else base.provenance.end_offset
    # The last offset of a transaction is its marker.
    below, step = end, 2
    while below > floor:
        start = max(floor, below - step)
        found: Provenance | None = None
        position = start
        while position < below:
            try:
                batches = log.read(position, max_bytes=_ONE_BATCH_BYTES)
            except DecodeError as error:
                if error.offset is None or error.offset < end:
                    raise
                break  # damage beyond the end does not matter
            if not batches:
                break
            for batch in batches:
                times = [logged.timestamp_ms for logged in batch.records if logged.offset < end]
                if times and batch.base_offset < below:
                    is_complete = batch.end_offset <= end
                    last = max(logged.offset for logged in batch.records if logged.offset < end)
                    time_ms = batch.timestamp_ms if is_complete else max(times)
                    found = Provenance(end, batch.epoch, time_ms, end - last - 1)
            position = batches[-1].end_offset
        if found is not None:
            return found
        below, step = start, step * 2
    if base is None:
        return Provenance(end, 0, 0, end)
    tail = end - base.provenance.end_offset + base.provenance.empty_tail
    return Provenance(end, base.provenance.epoch, base.provenance.timestamp_ms, tail)
