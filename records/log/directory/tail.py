"""Where a log ends whose writer records no high watermark: a broker's.

The end is the last whole batch of the last segment, and never below the newest ``.checkpoint``, which a broker
makes of committed records only. It is a guess in one direction: the broker may hold records there that are not
committed yet (KIP-595).

What stands behind the last whole batch is either being written or damaged, and only time tells:

- fewer bytes than the batch says it has, or zeros only: not there yet, for however long (a broker that was
  killed leaves such a tail, and cuts it when it starts);
- as many bytes as the batch says, and its CRC or its header is wrong: not there yet for SETTLE_S, then damaged.
  The time counts from when the file was last written to, or from when the same header was first met there,
  whichever is earlier. A damaged batch counts one offset, so that whoever reads to the end meets the error.

A damaged batch that others follow is not looked for here: its reader meets it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google_crc32c import value as crc32c

from records.batch import HEADER_BYTES
from records.log.directory.segment import BatchHeader, Segment, is_plausible, parse_header
from records.log.directory.segments import Mark

if TYPE_CHECKING:
    from collections.abc import Callable

    from records.log.directory.files import SegmentId
    from records.log.directory.segments import Segments

#: A broker writes a batch in one call: what is still wrong after a second will not become right.
SETTLE_S: Final = 1.0

#: The CRC counts from here on.
_CRC_FROM: Final = 21


@dataclass(frozen=True, slots=True)
class _Suspect:
    segment: SegmentId
    position: int
    header: bytes
    met_at_s: float


class LastWholeBatch:
    """Follows the end of the last segment. Asked after each ``Segments.refresh``; not thread-safe."""

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
        self._suspect: _Suspect | None = None

    def end_offset(self) -> int:
        """One past the last offset of the log, or past the damaged batch at its end. Raises OSError."""
        segment = self._segments.last
        if self._mark is not None and not self._segments.is_intact(self._mark):
            self._segments.forget()
            self._begin(segment)
        elif segment is not self._segment:
            if self._segment is not None and segment.base_offset <= self._segment.base_offset:
                self._segments.forget()
            self._begin(segment)
        end = self._follow(segment)
        newest = self._segments.checkpoints[-1:]
        return max([end, *(checkpoint.end_offset for checkpoint in newest)])

    def _begin(self, segment: Segment) -> None:
        if self._segment is not None:
            self._segment.close()  # whoever still reads it opens it again
        self._segment = segment
        self._position, self._next_offset, self._mark = 0, segment.base_offset, None

    def _follow(self, segment: Segment) -> int:
        size = segment.size_bytes()
        last: tuple[int, BatchHeader] | None = None
        for met in segment.headers(self._position, self._next_offset, size):
            if last is not None:
                self._pass(segment, *last)
            last = met
        if last is not None:
            position, header = last
            ends_here = position + header.size_bytes == size
            if not ends_here or self._is_valid(segment, position, header):
                self._pass(segment, position, header)
        if self._is_damaged(segment, size):
            return self._next_offset + 1
        return self._next_offset

    def _pass(self, segment: Segment, position: int, header: BatchHeader) -> None:
        raw = segment.read_at(position, HEADER_BYTES)
        self._mark = Mark(segment.base_offset, position, header.base_offset, raw)
        self._position = position + header.size_bytes
        self._next_offset = header.end_offset

    def _is_valid(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        return crc32c(segment.read_at(position, header.size_bytes)[_CRC_FROM:]) == header.crc

    def _is_damaged(self, segment: Segment, size: int) -> bool:
        raw = segment.read_at(self._position, HEADER_BYTES)
        if len(raw) < HEADER_BYTES or not any(raw):
            return False
        header = parse_header(raw)
        if is_plausible(header, self._next_offset) and self._position + header.size_bytes > size:
            return False
        if self._wall_clock_s() - segment.modified_ns() / 1e9 >= SETTLE_S:
            return True
        now_s, suspect = self._monotonic_s(), self._suspect
        place = (segment.id, self._position, raw)
        if suspect is None or (suspect.segment, suspect.position, suspect.header) != place:
            self._suspect = suspect = _Suspect(*place, now_s)
        return now_s - suspect.met_at_s >= SETTLE_S
