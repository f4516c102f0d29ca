"""What the replay layer counts: plain numbers, written by one thread, read by any.

Source: org.apache.kafka.image.loader.metrics.MetadataLoaderMetrics. Exposition is the authorizer layer's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snapshot.fold import DeltaCounts


@dataclass(slots=True)
class LoaderMetrics:
    """Since the loader was made; only ``last_publish_ms`` is not a total.

    Attributes:
        batches: applied and published.
        records: in these batches, of all types.
        size_bytes: of these batches.
        fold: what the records did to the state (I8).
        publishes: images given to publishers.
        last_publish_ms: how long the last one took, from the read until every publisher had it.
        apply_errors: what made the node not ready: records that cannot be decoded or applied (I7), a log that
            is gone or has no way from its start. The same one tried again is not counted again.
        read_errors: the log was out of reach.
        gaps: seen in the offsets (I6).
        reloads: states built anew (I10, I11); the first load is not one.
        offset_regressions: reloads that published a lower offset than before (I11).
        snapshots_loaded: first loads and reloads that began at a snapshot.
        snapshots_refused: snapshots that could not be continued, at each load.
        publisher_faults: updates that a publisher raised in.
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
    """Counted by the snapshot generator.

    Attributes:
        written: snapshots.
        failed: attempts.
        last_end_offset: of the last one written, None before.
        last_write_ms: how long that took.
        last_written_ms: when that was, in milliseconds since the epoch.
    """

    written: int = 0
    failed: int = 0
    last_end_offset: int | None = None
    last_write_ms: float = 0.0
    last_written_ms: int = 0
