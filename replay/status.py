"""Status of a loader, and counters of the replay layer, which one thread writes and any reads.

Source: org.apache.kafka.image.loader.metrics.MetadataLoaderMetrics. Exposition is the authorizer layer's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from snapshot.fold import DeltaCounts

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from replay.core import Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderStatus:
    """Status of a loader at one point in time.

    Attributes:
        identity: of the log that the last published image is of; None before the first. The log itself may
            have another one already, when it was replaced.
        end_offset: of the last published image, None before the first.
        position: offset of the next record to be applied; beyond ``end_offset`` while nothing is published.
        high_watermark: of the log at the last read, None before the first.
        lag_records: distance of the published image to the high watermark; None before the first read.
        lag_ms: how long the published image has not been known to be current; 0 if it is. Before the
            first read, the age of the loader.
        ready: whether decisions may be made.
        error: the last failure without a later success, also while ready.
    """

    identity: LogIdentity | None
    end_offset: int | None
    epoch: int
    acl_count: int
    digest: int
    phase: Phase
    position: int
    high_watermark: int | None
    lag_records: int | None
    lag_ms: int
    ready: bool
    reason: str | None
    error: str | None


@dataclass(slots=True)
class LoaderMetrics:
    """Totals since the loader was created, except ``last_publish_ms``.

    Attributes:
        records: in these batches, of all types.
        fold: changes of the state by the records (I8).
        last_publish_ms: duration of the last one, from the read until every publisher had it.
        apply_errors: errors that made the node not ready: undecodable or impossible records (I7), a log that
            is missing or has a gap at its start. A retry with the same error is not counted.
        reloads: rebuilt states (I10, I11), without the first load.
        offset_regressions: reloads that published a lower offset than before (I11).
        snapshots_loaded: first loads and reloads that began at a snapshot.
        snapshots_refused: snapshots that could not be used, at each load.
        publisher_faults: updates in which a publisher raised.
    """

    batches: int = 0
    records: int = 0
    size_bytes: int = 0
    fold: DeltaCounts = field(default_factory=DeltaCounts)
    publishes: int = 0
    last_publish_ms: float = 0.0
    apply_errors: int = 0
    read_errors: int = 0
    gaps: int = 0
    reloads: int = 0
    offset_regressions: int = 0
    snapshots_loaded: int = 0
    snapshots_refused: int = 0
    publisher_faults: int = 0


@dataclass(slots=True)
class SnapshotMetrics:
    """Counters of the snapshot generator. Times are in milliseconds since the epoch."""

    written: int = 0
    failed: int = 0
    last_end_offset: int | None = None
    last_write_ms: float = 0.0
    last_written_ms: int = 0
