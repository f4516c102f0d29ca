"""Segment files of a directory, listed anew on demand: brokers roll, trim and truncate them.

They are read by ``pread``, never mapped: a follower truncates its log, and a mapped page beyond the end of a
file kills the process. To find an offset a segment hops from header to header; it remembers a position every
INDEX_INTERVAL_BYTES, as Kafka's ``.index`` files do, so that the hop is short.

Source: org.apache.kafka.common.record.FileLogInputStream, org.apache.kafka.storage.internals.log.OffsetIndex.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC
from records.log.base import BatchPosition
from records.log.directory.files import Listing, SegmentId, list_directory, segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from records.log.base import CheckpointId


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a batch was met and how it begins: shows later whether it is still the same one.

    Base offset, epoch and CRC are in the header, so another history has another header there.
    """

    segment_base_offset: int
    position: int
    base_offset: int
    header: bytes


class FilesChangedError(OSError):
    """The files are not those that were listed: another process has stale on. To be looked at again."""


class Segments:
    """The segments in offset order, as of the last ``refresh``. Not thread-safe."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segments: list[Segment] = []
        self._base_offsets: list[int] = []
        self.checkpoints: tuple[CheckpointId, ...] = ()

    def refresh(self) -> Listing:
        """List the directory. Files that are stale or replaced are closed. Raises OSError."""
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
        """See that the directory still holds these segments.

        Raises:
            FilesChangedError: it holds others.
            OSError: it cannot be listed.
        """
        if [segment.id for segment in self._segments] != list(list_directory(self._directory).segments):
            raise FilesChangedError("the segments change faster than they can be listed")

    @property
    def is_empty(self) -> bool:
        return not self._segments

    @property
    def start_offset(self) -> int:
        """First offset that the log still holds; 0 in a log that is just being created."""
        return self._base_offsets[0] if self._base_offsets else 0

    @property
    def certain_end(self) -> int:
        """Below it all is committed: a broker makes its checkpoints, and trims, of committed records only."""
        return max([self.start_offset, *(checkpoint.end_offset for checkpoint in self.checkpoints[-1:])])

    @property
    def last(self) -> Segment:
        return self._segments[-1]

    def at_or_before(self, offset: int) -> Segment:
        """The segment that holds ``offset`` if any does."""
        return self._segments[max(bisect_right(self._base_offsets, offset) - 1, 0)]

    def after(self, base_offset: int) -> Segment | None:
        """The segment behind the one that begins at ``base_offset``; None for the last."""
        at = bisect_right(self._base_offsets, base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def nearest(self, offset: int) -> BatchPosition:
        """A batch at or below ``offset`` in its segment, not far from it if that part has been looked at."""
        segment = self.at_or_before(offset)
        base_offset, position = segment.nearest(offset)
        return BatchPosition(segment.base_offset, position, base_offset)

    def remember(self, place: BatchPosition) -> None:
        """What another reader of the log has met there; if the segment is stale, nothing."""
        segment = self.at_or_before(place.segment_base_offset)
        if segment.base_offset == place.segment_base_offset:
            segment.remember(place.base_offset, place.position)

    def is_intact(self, mark: Mark) -> bool:
        """Whether the batch is still there. Of a trimmed segment that is not known, which is not a change.

        Raises OSError.
        """
        segment = self.at_or_before(mark.segment_base_offset)
        if segment.base_offset == mark.segment_base_offset:
            return segment.read_at(mark.position, HEADER_BYTES) == mark.header
        return mark.segment_base_offset < self.start_offset

    def forget(self) -> None:
        """Drop all remembered positions: a segment was truncated, and what follows is another history."""
        for segment in self._segments:
            segment.forget()

    def close(self) -> None:
        """Close all files. Idempotent."""
        for segment in self._segments:
            segment.close()


#: Bytes between two remembered positions: a hop of at most this much, 1,000 positions in 64 MiB.
INDEX_INTERVAL_BYTES: Final = 64 * 1024

#: LogSegment.canConvertToRelativeOffset: a segment's offsets are this near to its base.
RELATIVE_OFFSET_MAX: Final = 2**31 - 1

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta: all that hopping
# needs.
_HEADER: Final = struct.Struct(">qiibIhi")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_LENGTH_MAX: Final = 2**31 - 1
_HOP_BYTES: Final = 64 * 1024


class BatchHeader(NamedTuple):
    """What a batch says about itself before its CRC was looked at; any value may be nonsense."""

    base_offset: int
    length: int
    epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole batch in the file."""
        return LENGTH_PREFIX_BYTES + self.length

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


def parse_header(data: bytes, at: int = 0) -> BatchHeader:
    """The header at ``at``; there are HEADER_BYTES at least."""
    return BatchHeader._make(_HEADER.unpack_from(data, at))


def batch_bytes(data: bytes, at: int = 0) -> int:
    """Bytes of the whole batch that begins at ``at``, as its length says. For each batch that is read."""
    (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
    return LENGTH_PREFIX_BYTES + int(length)


def parse_begun_header(data: bytes, next_offset: int) -> BatchHeader:
    """The header that begins with ``data``; what is missing of it is that of a long batch at ``next_offset``.

    So it is plausible if some batch begins like that.
    """
    rest = _HEADER.pack(next_offset, _LENGTH_MAX, 0, MAGIC, 0, 0, 0).ljust(HEADER_BYTES, b"\0")
    return parse_header(data + rest[len(data) :])


def is_plausible(header: BatchHeader, next_offset: int, segment_base_offset: int) -> bool:
    """Whether a batch of a segment can begin like this after all offsets below ``next_offset``."""
    return (
        header.magic == MAGIC
        and header.size_bytes >= HEADER_BYTES
        and header.last_offset_delta >= 0
        and next_offset <= header.base_offset <= segment_base_offset + RELATIVE_OFFSET_MAX
    )


class Segment:
    """A segment file; opened at the first look and kept open until ``close``."""

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
        """The batches from ``position`` on, each with its position, without looking at their records.

        Ends before the first one that is not wholly below ``end_position`` or cannot follow the ones before.
        """
        data, data_position = b"", position
        while position + HEADER_BYTES <= end_position:
            at = position - data_position
            if at + HEADER_BYTES > len(data):
                data = self.read_at(position, min(_HOP_BYTES, end_position - position))
                data_position, at = position, 0
                if len(data) < HEADER_BYTES:
                    return  # truncated since
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
        """A batch with this base offset begins at ``position``; kept if far enough from the last one."""
        if position >= self._index_positions[-1] + INDEX_INTERVAL_BYTES:
            self._index_offsets.append(base_offset)
            self._index_positions.append(position)

    def nearest(self, offset: int) -> tuple[int, int]:
        """Base offset and position of a remembered batch at or below ``offset``."""
        at = bisect_right(self._index_offsets, offset) - 1
        return self._index_offsets[max(at, 0)], self._index_positions[max(at, 0)]

    def last_known(self) -> tuple[int, int]:
        """Base offset and position of the last remembered batch."""
        return self._index_offsets[-1], self._index_positions[-1]

    def forget(self) -> None:
        """Drop the remembered positions."""
        del self._index_offsets[1:], self._index_positions[1:]

    def close(self) -> None:
        """Close the file; it is opened again when it is asked for something."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _opened(self) -> int:
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDONLY)
        return self._descriptor
