"""What opening an own log for writing finds, and what it makes of it.

- Whole, valid batches up to the high watermark: as it should be.
- More whole, valid batches behind it: kept and committed. They were written by an unanswered append, so
  both outcomes are allowed; Kafka's next leader keeps them too, and a high-watermark file that
  fell behind (restored from a backup, say) must not destroy data.
- Then anything else, up to the end of the file: a torn tail. It is cut, as Kafka does.
- Something damaged or missing *below* the high watermark: LogCorruptError. That was acknowledged, and a
  writer that cut it would turn a damaged file into a lost one.

Only the last segment is looked at. The others were synced before it was begun; a reader checks every
CRC (``aclog log verify`` reads all).

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
    """Where the last segment ends, and the leader epoch of its last batch (0 if it has none)."""

    end_offset: int
    size_bytes: int
    last_epoch: int


def recover(segment: Segment, high_watermark: int) -> Recovered:
    """Check the last segment and cut its torn tail, durably.

    Raises:
        LogCorruptError: something below the high watermark is damaged or missing; nothing was changed.
        OSError: the file cannot be read or cut.
    """
    if segment.base_offset > high_watermark:
        raise _acknowledged(
            segment.path, 0, segment.base_offset, high_watermark, "the segment begins behind it"
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
            problem = "no whole batch stands there" if file_bytes > size_bytes else "the file ends"
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
        f"{high_watermark} was acknowledged, so the log is not opened for writing. Put back a backup of this "
        f"file; or `{copy_command(path.parent)}` keeps what can still be read"
    )
