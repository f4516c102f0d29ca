"""One segment file, opened to read: its bytes, its batch headers, and roughly which offset is where.

Read by ``pread``, never mapped: a follower truncates its log, and a mapped page beyond the end of a file
kills the process. Finding an offset hops from header to header; a position every INDEX_INTERVAL_BYTES is
remembered, as Kafka's ``.index`` files do, so that the hop is short.

Source: org.apache.kafka.common.record.FileLogInputStream, org.apache.kafka.storage.internals.log.OffsetIndex.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC
from records.log.directory.files import SegmentId, segment_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
