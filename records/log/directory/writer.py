"""Appends batches to the last segment: written, synced, recorded in the high-watermark file, acknowledged.

- One append is one batch: it is there whole or not at all.
- Appends of several threads share their syncs: who comes while others sync waits in a queue, and the next one
  to get the lock writes all that has gathered there.
- A write that fails (a full disk) is undone by cutting the file back; the log goes on. A sync that fails leaves
  open what is on disk, so that the log takes nothing more until it was opened again, which finds out.
- A segment is left at SEGMENT_BYTES. Only the last one is looked at when a log is opened for writing, so its
  size bounds that time (64 MiB of single-record batches: about a second), and it is small enough to copy.
"""

from __future__ import annotations

import os
import struct
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from records.batch import HEADER_BYTES, encode_batch
from records.codecs.kraft import encode_frame
from records.errors import AclogError, EncodeError, LogCorruptError, LogError, LogStorageError
from records.log.directory.creation import complete_creation, prepare_directory
from records.log.directory.files import HIGH_WATERMARK_FILE, LEADER_EPOCHS_FILE, segment_name
from records.log.directory.high_watermark import HighWatermarkRecorder
from records.log.directory.leader_epochs import begin_epoch
from records.log.directory.recovery import recover
from records.log.directory.segments import Segments
from records.log.directory.storage import create_file, write_all
from records.log.directory.writer_lock import WriterLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from records.entries import MetadataRecord
    from records.log.base import LogIdentity

#: See above.
SEGMENT_BYTES: Final = 64 * 1024 * 1024
#: Kafka counts positions in a segment in 32 bits.
SEGMENT_BYTES_MAX: Final = 2**31 - 1
#: KafkaRaftClient.MAX_BATCH_SIZE_BYTES: what a KRaft quorum takes in one batch.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
#: So much is written and synced at once at most, which bounds what an import holds in memory.
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024

# Base offset (8 bytes), length (4) and leader epoch (4) precede the CRC and are not covered by it, so that the
# leader can set them when it appends (KIP-98).
_BASE_OFFSET: Final = struct.Struct(">q")


def now_ms() -> int:
    """Milliseconds since the epoch of Unix."""
    return time.time_ns() // 1_000_000


class _Request:
    """The batches of one call, encoded but for their offsets; ``end_offset`` or ``error`` is set when done."""

    __slots__ = ("batches", "end_offset", "error")

    def __init__(self, batches: list[tuple[bytearray, int]]) -> None:
        self.batches = batches
        self.end_offset: int | None = None
        self.error: AclogError | None = None

    @property
    def is_done(self) -> bool:
        return self.end_offset is not None or self.error is not None


class Writer:
    """The one writer of an own log; safe to use from several threads.

    Made by ``open``. ``on_commit`` is called after each commit, in the thread that made it.
    """

    def __init__(
        self,
        directory: Path,
        identity: LogIdentity,
        lock: WriterLock,
        *,
        segment_bytes: int,
        clock_ms: Callable[[], int],
        on_commit: Callable[[], None],
    ) -> None:
        self._directory = directory
        self.identity = identity
        self._lock = lock
        self._segment_bytes = segment_bytes
        self._clock_ms = clock_ms
        self._on_commit = on_commit
        self._requests: deque[_Request] = deque()
        self._writing = threading.Lock()
        self._failure: str | None = None
        self._closed = False
        self._recorder, high_watermark = HighWatermarkRecorder.open(directory / HIGH_WATERMARK_FILE)
        segments = Segments(directory)
        if not segments.refresh().segments:
            raise LogCorruptError(f"{directory}: all segments are gone, up to offset {high_watermark}")
        try:
            found = recover(segments.last, high_watermark)
        finally:
            segments.close()
        self._size_bytes = found.size_bytes
        self._path = segments.last.path
        self._descriptor = os.open(self._path, os.O_WRONLY)
        if found.end_offset > high_watermark:
            os.fsync(self._descriptor)
            self._recorder.record(found.end_offset)
        #: One past the last committed offset. Read without a lock: only ever replaced by a greater one.
        self.end_offset = found.end_offset
        self.epoch = begin_epoch(directory / LEADER_EPOCHS_FILE, found.end_offset, found.last_epoch)
