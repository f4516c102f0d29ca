"""Opening of an aclog-managed log for writing: recovery of its tail, and the next leader epoch.

- Complete, valid batches up to the high watermark: the normal case.
- Complete, valid batches after it: retained and committed. An unacknowledged append wrote them, so both
  outcomes are allowed. Kafka's next leader retains them too, and an old high-watermark file (from a backup)
  must not destroy data.
- Any other bytes up to the end of the file: a truncated tail. It is cut off, as in Kafka.
- Damaged or missing records *below* the high watermark: LogCorruptError. They were acknowledged, and cutting
  them off would turn a damaged file into a lost one.

Only the last segment is checked. The others were synced before it was created, and readers check every CRC
(``aclog log verify`` reads everything).

The log has one writer at a time and no election: each opening begins a new epoch. No LeaderChange control
batch is written, as there are no voters. So importing N records ends at offset N. ``leader-epoch-checkpoint``
has the epochs, in Kafka's text format:

    0                 format version
    2                 number of entries
    1 0               epoch 1 begins at offset 0
    2 266

Source: org.apache.kafka.storage.internals.log.LogSegment.recover, .checkpoint.LeaderEpochCheckpointFile,
org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache.assign.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from records.batch import decode_batch
from records.errors import DecodeError, LogCorruptError
from records.log.directory.files import copy_command, write_file

if TYPE_CHECKING:
    from records.log.directory.segments import Segment


@dataclass(frozen=True, slots=True)
class Recovered:
    """End of the last segment, and the leader epoch of its last batch (0: it has none)."""

    end_offset: int
    size_bytes: int
    last_epoch: int


def recover(segment: Segment, high_watermark: int) -> Recovered:
    """Check the last segment and cut off its truncated tail, durably.

    Raises:
        LogCorruptError: something below the high watermark is damaged or missing; nothing was changed.
        OSError: the file cannot be read or cut.
    """
    if segment.base_offset > high_watermark:
        raise _acknowledged(
            segment.path, 0, segment.base_offset, high_watermark, "the segment begins beyond it"
        )
    file_bytes = segment.size_bytes()
    end_offset, size_bytes, last_epoch = segment.base_offset, 0, 0
    problem = None
    for position, header in segment.headers(0, segment.base_offset, file_bytes):
        if header.base_offset != end_offset:
            problem = f"the next batch is at offset {header.base_offset}"
            break
        try:
            decode_batch(segment.read_at(position, header.size_bytes))
        except DecodeError as error:
            problem = error.reason
            break
        end_offset, size_bytes, last_epoch = header.end_offset, position + header.size_bytes, header.epoch
    if end_offset < high_watermark:
        if problem is None:
            problem = "no complete batch is there" if file_bytes > size_bytes else "the file ends"
        raise _acknowledged(segment.path, size_bytes, end_offset, high_watermark, problem)
    if size_bytes < file_bytes:
        _cut(segment.path, size_bytes)
    return Recovered(end_offset, size_bytes, last_epoch)


def _cut(path: Path, size_bytes: int) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.ftruncate(descriptor, size_bytes)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _acknowledged(
    path: Path, position: int, offset: int, high_watermark: int, problem: str
) -> LogCorruptError:
    return LogCorruptError(
        f"{path}: byte {position}: damaged at offset {offset} ({problem}), but everything below offset "
        f"{high_watermark} was acknowledged, so the log is not opened for writing. Restore a backup of this "
        f"file; or `{copy_command(path.parent)}` copies the readable records"
    )


# --- leader epochs -----------------------------------------------------------------------------------------

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
