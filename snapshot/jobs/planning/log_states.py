"""What a batch is to make of one log: which stored state its records go onto, and what the result is called.

    base             the newest stored state that the log continues and that is not beyond the batch's end
      ends there     nothing is left to do: the program ended between its manifest and Spark's own commit
      ends before    its records are read again, from the base's end on: a snapshot was lost or refused
    no base          everything is read again from the log's start; where that is not there any more, no
                     state can be made

A log that was deleted and made anew, or truncated, fails the job: what it wrote down is not of this log.
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

# So old a quiet log's state may look: one small write a minute, and far below what any log retains.
_FRESH_MS: Final = 60_000
# A read of one batch: the smallest that there is.
_ONE_BATCH_BYTES: Final = 1


@dataclass(frozen=True, slots=True)
class NextState:
    """What a batch's state stands on, and where it will stand.

    Attributes:
        base: as LogPlan.
        before: as LogPlan.
        provenance: of the state to come.
        log_end_time_ms: the last time at which the batch's end was known to be the log's end, or one from
            which on everything that the log forgets was seen (I10).
    """

    base: SnapshotManifest | None
    before: SnapshotManifest | None
    provenance: Provenance
    log_end_time_ms: int


class LogStates:
    """One log and its stored states, for one job's driver. Not thread-safe.

    Args:
        followed: the log.
        store: the snapshot store.
        clock_ms: since the epoch.
    """

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
        self._looked_at_ms = 0
        self._whole_parts: tuple[SnapshotPart, ...] = ()

    def close(self) -> None:
        """Close the log."""
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def choose_start(self, *, keep: int) -> int:
        """Where a job without a checkpoint begins: the end of the newest state that can be continued, or 0.

        Where the log does not reach back to its start, and no stored state stands in for that, the newest of
        Kafka's own snapshots of it is stored, and does; ``keep`` as SnapshotStore.write.

        Raises:
            SparkJobError: it has none, either.
            SnapshotError: that cannot be read, or stored.
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

    def next_state(self, end: int, *, end_time_ms: int | None) -> NextState | None:
        """What a batch that ends there builds on; None if its state is stored already.

        Args:
            end: of the batch.
            end_time_ms: when that was the log's end, if Spark's plan tells.

        Raises:
            SparkJobError: it is another log now, it was truncated, or nothing leads to a state there.
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
            return None
        if base is None:
            self._check_start(log)
        return NextState(
            base=base,
            before=before,
            provenance=_provenance(log, end, base),
            log_end_time_ms=_log_end_time_ms(base, now_ms if high_watermark == end else end_time_ms, now_ms),
        )

    def gap_until(self, end: int) -> int:
        """For the manifest of a state at ``end`` that was just made; to be asked after its rows were read.

        What a gap hides may have been overwritten up to here later, and a transaction that shows in part is
        whole here (I6). 0 where the log surely had that state.

        Raises:
            SparkJobError: it is another log now, so the rows may be that one's.
            LogError: the log cannot be read.
        """
        log = self._opened()
        self._check_identity(log.current_topic_id())
        if log.removal_retention_ms is None:
            return 0  # it does not compact, so no gap hides anything
        log_end_offset = log.log_end_offset()
        return log_end_offset if log_end_offset > end else 0

    def committed(self, manifest: SnapshotManifest) -> None:
        """Know that this state was just stored."""
        self._whole_parts = manifest.parts

    def freshen(self) -> None:
        """Move ``logEndTimeMs`` of the newest state forward if its end still is the log's end (I10).

        Looks and writes once a minute at most; what cannot be had then is left for the next time, or for the
        next batch to fail on.

        Raises:
            SparkJobError: it is another log now.
        """
        now_ms = self._clock_ms()
        if now_ms - self._looked_at_ms < _FRESH_MS:
            return
        self._looked_at_ms = now_ms
        with suppress(LogError, SnapshotError):
            log = self._opened()
            high_watermark = log.high_watermark()
            self._check_identity(log.identity.topic_id)
            base, _ = self._base(log, high_watermark, now_ms)
            if (
                base is not None
                and base.provenance.end_offset == high_watermark
                and now_ms - base.log_end_time_ms >= _FRESH_MS
            ):
                self._store.freshen(base, log_end_time_ms=now_ms)

    def _opened(self) -> MetadataLog:
        if self._log is None:
            self._log = self.followed.open()
        return self._log

    def _check_identity(self, found: Uuid) -> None:
        wanted = self.followed.identity.topic_id
        if wanted != found:
            raise SparkJobError(
                f"{self.followed.url} was deleted and made again: the job follows topic id "
                f"{uuid_to_string(wanted)}, and this is {uuid_to_string(found)}. Start with another "
                "--checkpoint to follow that one"
            )

    def _check_start(self, log: MetadataLog) -> None:
        start = log.start_offset()
        if start:
            raise SparkJobError(
                f"{self.followed.url} starts at {start}, and {self._store.url} has no snapshot that leads "
                "there. Put one of a node into it (aclog snapshot create), and start with another "
                "--checkpoint"
            )

    def _base(
        self, log: MetadataLog, end: int, now_ms: int
    ) -> tuple[SnapshotManifest | None, SnapshotManifest | None]:
        """The newest usable stored state up to ``end``, and, if there is none, the newest outdated one."""
        before: SnapshotManifest | None = None
        for status in reversed(self._store.survey(self.followed.identity)):
            manifest = status.manifest
            if (
                status.state is not SnapshotState.COMPLETE
                or manifest is None
                or manifest.provenance.end_offset > end
                or not _is_continued(log, manifest.provenance.end_offset)
                or log.log_end_offset() < manifest.gap_until
                or reason_diverged(log, manifest.provenance)
                or not self._is_whole(manifest)
            ):
                continue
            if reason_too_old(
                manifest.log_end_time_ms, now_ms=now_ms, removal_retention_ms=log.removal_retention_ms
            ):
                before = before or manifest
                continue
            return manifest, None
        return None, before

    def _is_whole(self, manifest: SnapshotManifest) -> bool:
        """Whether its parts are what was written. They are read once, not before every batch."""
        if manifest.parts != self._whole_parts:
            if self._store.part_problems(manifest):
                return False
            self._whole_parts = manifest.parts
        return True


def _is_continued(log: MetadataLog, offset: int) -> bool:
    """Whether the log can be read from there on; a leader may have some of it before its newest snapshot."""
    if offset >= log.start_offset():
        return True
    try:
        log.read(offset, max_bytes=_ONE_BATCH_BYTES)
    except OffsetOutOfRangeError:
        return False
    return True


def _log_end_time_ms(base: SnapshotManifest | None, end_time_ms: int | None, now_ms: int) -> int:
    if end_time_ms is None:
        # From the log's start, every trace that is there now will be seen if its end is reached in time.
        return now_ms if base is None else base.log_end_time_ms
    return end_time_ms if base is None else max(end_time_ms, base.log_end_time_ms)


def _provenance(log: MetadataLog, end: int, base: SnapshotManifest | None) -> Provenance:
    """Where the state at ``end`` stands: epoch and time of the last batch with a record below it.

    The last offsets may hold no record (transaction markers, compacted ones), so it is looked for backwards,
    in steps that double.
    """
    floor = 0 if base is None else base.provenance.end_offset
    below, step = end, 1
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
                break  # what is beyond the end does not count yet
            if not batches:
                break
            for batch in batches:
                times = [logged.timestamp_ms for logged in batch.records if logged.offset < end]
                if times and batch.base_offset < below:
                    is_whole = batch.end_offset <= end
                    last = max(logged.offset for logged in batch.records if logged.offset < end)
                    time_ms = batch.timestamp_ms if is_whole else max(times)
                    found = Provenance(end, batch.epoch, time_ms, end - last - 1)
            position = batches[-1].end_offset
        if found is not None:
            return found
        below, step = start, step * 2
    if base is None:
        return Provenance(end, 0, 0, end)
    place = base.provenance
    return Provenance(end, place.epoch, place.timestamp_ms, end - place.end_offset + place.empty_tail)
