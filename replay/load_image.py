"""load_image: the state of a log at an offset, for commands that read once and end.

It uses the recovery and the core of the loader, without a thread, publishers or retries: every error is
raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from records.errors import OffsetOutOfRangeError
from records.log.base import read_with_retry
from records.log_batch import LogBatch
from records.transactions import beginnings
from replay.clock import Clock, SystemClock
from replay.core import LOG_START, Core
from replay.errors import LogChangedError, LogGapError, OffsetUnavailableError, ReplayError
from replay.events import BatchesRead, Effect, Fail, Publish, Reload
from replay.recovery import recover

if TYPE_CHECKING:
    from records.log.base import MetadataLog
    from replay.manifest import LoaderManifest
    from replay.snapshot_source import SnapshotSource
    from snapshot.image import AclsImage


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """A state, and what it was built from.

    Attributes:
        origin: start of the replay: a snapshot's name, or ``the log's start``.
        manifest: of the records replayed from there on.
        refused: why newer snapshots could not be used.
        uncommitted_from: see MetadataLog; None for an earlier state.
    """

    image: AclsImage
    origin: str
    manifest: LoaderManifest
    refused: tuple[str, ...]
    uncommitted_from: int | None


# Limit of the attempts to read a log that is truncated or trimmed meanwhile.
_ATTEMPTS_MAX: Final = 10


def load_image(
    log: MetadataLog,
    snapshots: Sequence[SnapshotSource] = (),
    *,
    at_offset: int | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> LoadResult:
    """Build the state at the high watermark, or after the record at ``at_offset``.

    An ``at_offset`` within a batch includes the records up to it, though no node ever
    shows half a batch. Records of a transaction that has not ended there are excluded.

    Args:
        log: to read.
        snapshots: to start from, see ``recover``.
        at_offset: the last included record.
        clock: default: the system's.
        on_progress: called after each read with the next offset and the end offset.

    Raises:
        OffsetUnavailableError: that offset is not in the log yet, or its state can no longer be built.
        LogGapError: the log does not start at 0, and no snapshot covers what is missing.
        DecodeError: a record cannot be decoded (I7).
        LogChangedError: it was truncated or trimmed repeatedly while it was read.
        ReplayError: the log contradicts itself.
        LogError, OSError: the log cannot be read; LogHeldUpError: not now, as a transaction is open in it.
    """
    clock = clock or SystemClock()
    failures: list[ReplayError] = []
    while True:
        try:
            return _load(log, snapshots, clock, at_offset, on_progress)
        except OffsetOutOfRangeError as error:
            failure: ReplayError = LogChangedError(f"{log.url} was changed while it was read: {error}")
        except (LogChangedError, LogGapError) as error:
            # A newer checkpoint may have replaced an older one: then the next attempt finds no gap.
            failure = error
        is_same = bool(failures) and str(failures[-1]) == str(failure)
        failures.append(failure)
        if is_same or len(failures) == _ATTEMPTS_MAX:
            raise failure


def _load(
    log: MetadataLog,
    snapshots: Sequence[SnapshotSource],
    clock: Clock,
    at_offset: int | None,
    on_progress: Callable[[int, int], None] | None,
) -> LoadResult:
    high_watermark = log.high_watermark()
    if at_offset is not None and not 0 <= at_offset < high_watermark:
        raise _not_in_log_error(at_offset, high_watermark)
    found = recover(log, snapshots, clock, max_end_offset=None if at_offset is None else at_offset + 1)
    core = Core()
    try:
        published = _published_image(core.step(found))
    except LogGapError as error:
        if at_offset is None:
            raise
        raise _unreachable_state_error(at_offset, log, snapshots) from error
    while published is None:
        batches = read_with_retry(log, core.position)
        high_watermark = log.high_watermark()
        if high_watermark < found.high_watermark:
            raise LogChangedError(f"{log.url} was truncated to {high_watermark} while it was read")
        if at_offset is not None:
            batches = _clip(batches, at_offset + 1)
        if not batches:
            raise _no_state_error(log, core.position, at_offset)
        published = _published_image(
            core.step(BatchesRead(batches=batches, high_watermark=high_watermark, now_ms=clock.now_ms()))
        )
        if on_progress is not None:
            on_progress(core.position, found.high_watermark)
    if log.identity != found.identity:
        raise LogChangedError(f"another log came in place of {log.url} while it was read")
    return LoadResult(
        image=published.image,
        origin=LOG_START if found.snapshot is None else found.snapshot.origin,
        manifest=published.manifest,
        refused=found.refused,
        uncommitted_from=log.uncommitted_from,
    )


def _published_image(effects: Iterable[Effect]) -> Publish | None:
    """The load's only image, if this step published it; readiness matters to a node only."""
    for effect in effects:
        match effect:
            case Publish():
                return effect
            case Fail():
                raise effect.error
            case Reload():
                raise LogChangedError(f"the log changed while it was read: {effect.reason}")
            case _:
                pass
    return None


def _clip(batches: Iterable[LogBatch], end_offset: int) -> list[LogBatch]:
    """The batches as if the log ended there, and a batch ended where a transaction begins."""
    clipped = []
    for batch in batches:
        if batch.end_offset <= end_offset and not batch.has_markers:
            clipped.append(batch)
            continue
        begins = [offset for offset in beginnings(batch.records) if offset > batch.base_offset]
        bounds = [batch.base_offset, *begins, batch.end_offset]
        clipped += [
            _part(batch, start, min(end, end_offset)) for start, end in pairwise(bounds) if start < end_offset
        ]
    return clipped


def _part(batch: LogBatch, start: int, end_offset: int) -> LogBatch:
    if (start, end_offset) == (batch.base_offset, batch.end_offset):
        return batch
    records = tuple(logged for logged in batch.records if start <= logged.offset < end_offset)
    return LogBatch(
        base_offset=start,
        end_offset=end_offset,
        epoch=batch.epoch,
        timestamp_ms=max((logged.timestamp_ms for logged in records), default=batch.timestamp_ms),
        size_bytes=batch.size_bytes if start == batch.base_offset else 0,
        records=records,
    )


def _not_in_log_error(at_offset: int, high_watermark: int) -> OffsetUnavailableError:
    if not high_watermark:
        return OffsetUnavailableError(at_offset, "the log is empty")
    return OffsetUnavailableError(at_offset, f"the log's last offset is {high_watermark - 1}")


def _unreachable_state_error(
    at_offset: int, log: MetadataLog, snapshots: Sequence[SnapshotSource]
) -> OffsetUnavailableError:
    """The error, with the first later offset whose state can be built."""
    log_start = log.start_offset()
    offers = [offer for source in snapshots for offer in source.offers(log.identity)]
    known = [max(offer.end_offset, offer.gap_until) for offer in offers if offer.end_offset >= log_start]
    reason = f"the log starts at {log_start}, and no snapshot reaches back that far"
    if known:
        reason += f"; the earliest offset is {min(known) - 1}"
    return OffsetUnavailableError(at_offset, reason)


def _no_state_error(log: MetadataLog, position: int, at_offset: int | None) -> ReplayError:
    """The error if everything was read, and the core did not publish."""
    if at_offset is None:
        return ReplayError(f"{log.url} has nothing to read at {position}, before its high watermark")
    return OffsetUnavailableError(
        at_offset,
        "records before it were compacted away and may have counted; the state is known again at "
        f"{log.high_watermark() - 1}",
    )
