"""The replay state machine: events in, effects out; no clock, thread, client or logger.

    RECOVERING --Recovered: position = the snapshot's end, or 0--> CATCHING_UP --target reached--> FOLLOWING
      |  ^  ^        target = the high watermark then (I4)           ^   publish once, ready           |
      |  |  |                                                        |                                 |
      +--+  +----- Reload, from either ------------------------------+--- a gap (I6), a stop (I7) -----+
     nothing covers the log's start: stop

- RECOVERING: the driver looks for a snapshot and answers with Recovered.
- CATCHING_UP: the driver reads from ``position``; nothing is published before the target is reached.
- FOLLOWING: each read is published up to the last complete batch.

``ready`` is separate from the phase. What changes it, and which state is served meanwhile:

    first load                       not ready until the target: the high watermark at the start
    undecodable or impossible batch, not ready; ``position`` stays before it, and the driver retries.
    no log, or another one (I7)      The first successful read sets a new target: the high watermark then
    truncated, rewritten or          not ready immediately: the served state may hold records that no longer
    another log, StateLost           exist, an ALLOW that was never committed among them (I11)
    log start beyond position        stays ready: the state is old, but the log had it; it is
                                     served until the swap (I11). Not ready if nothing covers the start, or
                                     if the log is seen to end before it
    log end not reached in time      the same (I10)
    gap                              the same (I6)
    log unreachable                  the same: the state is old, not wrong; the driver reports the lag

Every published state is that at the end of a batch, outside any metadata transaction (I2, KIP-868):
records of an open transaction wait for its end, and are dropped at its abort. What precedes it in its first
batch waits too, so that half a batch is never visible (MetadataBatchLoader.java makes it visible).

A gap is where batches or records are missing between two offsets. What was removed there may have been
overwritten later, at the latest just below the high watermark after the gap was read.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, assert_never

from msgspec.structs import replace

from records.errors import LogStorageError, OffsetOutOfRangeError
from records.log.base import LogIdentity
from records.log_batch import LogBatch, LogRecord
from records.transactions import MisplacedMarkerError, Transaction
from replay.errors import InvariantError, LogDivergedError, LogGapError
from replay.events import (
    BatchesRead,
    Effect,
    Event,
    Fail,
    GapSeen,
    OutOfRange,
    Publish,
    ReadFailed,
    Recovered,
    Reload,
    ReportNotReady,
    ReportReady,
    StateLost,
)
from replay.manifest import LogDeltaManifest
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance

#: The log cannot be read now, and earlier reads still hold. Any other error shows that the log is not
#: the expected one.
OUT_OF_REACH: Final = (LogStorageError, OffsetOutOfRangeError, OSError)

LOG_START: Final = "the log's start"


class Phase(Enum):
    """The driver's next task."""

    RECOVERING = "recovering"
    CATCHING_UP = "catching up"
    FOLLOWING = "following"


