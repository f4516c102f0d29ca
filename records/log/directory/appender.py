"""Appender: writes batches to the last segment, syncs, and records the high watermark. For one thread.

- A failed write (full disk) is undone by truncating the file; the log can be used further.
- After a failed sync the content of the disk is unknown: the log accepts no more appends until it is opened
  again, which checks the file.
- A new segment begins if the next batch would make the last one longer than ``segment_bytes``. Opening for
  writing checks only the last segment, so its size bounds the time of opening.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from records.errors import LogCorruptError, LogStorageError
from records.log.directory.files import (
    HIGH_WATERMARK_FILE,
    LEADER_EPOCHS_FILE,
    create_file,
    segment_name,
    storage_errors,
    sync_data,
    write_all,
)
from records.log.directory.high_watermark import HighWatermarkRecorder
from records.log.directory.recovery import begin_epoch, recover
from records.log.directory.segments import Segments

#: Opening checks this much of the smallest batches in well below a second; a log of a million ACLs has some
#: five to ten files.
SEGMENT_BYTES: Final = 16 * 1024 * 1024
#: Kafka's positions in a segment have 32 bits.
SEGMENT_BYTES_MAX: Final = 2**31 - 1
#: Maximum size of one write and sync, which bounds the memory of an import.
GROUP_BYTES_MAX: Final = 8 * 1024 * 1024

_BASE_OFFSET: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    """An encoded batch whose base offset, which the CRC does not cover (KIP-98), is still to be set."""

    data: bytearray
    record_count: int


@dataclass(slots=True)
class _Tail:
    """The last segment, open for writing; the bytes below ``size_bytes`` are committed."""

    path: Path
    descriptor: int
    size_bytes: int


class Appender:
    """Created by ``open``, under the writer lock. Not thread-safe.

    ``epoch``: leader epoch that the caller encodes into batches.
    """

    def __init__(
        self,
        directory: Path,
        tail: _Tail,
        recorder: HighWatermarkRecorder,
        *,
        end_offset: int,
        epoch: int,
        segment_bytes: int,
    ) -> None:
        self._directory = directory
        self._tail = tail
        self._recorder = recorder
        self.end_offset = end_offset
        self.epoch = epoch
        self._segment_bytes = segment_bytes
        self._refusal: str | None = None

    @classmethod
    def open(cls, directory: Path, *, segment_bytes: int) -> Self:
        """Recover the log's tail and begin an epoch.

        Raises:
            LogCorruptError: acknowledged records are missing or damaged; nothing was changed.
            OSError: a file cannot be read or written.
        """
        with ExitStack() as opened:
            recorder, high_watermark = HighWatermarkRecorder.open(directory / HIGH_WATERMARK_FILE)
            opened.callback(recorder.close)
            segments = Segments(directory)
            opened.callback(segments.close)
            if not segments.refresh().segments:
                raise LogCorruptError(
                    f"{directory}: no segments, but offsets up to {high_watermark} were acknowledged"
                )
            found = recover(segments.last, high_watermark)
            descriptor = os.open(segments.last.path, os.O_WRONLY)
            opened.callback(os.close, descriptor)
            if found.end_offset > high_watermark:
                os.fsync(descriptor)
                recorder.record(found.end_offset)
            epoch = begin_epoch(directory / LEADER_EPOCHS_FILE, found.end_offset, found.last_epoch)
            tail = _Tail(segments.last.path, descriptor, found.size_bytes)
            segments.close()
            opened.pop_all()
        return cls(
            directory, tail, recorder, end_offset=found.end_offset, epoch=epoch, segment_bytes=segment_bytes
        )

    def commit(self, batches: Iterable[EncodedBatch]) -> None:
        """Append batches in order. If it raises, the batches below ``end_offset`` were appended.

        Raises:
            LogStorageError: the disk failed, now or earlier.
        """
        if self._refusal is not None:
            raise LogStorageError(self._refusal)
        group, end_offset = bytearray(), self.end_offset
        for batch in batches:
            segment_bytes = self._tail.size_bytes + len(group)
            if segment_bytes and segment_bytes + len(batch.data) > self._segment_bytes:
                self._write(group, end_offset)
                self._roll()
                group = bytearray()
            elif group and len(group) + len(batch.data) > GROUP_BYTES_MAX:
                self._write(group, end_offset)
                group = bytearray()
            _BASE_OFFSET.pack_into(batch.data, 0, end_offset)
            group += batch.data
            end_offset += batch.record_count
        self._write(group, end_offset)

    def close(self) -> None:
        """Close the files; call it once."""
        os.close(self._tail.descriptor)
        self._recorder.close()

    def _write(self, group: bytearray, end_offset: int) -> None:
        if not group:
            return
        tail = self._tail
        # After any interruption, also Ctrl-C, append no more to a file in an unknown state.
        self._refusal = f"{tail.path}: an append was interrupted; open the log again"
        try:
            write_all(tail.descriptor, bytes(group), tail.size_bytes)
        except OSError as error:
            self._undo(error)
            raise LogStorageError(f"{tail.path}: {error.strerror}; nothing was appended") from error
        try:
            sync_data(tail.descriptor)
            self._recorder.record(end_offset)
        except OSError as error:
            self._refusal = (
                f"{tail.path}: {error.strerror} while syncing an append; whether it is there shows when the "
                f"log is opened again"
            )
            raise LogStorageError(self._refusal) from error
        tail.size_bytes += len(group)
        self.end_offset = end_offset
        self._refusal = None

    def _undo(self, cause: OSError) -> None:
        tail = self._tail
        try:
            os.ftruncate(tail.descriptor, tail.size_bytes)
        except OSError as error:
            self._refusal = (
                f"{tail.path}: {cause.strerror}, and the file could not be cut back: {error.strerror}"
            )
        else:
            self._refusal = None

    def _roll(self) -> None:
        path = self._directory / segment_name(self.end_offset)
        with storage_errors(path):
            descriptor = create_file(path)
        os.close(self._tail.descriptor)
        self._tail = _Tail(path, descriptor, 0)
