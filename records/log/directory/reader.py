"""Reads batches in offset order across segments, and knows where it stopped.

What is read is checked against what came before it: offsets increase, no batch reaches into the next
segment, and a batch read earlier is still what it was (a follower truncates its log when its leader's
differs). Offsets that are missing show as a jump of ``base_offset``; in an own log, which never has any,
they are an error.
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

    # As many of the batches as can be decoded, and what is wrong with the next one.
    _Decode = Callable[[Sequence[RecordBatch]], tuple[list["_T"], DecodeError | None]]

_T = TypeVar("_T")

_NO_PRODUCER: Final = -1


@dataclass(slots=True)
class _Cursor:
    """Between two batches: where the next one begins, and the least offset that it may have."""

    segment: Segment
    position: int
    next_offset: int
    before: Mark | None = None


class SegmentReader:
    """Batches from the segments as they were at their last refresh. Not thread-safe.

    Args:
        segments: refreshed by the caller.
        is_managed: the log is aclog's own: no offset is missing below its high watermark.
    """

    def __init__(self, segments: Segments, *, is_managed: bool) -> None:
        self._segments = segments
        self._is_managed = is_managed
        self._cursor: _Cursor | None = None

    def is_diverged(self, offset: int) -> bool:
        """Whether ``offset`` is where reading stopped, and the batch before it is not the same any more.

        Raises OSError.
        """
        cursor = self._cursor
        if cursor is None or cursor.next_offset != offset or cursor.before is None:
            return False
        return not self._segments.is_intact(cursor.before)

    def read(self, offset: int, end_offset: int, max_bytes: int) -> list[LogBatch]:
        """Whole batches from the one that contains ``offset`` on, up to the log's end at ``end_offset``.

        Raises:
            DecodeError: the first batch cannot be decoded. LogCorruptError: the first batch contradicts the
            one before, or the end. OffsetOutOfRangeError: the batch before ``offset`` was replaced, or the
            log has a hole up to its end. OSError: FileNotFoundError or FilesChangedError if a segment went
            away or came since the refresh.
        """
        return self._read(offset, end_offset, max_bytes, to_log_batches)

    def read_raw(self, offset: int, end_offset: int, max_bytes: int) -> list[RecordBatch]:
        """As ``read``, with the records of each batch still encoded."""
        return self._read(offset, end_offset, max_bytes, _as_they_are)

    def _read(self, offset: int, end_offset: int, max_bytes: int, decode: _Decode[_T]) -> list[_T]:
        cursor = self._cursor = self._resume(offset) or self._seek(offset)
        batches: list[_T] = []
        while not batches and cursor.next_offset < end_offset:
            left_bytes = cursor.segment.size_bytes() - cursor.position
            if left_bytes > 0:
                data = _chunk(cursor, max_bytes, left_bytes)
                batches = self._take(data, cursor, offset, end_offset, decode)
            elif not self._move_on(cursor):
                break
        if not batches and offset < end_offset:
            if self._is_managed:
                raise LogCorruptError(
                    f"{cursor.segment.path}: the log ends at offset {cursor.next_offset}, but everything "
                    f"below {end_offset} was acknowledged; put back a backup of this file"
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
        # Hopping trusts the headers. If no batch says that it contains `offset`, the one before it is read
        # and checked too, because a damaged last offset could pass for a hole.
        for position, header in segment.headers(start, next_offset, segment.size_bytes()):
            if header.base_offset > offset:
                break
            start, next_offset = position, header.base_offset
            if header.end_offset > offset:
                break
        return _Cursor(segment, start, next_offset)

    def _move_on(self, cursor: _Cursor) -> bool:
        """Go to the start of the next segment, if there is one.

        Raises:
            FilesChangedError: it does not follow at once, and the files are not those that were listed.
        """
        following = self._segments.after(cursor.segment.base_offset)
        if following is None:
            return False
        # A hole is what compaction leaves; or the log was truncated here; or segments were rolled or deleted
        # while they were listed, and those between were missed. What stands in them must not be passed by.
        if following.base_offset != cursor.next_offset:
            self._segments.require_unchanged()
        cursor.segment.close()
        cursor.segment, cursor.position = following, 0
        return True

    def _take(
        self, data: bytes, cursor: _Cursor, offset: int, end_offset: int, decode: _Decode[_T]
    ) -> list[_T]:
        """What one read of the file gave, as far as it is wanted; stops before a batch that is damaged."""
        segment, origin, next_offset = cursor.segment, cursor.position, cursor.next_offset
        following = self._segments.after(segment.base_offset)
        # A batch that follows at once and ends below this has nothing that `_check` looks for, but its kind.
        sound_end = segment.base_offset + RELATIVE_OFFSET_MAX
        if following is not None:
            sound_end = min(sound_end, following.base_offset)
        if self._is_managed:
            sound_end = min(sound_end, end_offset)
        at, reached = 0, next_offset
        met: list[RecordBatch] = []
        problem: DecodeError | LogCorruptError | None = None
        try:
            while at < len(data) and reached < end_offset:
                batch = decode_batch(data, at, origin=origin)
                if (
                    batch.base_offset != reached
                    or batch.last_offset >= sound_end
                    or batch.producer_id != _NO_PRODUCER
                    or batch.attributes & TRANSACTIONAL
                ):
                    cursor.next_offset = reached
                    self._check(batch, cursor, end_offset, following)
                met.append(batch)
                at += batch.size_bytes
                reached = batch.last_offset + 1
        except TruncatedRecordError as error:
            # Cut by the end of the chunk, unless it is the first.
            problem = None if met else error
        except (DecodeError, LogCorruptError) as error:
            problem = error
        cursor.position, cursor.next_offset = origin + at, reached
        wanted = [batch for batch in met if batch.last_offset >= offset]
        decoded, undecodable = decode(wanted)
        if undecodable is not None:
            problem = undecodable
            damaged = wanted[len(decoded)]
            del met[met.index(damaged) :]
            cursor.position = damaged.position
            cursor.next_offset = met[-1].end_offset if met else next_offset
        for batch in met:
            segment.remember(batch.base_offset, batch.position)
        if met:
            last = met[-1]
            header = data[last.position - origin :][:HEADER_BYTES]
            cursor.before = Mark(segment.base_offset, last.position, last.base_offset, header)
        if problem is not None and not decoded:
            if isinstance(problem, DecodeError):
                raise problem.located(source=str(segment.path)) from problem
            raise problem
        return decoded

    def _check(self, batch: RecordBatch, cursor: _Cursor, end_offset: int, following: Segment | None) -> None:
        """What a batch that is whole may still get wrong: its kind, and its place among the others."""
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
            return f"leaves out offsets from {cursor.next_offset} on, which an own log has"
        # The CRC does not cover the base offset: a flipped bit in it looks like a hole, until the next batch.
        raw = cursor.segment.read_at(batch.position + batch.size_bytes, HEADER_BYTES)
        if len(raw) < HEADER_BYTES:
            return None
        following = parse_header(raw)
        if following.magic != MAGIC or not cursor.next_offset <= following.base_offset < batch.end_offset:
            return None
        return f"is followed by one at {following.base_offset}"


def _as_they_are(batches: Sequence[RecordBatch]) -> tuple[list[RecordBatch], DecodeError | None]:
    return list(batches), None


def _chunk(cursor: _Cursor, max_bytes: int, left_bytes: int) -> bytes:
    """At least the batch at the cursor, or all of the ``left_bytes`` that the file has there."""
    data = cursor.segment.read_at(cursor.position, min(max(max_bytes, HEADER_BYTES), left_bytes))
    if len(data) < HEADER_BYTES or batch_bytes(data) <= len(data):
        return data
    return cursor.segment.read_at(cursor.position, min(batch_bytes(data), left_bytes))
