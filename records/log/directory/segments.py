"""Segment files of a directory, listed again on demand, as brokers roll, trim and truncate them.

They are read by ``pread``, never mapped: a follower truncates its log, and access to a mapped page beyond the
end of a file kills the process. To find an offset, a segment reads header after header. It has a sparse index
with a position every INDEX_INTERVAL_BYTES, as Kafka's ``.index`` files.

Source: org.apache.kafka.common.record.FileLogInputStream, org.apache.kafka.storage.internals.log.OffsetIndex.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC
from records.log.base import BatchPosition, CheckpointId
from records.log.directory.files import Listing, SegmentId, list_directory, segment_name


@dataclass(frozen=True, slots=True)
class Mark:
    """Position and header of a batch, for detecting later whether it was replaced.

    Base offset, epoch and CRC are in the header, so another history has another header there.
    """

    segment_base_offset: int
    position: int
    base_offset: int
    header: bytes


class FilesChangedError(OSError):
    """Another process changed the files after they were listed. Retry."""


class Segments:
    """The segments in offset order, as of the last ``refresh``. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self.checkpoints: tuple[CheckpointId, ...] = ()

    def refresh(self) -> Listing:
        """List the directory; close files that were removed or replaced. Raises OSError."""
        listing = list_directory(self._directory)
        self.checkpoints = listing.checkpoints
        if [segment.id for segment in self._segments] != list(listing.segments):
            known = {segment.id: segment for segment in self._segments}
            self._segments = [
                known.pop(id_) if id_ in known else Segment(self._directory, id_) for id_ in listing.segments
            ]
            self._base_offsets = [segment.base_offset for segment in self._segments]
            for stale in known.values():
                stale.close()
        return listing

    def require_unchanged(self) -> None:
        """Check that the directory still has these segments.

        Raises:
            FilesChangedError: it has others.
            OSError: it cannot be listed.
        """
        if [segment.id for segment in self._segments] != list(list_directory(self._directory).segments):
            raise FilesChangedError("the segments change faster than they can be listed")

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def start_offset(self) -> int:
        """First offset of the log; 0 for a log that is being created."""
        return self._base_offsets[0] if self._base_offsets else 0

    @property
    def certain_end(self) -> int:
        """An end of committed records: a broker's checkpoints and trimmed segments have no others."""
        return max([self.start_offset, *(checkpoint.end_offset for checkpoint in self.checkpoints[-1:])])

    @property
    def last(self) -> Segment:
        return self._segments[-1]

    def at_or_before(self, offset: int) -> Segment:
        """The segment that contains ``offset``, if any does."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, base_offset: int) -> Segment | None:
        """The segment after the one that begins at ``base_offset``; None: it is the last."""
        at = bisect_right(self._base_offsets, base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def nearest(self, offset: int) -> BatchPosition:
        """An indexed batch at or below ``offset`` in its segment."""
        segment = self.at_or_before(offset)
        base_offset, position = segment.nearest(offset)
        return BatchPosition(segment.base_offset, position, base_offset)

    def remember(self, batch: BatchPosition) -> None:
        """Index a batch that another reader of the log found, unless the segment was removed."""
        segment = self.at_or_before(batch.segment_base_offset)
        if segment.base_offset == batch.segment_base_offset:
            segment.remember(batch.base_offset, batch.position)

    def is_intact(self, mark: Mark) -> bool:
        """Whether the batch is still there, or its segment was trimmed. Raises OSError."""
        segment = self.at_or_before(mark.segment_base_offset)
        if segment.base_offset == mark.segment_base_offset:
            return segment.read_at(mark.position, HEADER_BYTES) == mark.header
        return mark.segment_base_offset < self.start_offset

    def forget(self) -> None:
        """Clear the indexes: a segment was truncated, and may have another history now."""
        for segment in self._segments:
            segment.forget()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


#: Bytes between two indexed positions: 1,000 positions in 64 MiB.
INDEX_INTERVAL_BYTES: Final = 64 * 1024

#: LogSegment.canConvertToRelativeOffset: maximum distance of an offset from its segment's base offset.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta
_HEADER: Final = struct.Struct(">qiibIhi")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_LENGTH_MAX: Final = 2**31 - 1
_HEADERS_READ_BYTES: Final = 64 * 1024


class BatchHeader(NamedTuple):
    """Header of a batch whose CRC is not checked yet: any value may be invalid."""

    base_offset: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int

    @property
    def size_bytes(self) -> int:
        return LENGTH_PREFIX_BYTES + self.length

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


def parse_header(data: bytes, at: int = 0) -> BatchHeader:
    """Parse the header at ``at``; ``data`` has at least HEADER_BYTES from there."""
    return BatchHeader._make(_HEADER.unpack_from(data, at))


def batch_bytes(data: bytes, at: int = 0) -> int:
    """Size of the batch at ``at`` by its length field. A fast path for each batch that is read."""
    (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    return LENGTH_PREFIX_BYTES + int(length)


def parse_begun_header(data: bytes, next_offset: int) -> BatchHeader:
    """Parse a truncated header, completed by the header of a long batch at ``next_offset``.

    So the result is plausible if some batch can begin with ``data``.
    """
    rest = _HEADER.pack(next_offset, _LENGTH_MAX, 0, MAGIC, 0, 0, 0).ljust(HEADER_BYTES, b"\0")
    return parse_header(data + rest[len(data) :])


def is_plausible(header: BatchHeader, next_offset: int, segment_base_offset: int) -> bool:
    """Whether the next batch of a segment, after the offsets below ``next_offset``, can have this header."""
    return (
        header.magic == MAGIC
        and header.size_bytes >= HEADER_BYTES
        and header.last_offset_delta >= 0
        and next_offset <= header.base_offset <= segment_base_offset + RELATIVE_OFFSET_MAX
    )


class Segment:
    """A segment file; opened on first access, until ``close``."""

    def __init__(self, directory: Path, id: SegmentId) -> None:  # noqa: A002 - as everywhere in Kafka's names
        self.id = id
        self.base_offset = id.base_offset
        self.path = directory / segment_name(id.base_offset)
        self._descriptor: int | None = None
        self._index_offsets = [id.base_offset]
        self._index_positions = [0]

    def size_bytes(self) -> int:
        """Raises OSError; FileNotFoundError if the file was deleted before it was opened."""
        return os.fstat(self._opened()).st_size

    def modified_ns(self) -> int:
        """When the file was last written to. Raises OSError."""
        return os.fstat(self._opened()).st_mtime_ns

    def read_at(self, position: int, length: int) -> bytes:
        """``length`` bytes, fewer only where the file ends. Raises OSError."""
        descriptor = self._opened()
        data = os.pread(descriptor, length, position)
        while len(data) < length:
            more = os.pread(descriptor, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def headers(
        self, position: int, next_offset: int, end_position: int
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Headers of the batches from ``position`` on, with their positions.

        Ends before the first batch that ends beyond ``end_position`` or cannot follow the previous one.
        """
        data, data_position = b"", position
        while position + HEADER_BYTES <= end_position:
            at = position - data_position
            if at + HEADER_BYTES > len(data):
                data = self.read_at(position, min(_HEADERS_READ_BYTES, end_position - position))
                data_position, at = position, 0
                if len(data) < HEADER_BYTES:
                    return  # truncated meanwhile
            header = parse_header(data, at)
            if (
                not is_plausible(header, next_offset, self.base_offset)
                or position + header.size_bytes > end_position
            ):
                return
            self.remember(header.base_offset, position)
            yield position, header
            position += header.size_bytes
            next_offset = header.end_offset

    def remember(self, base_offset: int, position: int) -> None:
        """Index the batch at ``position``, if it is far enough from the last indexed one."""
        if position >= self._index_positions[-1] + INDEX_INTERVAL_BYTES:
            self._index_offsets.append(base_offset)
            self._index_positions.append(position)

    def nearest(self, offset: int) -> tuple[int, int]:
        """Base offset and position of an indexed batch at or below ``offset``."""
        at = bisect_right(self._index_offsets, offset) - 1
        return self._index_offsets[max(at, 0)], self._index_positions[max(at, 0)]

    def last_known(self) -> tuple[int, int]:
        return self._index_offsets[-1], self._index_positions[-1]

    def forget(self) -> None:
        del self._index_offsets[1:], self._index_positions[1:]

    def close(self) -> None:
        """Close the file; the next access opens it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        return self._descriptor
