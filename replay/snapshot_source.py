"""Sources of snapshots to start a replay from: the snapshot store, and Kafka's checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from snapshot.files.kraft_checkpoint import checkpoint_of

if TYPE_CHECKING:
    from records.log.base import LogIdentity, MetadataLog
    from snapshot.image import AclsImage
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.snapshot_store import SnapshotStore


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOffer:
    """A snapshot of a source, not read yet.

    Attributes:
        end_offset: last contained offset + 1.
        log_end_time_ms: the last time, since the epoch, at which its end offset was the log's end; None where
            that is not recorded.
        load: reads and checks it; raises SnapshotError if it is invalid.
        problem: why it cannot be used, if known already.
        empty_tail: how many offsets just below the end offset hold no record (Provenance).
        gap_until: if beyond ``end_offset``, the state is complete only from there on (I6).
    """

    end_offset: int
    epoch: int
    log_end_time_ms: int | None
    origin: str
    load: Callable[[], AclsImage]
    problem: str | None = None
    empty_tail: int = 0
    gap_until: int = 0


class SnapshotSource(Protocol):
    """May have snapshots of a log."""

    def offers(self, identity: LogIdentity) -> Sequence[SnapshotOffer]:
        """The snapshots of this log, in any order.

        Raises:
            SnapshotError, OSError: the source cannot be listed.
        """


class StoredSnapshots:
    """The snapshot store."""

    def __init__(self, store: SnapshotStore) -> None:
        self._store = store

    def offers(self, identity: LogIdentity) -> Sequence[SnapshotOffer]:
        return [
            SnapshotOffer(
                end_offset=status.ref.end_offset,
                epoch=status.ref.epoch,
                log_end_time_ms=None if status.manifest is None else status.manifest.log_end_time_ms,
                origin=f"snapshot {status.ref.name}",
                load=partial(self._load, status.ref, identity),
                problem=status.problem,
                empty_tail=0 if status.manifest is None else status.manifest.provenance.empty_tail,
                gap_until=0 if status.manifest is None else status.manifest.gap_until,
            )
            for status in self._store.survey(identity)
        ]

    def _load(self, ref: SnapshotRef, identity: LogIdentity) -> AclsImage:
        return self._store.read(ref, identity).image


class CheckpointFiles:
    """Kafka's own snapshots of a log: its ``.checkpoint`` files, or those of the quorum's leader.

    Args:
        log: the one to list.
        only_if_trimmed: offer none if the log starts at 0, which is more exact: a checkpoint's ACLs have
            no offsets.
    """

    def __init__(self, log: MetadataLog, *, only_if_trimmed: bool = False) -> None:
        self._log = log
        self._only_if_trimmed = only_if_trimmed

    def offers(self, identity: LogIdentity) -> Sequence[SnapshotOffer]:
        checkpoints = self._log.checkpoints()
        if checkpoints and self._only_if_trimmed and self._log.start_offset() == 0:
            return []
        return [
            SnapshotOffer(
                end_offset=checkpoint.end_offset,
                epoch=checkpoint.epoch,
                log_end_time_ms=None,
                origin=f"checkpoint {checkpoint.name}",
                load=partial(checkpoint_of, self._log, checkpoint),
            )
            for checkpoint in checkpoints
            # KIP-1170: 0-0 is no state, but the records that the first controller appends to the empty log.
            if checkpoint.end_offset > 0
        ]
