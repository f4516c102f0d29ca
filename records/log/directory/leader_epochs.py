"""``leader-epoch-checkpoint``: start offsets of the leader epochs, in Kafka's text format.

    0                 format version
    2                 number of entries
    1 0               epoch 1 begins at offset 0
    2 266

An aclog-managed log has one writer at a time and no election: each opening for writing begins a new epoch. No
LeaderChange control batch is written, as there are no voters. So importing N records ends at offset N.

Source: org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile, LeaderEpochFileCache.assign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.errors import LogCorruptError
from records.log.directory.files import write_file

_VERSION: Final = "0"


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """An epoch whose first record has, or would have, offset ``start_offset``."""

    epoch: int
    start_offset: int


def read_leader_epochs(path: Path) -> tuple[EpochStart, ...]:
    """Read the entries in order; none if the file does not exist yet. Raises LogCorruptError, OSError."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    try:
        version, count, *entries = lines
        epochs = tuple(EpochStart(*map(int, entry.split())) for entry in entries)
        is_complete = version == _VERSION and int(count) == len(epochs)
    except (TypeError, ValueError) as error:
        raise LogCorruptError(f"{path}: not a leader epoch checkpoint: {error}") from error
    if not is_complete or list(epochs) != sorted(epochs):
        raise LogCorruptError(f"{path}: not a leader epoch checkpoint: wrong version, count or order")
    return epochs


def write_leader_epochs(path: Path, epochs: Sequence[EpochStart]) -> None:
    """Write the file durably and atomically. Raises OSError."""
    lines = [_VERSION, str(len(epochs)), *(f"{entry.epoch} {entry.start_offset}" for entry in epochs)]
    write_file(path, "\n".join(lines) + "\n")


def begin_epoch(path: Path, end_offset: int, last_epoch: int) -> int:
    """Begin the next leader epoch at the log's end; returns it. ``last_epoch`` 0: there are no batches."""
    epochs = read_leader_epochs(path)
    # Epochs without records are replaced, so that the file does not grow with each opening.
    with_records = [entry for entry in epochs if entry.start_offset < end_offset]
    epoch = max([last_epoch, *(entry.epoch for entry in epochs)]) + 1
    write_leader_epochs(path, [*with_records, EpochStart(epoch, end_offset)])
    return epoch
