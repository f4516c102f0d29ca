"""Decodes the records of one batch, one by one.

Source: DefaultRecord; RecordsIterator for KRaft's records. A batch is complete here: truncation inside it is
a DecodeError, never a TruncatedRecordError, which a log would take for its truncated tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from records.batch import (
    COMPRESSION_MASK,
    CONTROL,
    COVERED_AT,
    COVERED_HEADER_BYTES,
    LOG_APPEND_TIME,
    RecordBatch,
)
from records.codecs.kraft import decode_frame_at
from records.compression import decompress
from records.control import decode_control_key
from records.entries import ControlRecord
from records.errors import DecodeError, TruncatedRecordError
from records.log_batch import LogBatch, LogRecord
from records.varint import read_varint, read_varlong

_NULL: Final = 1  # size -1


def to_log_batch(batch: RecordBatch) -> LogBatch:
    """Decode the metadata or control records of a batch.

    Raises:
        DecodeError: a record that cannot be decoded, with its offset (I7).
    """
    records = control_records(batch) if batch.attributes & CONTROL else metadata_records(batch)
    return LogBatch(
        batch.base_offset,
        batch.last_offset + 1,
        batch.epoch,
        batch.max_timestamp_ms,
        batch.size_bytes,
        tuple(records),
    )


def metadata_records(batch: RecordBatch) -> list[LogRecord]:
    """Decode the records of a metadata batch.

    Raises:
        DecodeError: a record cannot be decoded, or contradicts its batch's header.
    """
    content = _content(batch)
    data = content.data
    records: list[LogRecord] = []
    for offset, timestamp_ms, _, _, value_start, value_end in _spans(batch, content):
        if value_start < 0:
            raise content.located(DecodeError("a metadata record without a value"), offset)
        try:
            record = decode_frame_at(data, value_start, value_end)
        except DecodeError as error:
            raise content.located(error, offset) from error
        records.append(LogRecord(offset, timestamp_ms, record))
    return records


def record_values(batch: RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and encoded value of each record of a metadata batch; raises as `metadata_records`."""
    content = _content(batch)
    for offset, _, _, _, value_start, value_end in _spans(batch, content):
        if value_start < 0:
            raise content.located(DecodeError("a metadata record without a value"), offset)
        yield offset, content.data[value_start:value_end]


def control_records(batch: RecordBatch) -> list[LogRecord]:
    """Decode the records of a control batch, but not their values. Raises as `metadata_records`."""
    content = _content(batch)
    data = content.data
    records: list[LogRecord] = []
    for offset, timestamp_ms, key_start, key_end, value_start, value_end in _spans(batch, content):
        try:
            control_type, version = decode_control_key(data[key_start:key_end] if key_start >= 0 else None)
        except DecodeError as error:
            raise content.located(error, offset) from error
        value = data[value_start:value_end] if value_start >= 0 else b""
        records.append(LogRecord(offset, timestamp_ms, ControlRecord(control_type, version, value)))
    return records


class _Content(msgspec.Struct, frozen=True, gc=False):
    """A batch's records, decompressed.

    Attributes:
        data: the records begin at ``start``.
        origin: position of ``data`` in the file; None for compressed records.
    """

    data: bytes
    start: int
    origin: int | None
    batch_position: int

    def located(self, error: DecodeError, offset: int) -> DecodeError:
        """The error with its offset, and with its position in the file instead of in ``data``."""
        cls = DecodeError if isinstance(error, TruncatedRecordError) else type(error)
        if error.position is None:
            return cls(error.reason, offset=offset, position=self.batch_position)
        if self.origin is None:
            reason = f"{error.reason}, at byte {error.position} of the decompressed records"
            return cls(reason, offset=offset, position=self.batch_position)
        return cls(error.reason, offset=offset, position=self.origin + error.position)


def _content(batch: RecordBatch) -> _Content:
    if not batch.attributes & COMPRESSION_MASK:
        return _Content(batch.covered, COVERED_HEADER_BYTES, batch.position + COVERED_AT, batch.position)
    try:
        data = decompress(batch.compression, batch.covered[COVERED_HEADER_BYTES:])
    except DecodeError as error:
        raise error.located(offset=batch.base_offset, position=batch.position) from error
    return _Content(data, 0, None, batch.position)


# Offset, timestamp, start and end of the key, start and end of the value; -1 for null.
_Span = tuple[int, int, int, int, int, int]


def _spans(batch: RecordBatch, content: _Content) -> Iterator[_Span]:
    """Find each record's key and value; a generator, as a batch may be large."""
    try:
        yield from _read_spans(batch, content.data, content.start)
    except DecodeError as error:
        raise content.located(error, batch.base_offset) from error


def _read_spans(batch: RecordBatch, data: bytes, at: int) -> Iterator[_Span]:
    """As `_spans`, but errors have positions in ``data``."""
    base_offset, end = batch.base_offset, len(data)
    delta_before, delta_max = -1, batch.last_offset - base_offset
    record_at = at
    try:
        for _ in range(batch.record_count):
            record_at = at
            size, at = read_varint(data, at)
            record_end = at + size
            if size < 0 or record_end > end:
                raise DecodeError("a record ends beyond its batch", position=record_at)

            timestamp_delta = 0
            if data[at + 1] == 0:  # after the attributes, which are unused
                at += 2
            else:
                timestamp_delta, at = read_varlong(data, at + 1)

            offset_delta, at = read_varint(data, at)
            if not delta_before < offset_delta <= delta_max:
                raise DecodeError(
                    f"offset delta {offset_delta} after {delta_before}, in a batch that ends at {delta_max}",
                    position=record_at,
                )
            delta_before = offset_delta

            key_start = key_end = -1
            if data[at] == _NULL:
                at += 1
            else:
                size, at = read_varint(data, at)
                if size >= 0:
                    key_start, key_end, at = at, at + size, at + size

            value_start = value_end = -1
            size, at = read_varint(data, at)
            if size >= 0:
                value_start, value_end, at = at, at + size, at + size

            at = at + 1 if data[at] == 0 else _skip_headers(data, at)
            if at != record_end:
                raise DecodeError(
                    f"a record ends {at - record_end:+d} bytes from its end", position=record_at
                )

            if batch.attributes & LOG_APPEND_TIME:
                timestamp_ms = batch.max_timestamp_ms
            else:
                timestamp_ms = batch.base_timestamp_ms + timestamp_delta
            yield base_offset + offset_delta, timestamp_ms, key_start, key_end, value_start, value_end
    except IndexError:
        raise DecodeError("a record ends beyond its batch", position=record_at) from None
    if at != end:
        raise DecodeError(f"{end - at} bytes follow the last record of a batch", position=at)


def _skip_headers(data: bytes, at: int) -> int:
    """Position after the record's headers, which begin at ``at``."""
    start = at
    count, at = read_varint(data, at)
    # A header has at least two bytes. So no count causes a long loop.
    if not 0 <= count <= len(data) - at:
        raise DecodeError(f"a record cannot have {count} headers", position=start)
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < 0:
            raise DecodeError("a header's key must not be null", position=start)
        size, at = read_varint(data, at + size)
        at += max(size, 0)
    return at
