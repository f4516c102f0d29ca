"""SimStore: snapshots in memory, written in two steps, between which it can crash.

Implements replay.snapshot_source.SnapshotSource and replay.snapshot_generator.SnapshotSink.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from records.log.base import LogIdentity
from replay.snapshot_source import SnapshotOffer
from snapshot.errors import SnapshotCorruptError
from snapshot.image import AclsImage


@dataclass(slots=True)
class SimSnapshot:
    """``problem``: an error when it is listed; ``damage``: an error when it is read."""

    identity: LogIdentity
    image: AclsImage
    log_end_time_ms: int
    problem: str | None = None
    damage: str | None = None
    gap_until: int = 0


class SimStore:
    """``allow`` is a gate: while it is cleared, writes hang. ``errors`` are raised by the next writes."""

    def __init__(self) -> None:
        self.snapshots: list[SimSnapshot] = []
        self.errors: list[Exception] = []
        self.crash_next = False
        self.allow = threading.Event()
        self.allow.set()
        self.writing = threading.Event()

    def write(self, image: AclsImage, identity: LogIdentity, *, log_end_time_ms: int, keep: int) -> None:
        self.writing.set()
        self.allow.wait()
        if self.errors:
            raise self.errors.pop(0)
        snapshot = SimSnapshot(identity, image, log_end_time_ms, problem="the snapshot is unfinished")
        self.snapshots.append(snapshot)
        if self.crash_next:
            self.crash_next = False
            raise SnapshotCorruptError("crashed before the manifest was there")
        snapshot.problem = None

    def offers(self, identity: LogIdentity) -> Sequence[SnapshotOffer]:
        return [
            SnapshotOffer(
                end_offset=found.image.provenance.end_offset,
                epoch=found.image.provenance.epoch,
                log_end_time_ms=found.log_end_time_ms,
                origin=f"snapshot {found.image.provenance.end_offset}-{found.image.provenance.epoch}",
                load=lambda found=found: _load(found),  # type: ignore[misc]
                problem=found.problem,
                gap_until=found.gap_until,
            )
            for found in self.snapshots
            if found.identity == identity
        ]


def _load(found: SimSnapshot) -> AclsImage:
    if found.damage is not None:
        raise SnapshotCorruptError(found.damage)
    return found.image
