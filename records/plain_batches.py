"""The records of many batches at once, as columns: what a log holds that is read from its start.

Decoding a record by itself takes some 3 µs, most of it for objects that a fold only takes apart again. Here
the records of all batches of one read are found in one walk over their sizes, and then numpy and Arrow look
at one field of all of them at a time. That covers plain batches only: as KRaft's leader writes them (one
timestamp, offsets without gaps, no keys, no headers, not compressed), with nothing but

- ACLs and removals in the shortest encoding, nothing tagged on, below 8 KB, codes from 0 to 127;
- records that pass by, known by their header alone.

All else, right or wrong, is for records.batch_content, which also says what is wrong and where.

    covered    | header | record | record | ...              one batch: what its CRC covers
    record     size 00 00 offset-delta 01 value-size | frame | 00

How frames lie: records.plain_frames. Source: DefaultRecord.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from records.batch_content import COMPRESSION_MASK, CONTROL, COVERED_HEADER_BYTES, LOG_APPEND_TIME
from records.codecs.kraft import decode_frame_at
from records.ids import UUID_BYTES
from records.log.base import LogRecord
from records.plain_frames import FRAME_HEADER_BYTES, PADDING, PlainFrames, texts, varints

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from records.batch import RecordBatch

    _Ints = npt.NDArray[np.int64]
    _Bytes = npt.NDArray[np.uint8]
    _Mask = npt.NDArray[np.bool_]

_UNUSUAL: Final = COMPRESSION_MASK | LOG_APPEND_TIME | CONTROL
# Offset deltas and sizes take one or two bytes.
_RECORDS_MAX: Final = 1 << 13
# Arrow counts in 32 bits.
_BYTES_MAX: Final = 2**31 - 1
_BYTE: Final = 0x80


class PlainRecords:
    """The records of some plain batches, in offset order, and those that are ACLs as columns.

    Attributes:
        data: the batches' bytes, and some more.
        frame_starts, frame_ends: for each record, where in ``data`` its value is.
        offsets, timestamps_ms: of each record.
        removals: which records, in order, are RemoveAccessControlEntryRecords.
        acls: which ones are AccessControlEntryRecords. The columns have a row for each of these:
        ids: 16 bytes.
        resource_types, pattern_types, operations, permission_types: codes.
        names, principals, hosts: Arrow arrays of strings.
    """

    __slots__ = (
        "acls",
        "data",
        "frame_ends",
        "frame_starts",
        "hosts",
        "ids",
        "names",
        "offsets",
        "operations",
        "pattern_types",
        "permission_types",
        "principals",
        "removals",
        "resource_types",
        "timestamps_ms",
    )

    def __init__(self, walked: Walked, fields: PlainFrames) -> None:
        """Raises pa.ArrowInvalid if a text is not UTF-8."""
        self.data = walked.data
        self.frame_starts, self.frame_ends = walked.frame_starts, walked.frame_ends
        self.offsets = np.arange(len(walked.frame_starts)) + np.repeat(walked.offset_shifts, walked.counts)
        self.timestamps_ms = np.repeat(walked.timestamps_ms, walked.counts)
        self.removals = np.flatnonzero(fields.is_removal)
        self.acls = fields.acls
        buffer = walked.bytes_
        starts = self.frame_starts[self.acls]
        self.ids = _ids(buffer, starts)
        self.resource_types = buffer[starts + FRAME_HEADER_BYTES + UUID_BYTES].astype(np.int8)
        self.pattern_types = buffer[fields.name_ends].astype(np.int8)
        self.operations = buffer[fields.host_ends].astype(np.int8)
        self.permission_types = buffer[fields.host_ends + 1].astype(np.int8)
        self.names, self.principals, self.hosts = texts(walked.data, fields.bounds())

    def removal_ids(self, rows: _Ints) -> npt.NDArray[np.void]:
        """The ids that these of ``removals`` name."""
        return _ids(np.frombuffer(self.data, np.uint8), self.frame_starts[rows])

    def records(self, first: int, count: int) -> tuple[LogRecord, ...]:
        """So many records from the ``first`` on, as objects."""
        part = slice(first, first + count)
        data = self.data
        return tuple(
            LogRecord(offset, timestamp_ms, decode_frame_at(data, start, end))
            for offset, timestamp_ms, start, end in zip(
                self.offsets[part].tolist(),
                self.timestamps_ms[part].tolist(),
                self.frame_starts[part].tolist(),
                self.frame_ends[part].tolist(),
                strict=True,
            )
        )


def _ids(bytes_: _Bytes, starts: _Ints) -> npt.NDArray[np.void]:
    """The ids in the frames of ACLs or removals that start there."""
    ids = np.lib.stride_tricks.sliding_window_view(bytes_, UUID_BYTES)[starts + FRAME_HEADER_BYTES]
    return np.ascontiguousarray(ids).view(f"V{UUID_BYTES}").ravel()


def plain_records(batches: Sequence[RecordBatch]) -> tuple[PlainRecords | None, list[int | None]]:
    """What the plain batches hold, and where each batch begins in that; None for other batches."""
    candidates = [may_be_plain(batch) for batch in batches]
    while any(candidates):
        chosen = [batch for batch, may_be in zip(batches, candidates, strict=True) if may_be]
        walked, wrong = walk(chosen)
        if walked is not None:
            fields = PlainFrames(walked.bytes_, walked.size, walked.frame_starts, walked.frame_ends)
            wrong = np.logical_or.reduceat(walked.is_wrong | fields.is_wrong, walked.firsts).tolist()
            if not any(wrong):
                try:
                    records = PlainRecords(walked, fields)
                except pa.ArrowInvalid:  # a text that is not UTF-8
                    break
                firsts = iter(walked.firsts.tolist())
                return records, [next(firsts) if may_be else None for may_be in candidates]
        # Once more without these: at most three times, for a batch is found wrong by walking or by looking.
        verdicts = iter(wrong)
        candidates = [may_be and not next(verdicts) for may_be in candidates]
    return None, [None] * len(batches)


def may_be_plain(batch: RecordBatch) -> bool:
    """Whether its header is one of a plain batch."""
    return (
        not batch.attributes & _UNUSUAL
        and 0 < batch.record_count <= _RECORDS_MAX
        and batch.record_count == batch.last_offset - batch.base_offset + 1
    )


class Walked:
    """Where the records of some batches lie, and their frames, if the batches are plain.

    Attributes:
        data: the batches' records, without headers, one after the other, padded; ``bytes_`` is the same.
        size: without the padding.
        firsts, counts: of each batch, its first record's index, and how many it has.
        is_wrong: records that are not plain; their frames may be anywhere.
    """

    __slots__ = (
        "bytes_",
        "counts",
        "data",
        "firsts",
        "frame_ends",
        "frame_starts",
        "is_wrong",
        "offset_shifts",
        "size",
        "timestamps_ms",
    )

    def __init__(
        self, batches: Sequence[RecordBatch], data: bytes, starts: _Ints, counts: _Ints, origins: _Ints
    ) -> None:
        """The records at ``starts``; those of each batch begin at ``origins``."""
        self.data = data
        self.size = size = len(data) - len(PADDING)
        self.bytes_ = bytes_ = np.frombuffer(data, np.uint8)
        self.counts = counts
        self.firsts = np.cumsum(counts) - counts
        self.offset_shifts = np.array([batch.base_offset for batch in batches]) - self.firsts
        self.timestamps_ms = np.array([batch.base_timestamp_ms for batch in batches])
        ends = np.append(starts[1:], size)
        sizes, at, is_wrong = varints(bytes_, starts)
        is_wrong |= (sizes & 1 != 0) | (at + (sizes >> 1) != ends)
        is_wrong[self.firsts] |= starts[self.firsts] != origins
        is_wrong |= (bytes_[at] | bytes_[at + 1]) != 0  # attributes and timestamp delta
        deltas, at, is_long = varints(bytes_, at + 2)
        expected = np.arange(len(starts)) - np.repeat(self.firsts, counts)
        is_wrong |= is_long | (deltas != 2 * expected)
        is_wrong |= bytes_[at] != 1  # no key
        sizes, self.frame_starts, is_long = varints(bytes_, at + 1)
        self.frame_ends = np.minimum(self.frame_starts + (sizes >> 1), size)
        is_wrong |= is_long | (sizes & 1 != 0) | (self.frame_ends + 1 != ends)
        is_wrong |= bytes_[self.frame_ends] != 0  # no headers
        self.is_wrong = is_wrong


def walk(batches: Sequence[RecordBatch]) -> tuple[Walked | None, list[bool]]:
    """Where the records of all batches begin, and which batches have not as many as they say."""
    parts = [batch.covered[COVERED_HEADER_BYTES:] for batch in batches]
    sizes = np.array([*map(len, parts)])
    ends = np.cumsum(sizes)
    if ends[-1] > _BYTES_MAX:
        return None, [True] * len(batches)
    parts.append(PADDING)
    data = b"".join(parts)
    counts = np.array([batch.record_count for batch in batches])
    starts = _record_starts(np.frombuffer(data, np.uint8), int(ends[-1]), int(counts.sum()))
    found = np.diff(np.searchsorted(starts, ends), prepend=0)
    wrong = found != counts
    if wrong.any():
        return None, wrong.tolist()
    return Walked(batches, data, starts, counts, ends - sizes), wrong.tolist()


def _record_starts(bytes_: _Bytes, size: int, count: int) -> _Ints:
    """Where plain records may begin, each of them and few other places: found by how they begin.

        size 00 00 offset-delta 01      sizes and offset deltas of one or two bytes

    Before the size there is the end of another record, a zero. A walk from size to size would take longer
    than all the rest.
    """
    is_zero = bytes_[:size] == 0
    zeros = np.flatnonzero(is_zero[:-1] & is_zero[1:])
    delta = bytes_[zeros + 2]
    zeros = zeros[bytes_[zeros + 3 + (delta >= _BYTE)] == 1]
    starts: _Ints = zeros - 1 - (bytes_[zeros - 2] >= _BYTE)
    while len(starts) > count:
        # An id may look so, too. But then no record ends before it, or only another that is none.
        sizes, at, _ = varints(bytes_, starts)
        is_end = np.zeros(size + 1, np.bool_)
        is_end[np.minimum(at + (sizes >> 1), size)] = True
        is_end[0] = True
        if is_end[starts].all():
            break
        starts = starts[is_end[starts]]
    return starts
