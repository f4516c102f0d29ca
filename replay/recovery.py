"""Recovery: finds the newest usable snapshot to start a replay from, or the start of the log.

A snapshot is usable if it

- is complete and of this log (I9: its source checks that),
- does not end beyond the log's end (I9), nor before its start (I11),
- was made past a gap only if the log reaches beyond what the gap may hide (I6),
- ends with a batch of this history: the log has the same epoch there (MetadataLog.is_history). A log that
  was truncated and written on has a newer one;
- is fresh enough for a log that drops removals (I10).

The history of a snapshot that ends at the log's start cannot be checked: the log holds nothing of it.

The newest is the one with the greatest epoch, then the greatest end offset, as Kafka orders them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.events import LoadedSnapshot, Recovered
from snapshot.continuation import reason_diverged, reason_too_old
from snapshot.errors import SnapshotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.log.base import LogIdentity, MetadataLog
    from replay.clock import Clock
    from replay.snapshot_source import SnapshotOffer, SnapshotSource


def recover(
    log: MetadataLog,
    sources: Sequence[SnapshotSource],
    clock: Clock,
    *,
    max_end_offset: int | None = None,
    oldest: bool = False,
) -> Recovered:
    """Read the log's start and end, then load the newest usable snapshot.

    Args:
        log: the one to replay; it is read at one offset for each candidate.
        sources: of two snapshots of the same state that of the first source is used.
        clock: for the wall time.
        max_end_offset: treat the log as if it ended here.
        oldest: load the oldest usable snapshot instead, for callers that read the history.

    Raises:
        LogError, OSError: the log cannot be read.
    """
    # Before anything else: everything below it must be applied before the node is ready (I4).
    high_watermark = log.high_watermark()
    now_ms = clock.now_ms()
    log_start = log.start_offset()
    end = high_watermark if max_end_offset is None else min(high_watermark, max_end_offset)
    identity, retention_ms = log.identity, log.removal_retention_ms
    offers, refused = _offers(sources, identity)
    found: LoadedSnapshot | None = None
    for offer in reversed(offers) if oldest else offers:
        if end < offer.end_offset <= high_watermark:
            continue  # valid, but later than the requested state
        problem = (
            offer.problem
            or _range_problem(offer, log_start, end, high_watermark)
            or reason_too_old(offer.log_end_time_ms, now_ms=now_ms, removal_retention_ms=retention_ms)
            or reason_diverged(log, offer)
        )
        if problem is None:
            try:
                found = LoadedSnapshot(
                    image=offer.load(), log_end_time_ms=offer.log_end_time_ms, origin=offer.origin
                )
                break
            except (SnapshotError, OSError) as error:
                problem = str(error)
        refused.append(f"{offer.origin}: {problem}")
    return Recovered(
        identity=identity,
        snapshot=found,
        log_start=log_start,
        high_watermark=end,
        now_ms=now_ms,
        removal_retention_ms=retention_ms,
        refused=tuple(refused),
    )


def _offers(
    sources: Sequence[SnapshotSource], identity: LogIdentity
) -> tuple[list[SnapshotOffer], list[str]]:
    """All offers, newest first, and the problems of the sources."""
    offers: list[SnapshotOffer] = []
    problems: list[str] = []
    for source in sources:
        try:
            offers += source.offers(identity)
        except (SnapshotError, OSError) as error:
            problems.append(str(error))
    return sorted(offers, key=lambda offer: (offer.epoch, offer.end_offset), reverse=True), problems


def _range_problem(offer: SnapshotOffer, log_start: int, end: int, high_watermark: int) -> str | None:
    if offer.end_offset > high_watermark:
        return f"it ends at {offer.end_offset}, beyond the log's end {high_watermark}"
    if offer.end_offset < min(log_start, end):
        return f"it ends at {offer.end_offset}, the log starts at {log_start}"
    if offer.gap_until > end:
        return (
            f"records that count may be missing in it until it is continued to {offer.gap_until}, "
            f"and the log is known up to {end}"
        )
    return None
