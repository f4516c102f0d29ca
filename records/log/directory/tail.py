"""LastCompleteBatch: the end of a broker's log, which records no high watermark.

The end is the last complete batch of the last segment, but at least the newest ``.checkpoint``, which has
committed records only. It may be too high: the broker may have records that are not committed yet (KIP-595).

Bytes after the last complete batch are either being written or damaged:

- A complete, valid batch follows later: damaged, as these bytes were written long ago.
- Fewer bytes than the batch's length, or zeros after other batches: being written, with no time limit. A
  killed broker leaves such a tail, and cuts it off when it starts.
- A batch of the right size with a wrong CRC, or bytes that no batch begins with: being written for SETTLE_S,
  then damaged. The time counts from the last write to the file, or from when these bytes were first read,
  whichever is earlier.

A damaged batch counts as one offset, so that its reader gets the error. A wrong CRC before the last batch is
not checked here, as its reader gets that error too.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from records.batch import HEADER_BYTES, decode_batch
from records.errors import DecodeError
from records.log.base import TrailingBytes
from records.log.directory.files import SegmentId
from records.log.directory.segments import (
    BatchHeader,
    FilesChangedError,
    Mark,
    Segment,
    Segments,
    is_plausible,
    parse_begun_header,
    parse_header,
)

#: A broker writes a batch in one call, and a local file system shows its bytes before the file grows. So
#: bytes that are invalid for this long remain so.
SETTLE_S: Final = 0.25

# The header of a batch of any KRaft leader: an offset below 2**48, magic 2 and no producer (-1). No text in a
# record matches, as UTF-8 has no byte 0xff.
_SOME_HEADER: Final = re.compile(rb"(?=\x00\x00.{14}\x02.{26}\xff{8})", re.DOTALL)
# The next batch is within this distance of a damaged one (KafkaRaftClient.MAX_BATCH_SIZE_BYTES).
_SEARCH_BYTES: Final = 8 * 1024 * 1024 + HEADER_BYTES


@dataclass(frozen=True, slots=True)
class _Suspect:
    segment: SegmentId
    position: int
    header: bytes
    met_at_s: float


class LastCompleteBatch:
    """Follows the end of the last segment. Use it after each ``Segments.refresh``. Not thread-safe."""

    def __init__(
        self,
        segments: Segments,
        *,
        wall_clock_s: Callable[[], float] = time.time,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._segments = segments
        self._wall_clock_s = wall_clock_s
        self._monotonic_s = monotonic_s
        self._segment: Segment | None = None
        self._position = 0
        self._next_offset = 0
        self._mark: Mark | None = None
        self._size_bytes = 0
        self._suspect: _Suspect | None = None
        self._searched: tuple[SegmentId, int, int] | None = None
        self._is_followed = False

    def end_offset(self) -> int:
        """One past the last offset of the log, or past the damaged batch at its end.

        Raises:
            FilesChangedError: the segment was truncated meanwhile.
            OSError: it cannot be read.
        """
        segment = self._segments.last
        if self._mark is not None and not self._segments.is_intact(self._mark):
            self._segments.forget()
            self._begin(segment)
        elif segment is not self._segment:
            if self._segment is not None and segment.base_offset <= self._segment.base_offset:
                self._segments.forget()
            self._begin(segment)
        return max(self._follow(segment), self._segments.certain_end)

    @property
    def epoch(self) -> int:
        """Of the last complete batch; -1: the last segment has none."""
        return -1 if self._mark is None else parse_header(self._mark.header).epoch

    def trailing_bytes(self) -> TrailingBytes | None:
        """Bytes after the last complete batch as of the last ``end_offset``. Raises OSError."""
        segment, left_bytes = self._segment, self._size_bytes - self._position
        if segment is None or left_bytes <= 0:
            return None
        return TrailingBytes(
            path=segment.path,
            position=self._position,
            size_bytes=left_bytes,
            offset=self._next_offset,
            still_s=self._still_s(segment),
        )

    def _still_s(self, segment: Segment) -> float:
        """Seconds since the last write to the segment; negative if the clock was set back."""
        return self._wall_clock_s() - segment.modified_ns() / 1e9

    def _begin(self, segment: Segment) -> None:
        if self._segment is not None:
            self._segment.close()  # a reader opens it again
        self._segment = segment
        self._next_offset, self._position = segment.last_known()
        self._mark = None
        self._suspect, self._searched = None, None

    def _follow(self, segment: Segment) -> int:
        size_bytes = self._size_bytes = segment.size_bytes()
        complete: tuple[int, BatchHeader] | None = None
        newest: tuple[int, BatchHeader] | None = None
        for found in segment.headers(self._position, self._next_offset, size_bytes):
            complete, newest = newest, found
        if newest is not None:
            position, header = newest
            if position + header.size_bytes < size_bytes or _is_valid(segment, position, header):
                complete = newest
        if complete is not None:
            position, header = complete
            raw = segment.read_at(position, HEADER_BYTES)
            if len(raw) < HEADER_BYTES or parse_header(raw) != header:
                raise FilesChangedError(f"{segment.path.name} is truncated while it is read")
            self._mark = Mark(segment.base_offset, position, header.base_offset, raw)
            self._position, self._next_offset = position + header.size_bytes, header.end_offset
        return self._next_offset + self._is_damaged(segment, size_bytes)

    def _is_damaged(self, segment: Segment, size_bytes: int) -> bool:
        # Ignore bytes beyond ``size_bytes``: the file may have grown meanwhile, by complete batches.
        left_bytes = size_bytes - self._position
        if left_bytes <= 0:
            return False
        raw = segment.read_at(self._position, min(HEADER_BYTES, left_bytes))
        place = (segment.id, self._position, size_bytes)
        if place != self._searched:
            self._searched, self._is_followed = place, self._search(segment, size_bytes)
        if self._is_followed:
            return True
        header = parse_begun_header(raw, self._next_offset)
        is_truncated = (
            is_plausible(header, self._next_offset, segment.base_offset) and header.size_bytes > left_bytes
        )
        if is_truncated or self._is_unwritten(segment, raw):
            return False
        return self._has_settled(segment, raw)

    def _is_unwritten(self, segment: Segment, raw: bytes) -> bool:
        """Whether zeros follow other batches; zeros at the start of the log are damage."""
        has_batches = self._position > 0 or segment.base_offset > self._segments.start_offset
        return has_batches and not any(raw)

    def _search(self, segment: Segment, size_bytes: int) -> bool:
        """Whether a complete, valid batch follows somewhere after the expected position."""
        start = self._position + 1
        data = segment.read_at(start, min(_SEARCH_BYTES, size_bytes - start))
        for match in _SOME_HEADER.finditer(data):
            if len(data) - match.start() < HEADER_BYTES:
                return False
            header = parse_header(data, match.start())
            position = start + match.start()
            is_inside = position + header.size_bytes <= size_bytes
            if (
                is_plausible(header, self._next_offset, segment.base_offset)
                and is_inside
                and _is_valid(segment, position, header)
            ):
                return True
        return False

    def _has_settled(self, segment: Segment, raw: bytes) -> bool:
        if self._still_s(segment) >= SETTLE_S:
            return True
        now_s, suspect = self._monotonic_s(), self._suspect
        place = (segment.id, self._position, raw)
        if suspect is None or (suspect.segment, suspect.position, suspect.header) != place:
            self._suspect = suspect = _Suspect(*place, now_s)
        return now_s - suspect.met_at_s >= SETTLE_S


def _is_valid(segment: Segment, position: int, header: BatchHeader) -> bool:
    try:
        decode_batch(segment.read_at(position, header.size_bytes))
    except DecodeError:
        return False
    return True
