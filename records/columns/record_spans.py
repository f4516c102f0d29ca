"""Finds the records of many batches in one vectorized scan. Pure.

Decoding a single record takes some 8 µs. Here numpy finds the records of all batches of a read, and then
numpy and Arrow read one field of all of them at a time. That supports plain batches only, as KRaft's leader
writes them: one timestamp, offsets without gaps, no keys, no headers, no compression. records.content handles
everything else, valid or not, and reports errors.

    covered    | header | record | record | ...              one batch: what its CRC covers
    record     size 00 00 offset-delta 01 value-size | value | 00

Source: DefaultRecord.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from records.batch import COMPRESSION_MASK, CONTROL, COVERED_HEADER_BYTES, LOG_APPEND_TIME
from records.codecs.kraft import decode_frame_at
from records.columns.record_table import RecordTable, TableRecords
from records.columns.values import PADDING, Values, varints
from records.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.batch import RecordBatch
    from records.columns.values import Bytes, Ints
    from records.entries import MetadataRecord

_UNUSUAL: Final = COMPRESSION_MASK | LOG_APPEND_TIME | CONTROL
# Offset deltas and sizes have at most three bytes.
_RECORDS_MAX: Final = 1 << 20
# Arrow has 32-bit positions.
_BYTES_MAX: Final = 2**31 - 1
_BYTE: Final = 0x80


def table_records(batches: Sequence[RecordBatch]) -> list[TableRecords | None]:
    """The records of each batch, in one table; None for batches to be decoded individually."""
    candidates = [may_be_plain(batch) for batch in batches]
    while any(candidates):
        chosen = [batch for batch, may_be in zip(batches, candidates, strict=True) if may_be]
        spans, is_wrong = find_records(chosen)
        if spans is not None:
            return _in_table(spans, candidates)
        rejections = iter(is_wrong)
        candidates = [may_be and not next(rejections) for may_be in candidates]
    return [None] * len(batches)


def _in_table(spans: RecordSpans, candidates: list[bool]) -> list[TableRecords | None]:
    values = Values(spans.data, spans.value_starts, spans.value_ends)
    table = RecordTable(values, spans.offsets(), spans.record_timestamps_ms(), is_unread=spans.is_wrong)
    other_records: dict[int, MetadataRecord] = {}
    is_refused = np.zeros(len(values), np.bool_)
    for row in table.unread.tolist():
        try:
            other_records[row] = _decoded(spans, row)
        except DecodeError:
            is_refused[row] = True
    table.set_other_records(other_records)
    ranges = zip(
        np.logical_or.reduceat(is_refused, spans.firsts).tolist(),
        spans.firsts.tolist(),
        (spans.firsts + spans.counts).tolist(),
        strict=True,
    )
    found: list[TableRecords | None] = []
    for may_be in candidates:
        has_refused, first, end = next(ranges) if may_be else (True, 0, 0)
        found.append(None if has_refused else TableRecords((table, first, end)))
    return found


def _decoded(spans: RecordSpans, row: int) -> MetadataRecord:
    """Decode a record that is not a plain ACL, such as the first ones of Kafka's snapshots."""
    if spans.is_wrong[row]:
        raise DecodeError("not a plain record")
    return decode_frame_at(spans.data, spans.value_starts.item(row), spans.value_ends.item(row))


def may_be_plain(batch: RecordBatch) -> bool:
    """Whether the header is that of a plain batch."""
    return (
        not batch.attributes & _UNUSUAL
        and 0 < batch.record_count <= _RECORDS_MAX
        and batch.record_count == batch.last_offset - batch.base_offset + 1
    )


class RecordSpans:
    """Positions of the records of plain batches, and of their values.

    Attributes:
        data: the concatenated records of the batches, padded; ``bytes_``: the same as an array.
        size: without the padding.
        firsts, counts: for each batch, the index of its first record, and the number of records.
        is_wrong: records that are not plain; the positions of their values are invalid.
    """

    __slots__ = (
        "bytes_",
        "counts",
        "data",
        "firsts",
        "is_wrong",
        "offset_shifts",
        "size",
        "timestamps_ms",
        "value_ends",
        "value_starts",
    )

    def __init__(
        self, batches: Sequence[RecordBatch], data: bytes, starts: Ints, counts: Ints, origins: Ints
    ) -> None:
        """Find the values of the records at ``starts``; the records of each batch begin at ``origins``."""
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
        sizes, self.value_starts, is_long = varints(bytes_, at + 1)
        self.value_ends = np.minimum(self.value_starts + (sizes >> 1), size)
        is_wrong |= is_long | (sizes & 1 != 0) | (self.value_ends + 1 != ends)
        is_wrong |= bytes_[self.value_ends] != 0  # no headers
        self.is_wrong = is_wrong

    def offsets(self) -> Ints:
        offsets: Ints = np.arange(len(self.value_starts)) + np.repeat(self.offset_shifts, self.counts)
        return offsets

    def record_timestamps_ms(self) -> Ints:
        return np.repeat(self.timestamps_ms, self.counts)


def find_records(batches: Sequence[RecordBatch]) -> tuple[RecordSpans | None, list[bool]]:
    """The records of all batches, or None; and which batches have another number of records than declared."""
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
    return RecordSpans(batches, data, starts, counts, ends - sizes), wrong.tolist()


def _record_starts(bytes_: Bytes, size: int, count: int) -> Ints:
    """Positions where plain records may begin: all of them, and few others; by their first bytes.

        size 00 00 offset-delta 01      sizes and offset deltas of one to three bytes
    Before the size is a zero, the end of the previous record. Following the sizes from record to record would
    take longer than everything else.
    """
    is_zero = bytes_[:size] == 0
    zeros = np.flatnonzero(is_zero[:-1] & is_zero[1:])
    deltas_end = zeros + 3 + _continued(bytes_, zeros + 2, 1)
    zeros = zeros[bytes_[deltas_end] == 1]
    starts: Ints = zeros - 1 - _continued(bytes_, zeros - 2, -1)
    while len(starts) > count:
        # An id may match the pattern. But then no record ends before it, or only another false match.
        sizes, at, _ = varints(bytes_, starts)
        is_end = np.zeros(size + 1, np.bool_)
        is_end[np.minimum(at + (sizes >> 1), size)] = True
        is_end[0] = True
        if is_end[starts].all():
            break
        starts = starts[is_end[starts]]
    return starts


def _continued(bytes_: Bytes, at: Ints, step: int) -> Ints:
    """How many bytes there, at distances of ``step``, have the continuation bit of a varint: 0, 1 or 2."""
    first = bytes_[at] >= _BYTE
    if not first.any():
        return first.astype(np.int64)
    count: Ints = first.astype(np.int64) + (first & (bytes_[at + step] >= _BYTE))
    return count
