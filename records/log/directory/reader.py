"""SegmentReader: reads batches in offset order across segments, from where the last read ended.

Checks each batch against the previous ones: offsets increase, no batch extends into the next segment, and the
last batch of the previous read is unchanged (a follower truncates its log if its leader's differs). Missing
offsets are a jump of ``base_offset``. In an aclog-managed log, which has none, they are an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from records.batch import HEADER_BYTES, MAGIC, TRANSACTIONAL, decode_batch
from records.columns.batches import to_log_batches
from records.errors import DecodeError, LogCorruptError, OffsetOutOfRangeError, TruncatedRecordError
from records.log.directory.segments import RELATIVE_OFFSET_MAX, Mark, Segment, batch_bytes, parse_header

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.batch import RecordBatch
    from records.log.directory.segments import Segments
    from records.log_batch import LogBatch

    # Decodes batches up to the first that cannot be decoded; returns them and its error.
    _Decode = Callable[[Sequence[RecordBatch]], tuple[list["_T"], DecodeError | None]]

_T = TypeVar("_T")

_NO_PRODUCER: Final = -1


@dataclass(slots=True)
class _Cursor:
    """A position between two batches, and the minimum offset of the next one."""

    segment: Segment
    position: int
    next_offset: int
    before: Mark | None = None


class SegmentReader:
    """Reads the segments as of their last refresh by the caller. Not thread-safe.

    ``is_managed``: the log is aclog-managed, and so has all offsets below its high watermark.
    """

    def __init__(self, segments: Segments, *, is_managed: bool) -> None:
        self._segments = segments
        self._is_managed = is_managed
        self._cursor: _Cursor | None = None

    def is_diverged(self, offset: int) -> bool:
        """Whether the last read ended at ``offset``, and the batch before it was replaced. Raises OSError."""
        cursor = self._cursor
        if cursor is None or cursor.next_offset != offset or cursor.before is None:
            return False
        return not self._segments.is_intact(cursor.before)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> list[LogBatch]:
        """Complete batches from the one that contains ``offset`` on, up to the log's end at ``end_offset``.

        Raises:
            DecodeError: the first batch cannot be decoded.
            LogCorruptError: the first batch contradicts the previous one, or the end.
            OffsetOutOfRangeError: the batch before ``offset`` was replaced, or the log has no batch up to its
                end.
            OSError: FileNotFoundError or FilesChangedError if a segment was removed or added meanwhile.
        """
        return self._read(offset, end_offset, max_bytes, to_log_batches)

    def read_raw(self, offset: int, end_offset: int, max_bytes: int) -> list[RecordBatch]:
        return self._read(offset, end_offset, max_bytes, _undecoded)

    def _read(self, offset: int, end_offset: int, max_bytes: int, decode: _Decode[_T]) -> list[_T]:
        cursor = self._cursor = self._resume(offset) or self._seek(offset)
        batches: list[_T] = []
        while not batches and cursor.next_offset < end_offset:
            left_bytes = cursor.segment.size_bytes() - cursor.position
            if left_bytes > 0:
                data = _chunk(cursor, max_bytes, left_bytes)
                batches = self._read_chunk(data, cursor, offset, end_offset, decode)
            elif not self._next_segment(cursor):
                break
        if not batches and offset < end_offset:
            if self._is_managed:
                raise LogCorruptError(
                    f"{cursor.segment.path}: the log ends at offset {cursor.next_offset}, but everything "
                    f"below {end_offset} was acknowledged. Restore a backup of this file"
                )
            raise OffsetOutOfRangeError(offset, start=end_offset, end=end_offset)
        return batches

    def _resume(self, offset: int) -> _Cursor | None:
        cursor = self._cursor
        if cursor is None or cursor.next_offset != offset:
            return None
        if cursor.before is not None and self.is_diverged(offset):
            self._cursor = None
            raise OffsetOutOfRangeError(
                offset, start=self._segments.start_offset, end=cursor.before.base_offset
            )
        is_listed = self._segments.at_or_before(cursor.segment.base_offset) is cursor.segment
        return cursor if is_listed else None

    def _seek(self, offset: int) -> _Cursor:
        segment = self._segments.at_or_before(offset)
        if self._cursor is not None and self._cursor.segment is not segment:
            self._cursor.segment.close()
        next_offset, start = segment.nearest(offset)
        # The headers are not checked yet. If no batch claims to contain `offset`, the previous one is read
        # and checked too, as its last offset may be damaged.
        for position, header in segment.headers(start, next_offset, segment.size_bytes()):
            if header.base_offset > offset:
                break
            start, next_offset = position, header.base_offset
            if header.end_offset > offset:
                break
        return _Cursor(segment, start, next_offset)

    def _next_segment(self, cursor: _Cursor) -> bool:
        following = self._segments.after(cursor.segment.base_offset)
        if following is None:
            return False
        # Missing offsets: compaction, or truncation, or segments were rolled or deleted during the listing.
        # In the last case segments between the two were missed, and must not be skipped.
        if following.base_offset != cursor.next_offset:
            self._segments.require_unchanged()
        cursor.segment.close()
        cursor.segment, cursor.position = following, 0
        return True

    def _read_chunk(
        self, data: bytes, cursor: _Cursor, offset: int, end_offset: int, decode: _Decode[_T]
    ) -> list[_T]:
        """Decode the batches of a part of the file from ``offset`` on, up to the first damaged one."""
        origin, next_offset = cursor.position, cursor.next_offset
        batches, problem = self._split(data, cursor, end_offset)
        requested = [batch for batch in batches if batch.last_offset >= offset]
        decoded, undecodable = decode(requested)
        if undecodable is not None:
            problem = undecodable
            damaged = requested[len(decoded)]
            del batches[batches.index(damaged) :]
            cursor.position = damaged.position
            cursor.next_offset = batches[-1].end_offset if batches else next_offset
        self._remember(batches, data, origin, cursor)
        if problem is not None and not decoded:
            if isinstance(problem, DecodeError):
                raise problem.located(source=str(cursor.segment.path)) from problem
            raise problem
        return decoded

    def _split(
        self, data: bytes, cursor: _Cursor, end_offset: int
    ) -> tuple[list[RecordBatch], DecodeError | LogCorruptError | None]:
        """Split a part of the file into batches up to the first damaged one; move the cursor after them."""
        segment, origin, next_offset = cursor.segment, cursor.position, cursor.next_offset
        following = self._segments.after(segment.base_offset)
        # Fast path: `_check` accepts a batch without a producer that follows directly and ends below this.
        checked_from = segment.base_offset + RELATIVE_OFFSET_MAX
        if following is not None:
            checked_from = min(checked_from, following.base_offset)
        if self._is_managed:
            checked_from = min(checked_from, end_offset)
        at = 0
        batches: list[RecordBatch] = []
        problem: DecodeError | LogCorruptError | None = None
        try:
            while at < len(data) and next_offset < end_offset:
                batch = decode_batch(data, at, origin=origin)
                if (
                    batch.base_offset != next_offset
                    or batch.last_offset >= checked_from
                    or batch.producer_id != _NO_PRODUCER
                    or batch.attributes & TRANSACTIONAL
                ):
                    cursor.next_offset = next_offset
                    self._check(batch, cursor, end_offset, following)
                batches.append(batch)
                at += batch.size_bytes
                next_offset = batch.last_offset + 1
        except TruncatedRecordError as error:
            # Truncated by the end of the chunk, unless it is the first.
            problem = None if batches else error
        except (DecodeError, LogCorruptError) as error:
            problem = error
        cursor.position, cursor.next_offset = origin + at, next_offset
        return batches, problem

    def _remember(self, batches: list[RecordBatch], data: bytes, origin: int, cursor: _Cursor) -> None:
        """Index the batches, and mark the last one, so that `is_diverged` can recognize it."""
        segment = cursor.segment
        for batch in batches:
            segment.remember(batch.base_offset, batch.position)
        if batches:
            last = batches[-1]
            header = data[last.position - origin :][:HEADER_BYTES]
            cursor.before = Mark(segment.base_offset, last.position, last.base_offset, header)

    def _check(self, batch: RecordBatch, cursor: _Cursor, end_offset: int, following: Segment | None) -> None:
        """Check the producer of a complete batch, and its offsets against its neighbours."""
        if batch.is_transactional or batch.producer_id != _NO_PRODUCER:
            raise DecodeError(
                "a producer's batch, which no metadata log has; whether it was aborted is not known here",
                offset=batch.base_offset,
                position=batch.position,
            )
        problem = None
        if batch.base_offset < cursor.next_offset:
            problem = f"after offset {cursor.next_offset - 1}"
        elif following is not None and batch.end_offset > following.base_offset:
            problem = f"ends at {batch.end_offset}, beyond the start of {following.path.name}"
        elif self._is_managed and batch.end_offset > end_offset:
            problem = f"ends at {batch.end_offset}, beyond the high watermark {end_offset}"
        elif batch.base_offset > cursor.segment.base_offset + RELATIVE_OFFSET_MAX:
            problem = "is too far from the start of its segment"
        elif batch.base_offset > cursor.next_offset:
            problem = self._jump_problem(batch, cursor)
        if problem is not None:
            place = f"{cursor.segment.path}: byte {batch.position}"
            raise LogCorruptError(f"{place}: the batch at offset {batch.base_offset} {problem}")

    def _jump_problem(self, batch: RecordBatch, cursor: _Cursor) -> str | None:
        if self._is_managed:
            return f"leaves out offsets from {cursor.next_offset} on, which an aclog-managed log has"
        # The CRC does not cover the base offset: with a flipped bit it looks like a gap, and contradicts the
        # next batch.
        raw = cursor.segment.read_at(batch.position + batch.size_bytes, HEADER_BYTES)
        if len(raw) < HEADER_BYTES:
            return None
        following = parse_header(raw)
        if following.magic != MAGIC or not cursor.next_offset <= following.base_offset < batch.end_offset:
            return None
        return f"is followed by one at {following.base_offset}"


def _undecoded(batches: Sequence[RecordBatch]) -> tuple[list[RecordBatch], DecodeError | None]:
    return list(batches), None


def _chunk(cursor: _Cursor, max_bytes: int, left_bytes: int) -> bytes:
    """Read at least the batch at the cursor, or all of the ``left_bytes`` of the file."""
    data = cursor.segment.read_at(cursor.position, min(max(max_bytes, HEADER_BYTES), left_bytes))
    if len(data) < HEADER_BYTES or batch_bytes(data) <= len(data):
        return data
    return cursor.segment.read_at(cursor.position, min(batch_bytes(data), left_bytes))
