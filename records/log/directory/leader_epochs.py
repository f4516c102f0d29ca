"""``leader-epoch-checkpoint``: which leader epoch begins at which offset, in Kafka's text format.

    0                 format version
    2                 number of entries
    1 0               epoch 1 begins at offset 0
    2 266

An own log has one writer at a time and no election: each opening for writing begins the next epoch, so an
epoch names one life of one writer. No LeaderChange control batch is written: there are no voters to name, and
without it an offset counts records, so that importing N records ends at N.

Source: org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile, LeaderEpochFileCache.assign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records.errors import LogCorruptError
from records.log.directory.files import write_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_VERSION: Final = "0"


@dataclass(frozen=True, slots=True, order=True)
class EpochStart:
    """The epoch whose first record would have offset ``start_offset``."""

    epoch: int
    start_offset: int


def read_leader_epochs(path: Path) -> tuple[EpochStart, ...]:
    """The entries in order; none if there is no such file yet. Raises LogCorruptError, OSError."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return ()
    try:
        version, count, *entries = lines
        epochs = tuple(EpochStart(*map(int, entry.split())) for entry in entries)
        is_whole = version == _VERSION and int(count) == len(epochs)
    except (TypeError, ValueError) as error:
        raise LogCorruptError(f"{path}: not a leader epoch checkpoint: {error}") from error
    if not is_whole or list(epochs) != sorted(epochs):
        raise LogCorruptError(f"{path}: not a leader epoch checkpoint: wrong version, count or order")
    return epochs


def write_leader_epochs(path: Path, epochs: Sequence[EpochStart]) -> None:
    """Write the file durably and in one step. Raises OSError."""
    lines = [_VERSION, str(len(epochs)), *(f"{entry.epoch} {entry.start_offset}" for entry in epochs)]
    write_file(path, "\n".join(lines) + "\n")


def begin_epoch(path: Path, end_offset: int, last_epoch: int) -> int:
    """Begin the next leader epoch at the log's end; returns it.

    Args:
        path: the checkpoint file.
        end_offset: the log's end: where the epoch begins.
        last_epoch: the greatest epoch seen in the log's batches, 0 if there are none.
    """
    begun = read_leader_epochs(path)
    # An epoch in which nothing was written is replaced, so that opening does not make the file grow.
    kept = [entry for entry in begun if entry.start_offset < end_offset]
    epoch = max([last_epoch, *(entry.epoch for entry in begun)]) + 1
    write_leader_epochs(path, [*kept, EpochStart(epoch, end_offset)])
    return epoch