class Core:
    """Replay of one log. Everything but ``step`` is read-only.

    Attributes:
        phase: ``step`` expects Recovered in RECOVERING, and else a read from ``position``.
        position: offset of the next record to apply.
        ready: whether decisions may use ``published``.
        log_end_time_ms: the last time at which the log ended at the applied offset (I10).
    """

    # Set by Recovered, before anything is published.
    _identity: LogIdentity
    _removal_retention_ms: int | None

    def __init__(self) -> None:
        self.phase = Phase.RECOVERING
        self.position = 0
        self.ready = False
        self.reason = "loading"
        self.published: AclsImage | None = None
        self.log_end_time_ms = 0
        self._begin(AclsImage.EMPTY, LOG_START)

    def step(self, event: Event) -> list[Effect]:
        """Take one event. The driver carries out the effects, in order, before the next one.

        Raises:
            InvariantError: an event that does not fit the phase.
        """
        match event:
            case BatchesRead():
                return self._batches_read(event)
            case Recovered():
                return self._recovered(event)
            case OutOfRange():
                return self._out_of_range(event)
            case ReadFailed():
                if isinstance(event.error, OUT_OF_REACH):
                    return [Fail(event.error)]
                return self._stop(event.error)
            case StateLost():
                return self._reload(event.reason, lost=True)
            case _:
                assert_never(event)

    # --- the start ---------------------------------------------------------------------------------------

    def _begin(self, image: AclsImage, origin: str) -> None:
        self._delta = AclsDelta(image)
        self._origin = origin
        # Whether the next update replaces what publishers hold.
        self._replaces = True
        # End of the delta: its first state, or the last batch applied to it.
        self._settled: Provenance | LogBatch = image.provenance
        self._empty_tail = image.provenance.empty_tail
        self.position = image.provenance.end_offset
        self._epoch = image.provenance.epoch
        # Read, but not applied: records before and in the open transaction, if there is one.
        self._waiting: list[LogRecord] = []
        self._transaction = Transaction[LogRecord]()
        # Catching up ends here; None until the first read after a stop.
        self._target: int | None = None
        self._gap_end = 0
        self._batches = self._records = self._size_bytes = 0

    def _recovered(self, event: Recovered) -> list[Effect]:
        if self.phase is not Phase.RECOVERING:
            raise InvariantError(f"recovered while {self.phase.value}")
        retention_ms = event.removal_retention_ms
        if retention_ms is not None and retention_ms <= 0:
            raise InvariantError(f"a log that drops removals immediately cannot be replayed: {retention_ms}")
        snapshot = event.snapshot
        image = AclsImage.EMPTY if snapshot is None else snapshot.image
        end_offset = image.provenance.end_offset
        if event.high_watermark < self._required_end():
            return self._truncated(event.high_watermark)
        if end_offset > event.high_watermark:
            raise InvariantError(
                f"snapshot ends at {end_offset}, beyond the log's end {event.high_watermark}"
            )
        if end_offset < min(event.log_start, event.high_watermark):
            return self._stop(LogGapError(event.log_start, event.refused))
        self._begin(image, LOG_START if snapshot is None else snapshot.origin)
        self._identity = event.identity
        self._removal_retention_ms = retention_ms
        # From the start of the log, every removal that is there now is seen if the end is reached in time.
        known_end_time = None if snapshot is None else snapshot.log_end_time_ms
        self.log_end_time_ms = event.now_ms if known_end_time is None else known_end_time
        self._target = event.high_watermark
        self.phase = Phase.CATCHING_UP
        return self._end_of_read(event.high_watermark, event.now_ms)

    def _out_of_range(self, event: OutOfRange) -> list[Effect]:
        if self.position < event.start:
            return self._reload(
                f"log starts at {event.start}, {self.position} was to be read next", lost=False
            )
        if self.position > event.end:
            return self._truncated(event.end)
        # The log changed during the read, or it contradicts itself: retry.
        return [Fail(OffsetOutOfRangeError(self.position, start=event.start, end=event.end))]

    def _truncated(self, end: int) -> list[Effect]:
        return self._reload(f"log was truncated to {end}, it had reached {self._required_end()}", lost=True)

    def _required_end(self) -> int:
        """The log must not end before this: what is applied, awaited or served."""
        served = 0 if self.published is None or not self.ready else self.published.provenance.end_offset
        return max(self.position, self._target or 0, self._gap_end, served)

    def _reload(self, reason: str, *, lost: bool) -> list[Effect]:
        """Rebuild the state. ``lost``: the served state may be none of the log."""
        self.phase = Phase.RECOVERING
        self._begin(AclsImage.EMPTY, LOG_START)
        return [Reload(reason, lost), *(self._not_ready(reason) if lost else ())]

    def _stop(self, error: Exception) -> list[Effect]:
        """I7: skip nothing; the node is not ready, with the reason."""
        if self.phase is Phase.FOLLOWING:
            self.phase = Phase.CATCHING_UP
        self._target = None
        # In this order, so that the status has the error when the node is announced as not ready.
        return [Fail(error), *self._not_ready(str(error))]

    def _not_ready(self, reason: str) -> list[Effect]:
        if not self.ready and reason == self.reason:
            return []
        self.ready, self.reason = False, reason
        return [ReportNotReady(reason)]

    # --- batches -----------------------------------------------------------------------------------------

    def _batches_read(self, event: BatchesRead) -> list[Effect]:
        if self.phase is Phase.RECOVERING:
            raise InvariantError("batches were read before the recovery")
        if event.high_watermark < self._required_end():
            return self._truncated(event.high_watermark)
        if self._is_stale(event.now_ms):
            return self._reload(
                f"the log's end was last reached {event.now_ms - self.log_end_time_ms} ms ago, and the log "
                f"forgets removals after {self._removal_retention_ms} ms",
                lost=False,
            )
        if self.phase is Phase.CATCHING_UP and self._target is None:
            self._target = event.high_watermark
        effects: list[Effect] = []
        for batch in event.batches:
            try:
                self._apply(batch, event.high_watermark, effects)
            except LogDivergedError as error:
                return [*effects, *self._reload(str(error), lost=True)]
            except InvariantError as error:
                # The batches before it are sound, and may be published.
                if self.phase is Phase.FOLLOWING:
                    effects += self._end_of_read(event.high_watermark, event.now_ms)
                return [*effects, *self._stop(error)]
        return [*effects, *self._end_of_read(event.high_watermark, event.now_ms)]

    def _is_stale(self, now_ms: int) -> bool:
        """I10: the log may have dropped removals since its end was last reached."""
        retention_ms = self._removal_retention_ms
        return retention_ms is not None and not (now_ms - self.log_end_time_ms) * 2 < retention_ms

    def _apply(self, batch: LogBatch, high_watermark: int, effects: list[Effect]) -> None:
        """Apply one batch, or nothing of it if this raises."""
        position = self.position
        end_offset = batch.end_offset
        if end_offset <= position:
            return
        if batch.epoch < self._epoch:
            raise LogDivergedError(
                f"log was written anew: epoch {batch.epoch} at offset {batch.base_offset} "
                f"follows epoch {self._epoch}"
            )
        if end_offset > high_watermark:
            raise LogDivergedError(f"batch ends at {end_offset}, beyond the high watermark {high_watermark}")
        offsets = batch.record_offsets
        count = self._apply_records(batch, offsets)
        missing = end_offset - position - count
        # Nothing raises from here on.
        if missing:
            self._gap_end = max(self._gap_end, high_watermark)
            self._target = max(self._target or 0, high_watermark)
            self.phase = Phase.CATCHING_UP
            next_offset = batch.base_offset if batch.base_offset > position else end_offset
            effects.append(GapSeen(offset=position, next_offset=next_offset, until=self._gap_end))
        self.position = end_offset
        self._epoch = batch.epoch
        self._batches += 1
        self._records += count
        self._size_bytes += batch.size_bytes
        if not self._transaction.is_open:
            if self._waiting:
                for logged in self._waiting:
                    self._delta.replay(logged)
                self._waiting = []
            self._empty_tail = self._empty_tail_of(batch, offsets)
            self._settled = batch

    def _empty_tail_of(self, batch: LogBatch, offsets: tuple[int, int] | None) -> int:
        """How many offsets just below the end of the batch hold no record; some may be before the batch."""
        if offsets is not None:
            return batch.end_offset - offsets[1] - 1
        before = self._settled
        if batch.epoch != before.epoch:
            return 0
        return batch.end_offset - before.end_offset + self._empty_tail

    def _apply_records(self, batch: LogBatch, offsets: tuple[int, int] | None) -> int:
        """Apply the new records of a batch, or nothing if this raises; return their count."""
        position, end_offset = self.position, batch.end_offset
        if batch.base_offset < position:
            new = tuple(logged for logged in batch.records if logged.offset >= position)
            batch = replace(batch, records=new)
            offsets = batch.record_offsets
        count = len(batch.records)
        if count > end_offset - position or (
            offsets is not None and not position <= offsets[0] <= offsets[1] < end_offset
        ):
            raise InvariantError(
                f"batch [{batch.base_offset}, {end_offset}) holds records outside of itself",
                offset=batch.base_offset,
            )
        transaction = self._transaction
        if batch.has_markers:
            try:
                transaction.check(batch.records)
            except MisplacedMarkerError as error:
                raise InvariantError(f"a {error}", offset=error.offset) from error
            for logged in batch.records:
                self._waiting += transaction.take(logged, logged.record)
        elif transaction.is_open:
            transaction.hide(batch.records)
        else:
            self._delta.replay_batch(batch)
        return count

    # --- publishing --------------------------------------------------------------------------------------

    def _end_of_read(self, high_watermark: int, now_ms: int) -> list[Effect]:
        end_offset = self._settled.end_offset
        if end_offset >= high_watermark:
            self.log_end_time_ms = now_ms
        if self.phase is Phase.CATCHING_UP:
            # An open transaction at the target changes nothing that is visible, but after a gap it may hold
            # what the gap hides.
            if self._target is None or self.position < self._target or end_offset < self._gap_end:
                return []
            self.phase = Phase.FOLLOWING
            self._target = None
        effects: list[Effect] = []
        if self._replaces or end_offset > self._delta.image.provenance.end_offset:
            effects.append(self._publish(high_watermark))
        if not self.ready:
            self.ready, self.reason = True, ""
            effects.append(ReportReady())
        return effects

    def _publish(self, high_watermark: int) -> Publish:
        settled = self._settled
        provenance = Provenance(settled.end_offset, settled.epoch, settled.timestamp_ms, self._empty_tail)
        delta = self._delta
        image = delta.apply(provenance)
        made_of = LogDeltaManifest(
            identity=self._identity,
            provenance=provenance,
            batches=self._batches,
            records=self._records,
            size_bytes=self._size_bytes,
            counts=delta.counts,
            high_watermark=high_watermark,
            log_end_time_ms=self.log_end_time_ms,
        )
        manifest = made_of.as_reload(self._origin) if self._replaces else made_of
        if self._replaces:
            image = image.settled()
        held = AclsImage.EMPTY if self.published is None else self.published
        if delta.image is not held:
            delta = AclsDelta.between(held, image)
        self.published = image
        self._delta = AclsDelta(image)
        self._replaces = False
        self._batches = self._records = self._size_bytes = 0
        return Publish(delta, image, manifest)
