"""Recovery of an aclog-managed log when it is opened for writing.

- Complete, valid batches up to the high watermark: the normal case.
- Complete, valid batches after it: retained and committed. An unacknowledged append wrote them, so both
  outcomes are allowed. Kafka's next leader retains them too, and an old high-watermark file (from a backup)
  must not destroy data.
- Any other bytes up to the end of the file: a truncated tail. It is cut off, as in Kafka.
- Damaged or missing records *below* the high watermark: LogCorruptError. They were acknowledged, and cutting
  them off would turn a damaged file into a lost one.

Only the last segment is checked. The others were synced before it was created, and readers check every CRC
(``aclog log verify`` reads everything).

Source: org.apache.kafka.storage.internals.log.LogSegment.recover.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from records.batch import decode_batch
from records.errors import DecodeError, LogCorruptError
from records.log.directory.files import copy_command

if TYPE_CHECKING:
    from pathlib import Path

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
