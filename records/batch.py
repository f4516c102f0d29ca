"""Record batches v2: how records lie in a segment file, on the wire and in a .checkpoint file.

A batch is a header of 61 bytes and its records, compressed as a whole or not. A CRC-32C covers all from the
attributes on. Source: KIP-98, DefaultRecordBatch, DefaultRecord; RecordsIterator, for what KRaft expects.
Rules of this file:

- No batch is returned whose CRC does not fit (`decode_batch`); what it holds is looked at only afterwards.
- TruncatedRecordError comes from `decode_batch` alone, and only where the data ends before the batch does: a
  torn tail. Whatever is cut short inside of a whole batch is a plain DecodeError, never a tail to be cut.
- Offsets rise within a batch and stay within its header's range.
- Errors carry the batch's or record's offset and the byte position in the data given.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import google_crc32c
import msgspec

from records.codecs.kraft import decode_frame_at
from records.compression import Compression, compress, decompress
from records.control import decode_control_key
from records.entries import ControlRecord
from records.errors import (
    ChecksumMismatchError,
    DecodeError,
    EncodeError,
    TruncatedRecordError,
    UnsupportedVersionError,
)
from records.log.base import LogBatch, LogRecord
from records.varint import append_varint, read_varint, read_varlong

MAGIC: Final = 2
#: Bytes of a batch before its records.
HEADER_BYTES: Final = 61
#: Bytes of a batch that its length field does not count: base offset and length.
LENGTH_PREFIX_BYTES: Final = 12

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp,
# maxTimestamp, producerId, producerEpoch, baseSequence, recordsCount
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
# What of that the CRC covers, and where it begins.
_COVERED: Final = struct.Struct(">hiqqqhii")
_COVERED_AT: Final = HEADER_BYTES - _COVERED.size
_BEFORE_COVERED: Final = struct.Struct(">qiibI")
# Older batches have their magic at the same place.
_MAGIC_AT: Final = 16

_COMPRESSION_MASK: Final = 0x07
_COMPRESSION_MAX: Final = int(max(Compression))
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_UNUSUAL: Final = _COMPRESSION_MASK | _LOG_APPEND_TIME | _CONTROL


def _plain_start(offset_delta: int) -> bytes:
    """What stands between the size of a record without a key and the size of its value."""
    out = bytearray(2)  # attributes and timestamp delta
    append_varint(out, offset_delta)
    append_varint(out, -1)
    return bytes(out)


_PLAIN_STARTS: Final = tuple(_plain_start(delta) for delta in range(4096))

_NULL: Final = 1  # size -1
_NO_PRODUCER: Final = -1
_BATCH_BYTES_MAX: Final = 2**31 - 1


class RawRecord(msgspec.Struct, frozen=True, gc=False):
    """One record as bytes; its headers are passed over."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch whose CRC fits; its records are still encoded.

    Attributes:
        base_offset: offset of the first record that it ever held.
        last_offset: last offset that it covers (compaction may have dropped the record).
        size_bytes: all of it, header included.
        position: where it began in the data given.
        epoch: leader epoch under which it was appended; -1 when no leader has seen it yet.
        covered: the bytes that the CRC covers.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    position: int
    epoch: int
    crc: int
    attributes: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    covered: bytes

    @property
    def end_offset(self) -> int:
        """One past the last offset that it covers."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        return Compression(self.attributes & _COMPRESSION_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & _TRANSACTIONAL)

    def records(self) -> list[RawRecord]:
        """All records, in offset order.

        Raises:
            DecodeError: what is inside is not what the header says.
        """
        content = _content(self)
        data = content.data
        return [
            RawRecord(
                offset,
                timestamp_ms,
                None if key_start < 0 else data[key_start:key_end],
                None if value_start < 0 else data[value_start:value_end],
            )
            for offset, timestamp_ms, key_start, key_end, value_start, value_end in _spans(self, content)
        ]


def decode_batch(data: bytes | memoryview, position: int = 0, *, origin: int = 0) -> RecordBatch:
    """The batch that begins at ``data[position]``; what follows it is not looked at.

    Args:
        data: a piece of a segment file, say.
        position: index in ``data`` where the batch begins.
        origin: where ``data`` begins in its file; added to positions in errors and in the batch.

    Raises:
        TruncatedRecordError: ``data`` ends inside the batch.
        ChecksumMismatchError: the CRC does not fit.
        UnsupportedVersionError: not magic 2, or a compression that Kafka 4.3 does not have.
        DecodeError: the header contradicts itself.
    """
    place, left = origin + position, len(data) - position
    if left < HEADER_BYTES:
        raise _short_header(data, position, place)
    (
        base_offset,
        length,
        epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = _HEADER.unpack_from(data, position)
    if magic != MAGIC:
        raise _unknown_magic(magic, base_offset, place)
    size = LENGTH_PREFIX_BYTES + length
    if size < HEADER_BYTES:
        raise DecodeError(f"a batch cannot have length {length}", offset=base_offset, position=place)
    if size > left:
        raise TruncatedRecordError(
            f"the batch has {size} bytes, {left} are there",
            offset=base_offset,
            position=place,
        )
    covered = data[position + _COVERED_AT : position + size]
    if not isinstance(covered, bytes):
        covered = bytes(covered)
    found = google_crc32c.value(covered)
    if found != crc:
        raise ChecksumMismatchError(
            f"the batch's CRC-32C is {found:#010x}, its header says {crc:#010x}",
            offset=base_offset,
            position=place,
        )
    if attributes & _COMPRESSION_MASK > _COMPRESSION_MAX:
        raise UnsupportedVersionError(
            f"compression {attributes & _COMPRESSION_MASK} is unknown", offset=base_offset, position=place
        )
    if base_offset | last_offset_delta | record_count < 0:
        raise DecodeError(
            f"a batch cannot have base offset {base_offset}, last offset delta {last_offset_delta} and "
            f"{record_count} records",
            offset=base_offset,
            position=place,
        )
    return RecordBatch(
        base_offset,
        base_offset + last_offset_delta,
        size,
        place,
        epoch,
        crc,
        attributes,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
        covered,
    )


def _short_header(data: bytes | memoryview, position: int, place: int) -> DecodeError:
    left = len(data) - position
    if left > _MAGIC_AT and data[position + _MAGIC_AT] != MAGIC:
        base_offset = int.from_bytes(data[position : position + 8], "big", signed=True)
        return _unknown_magic(data[position + _MAGIC_AT], base_offset, place)
    return TruncatedRecordError(
        f"a batch's header has {HEADER_BYTES} bytes, {left} are there", position=place
    )


def _unknown_magic(magic: int, base_offset: int, place: int) -> DecodeError:
    return UnsupportedVersionError(
        f"record batch magic {magic}, only {MAGIC} is known", offset=base_offset, position=place
    )


def to_log_batch(batch: RecordBatch) -> LogBatch:
    """The batch with its metadata or control records decoded.

    Raises:
        DecodeError: a record that cannot be decoded, with its offset (I7).
    """
    records = None
    if not batch.attributes & _UNUSUAL:
        records = _plain_metadata_records(batch)
    if records is None:
        content = _content(batch)
        records = _control_records(batch, content) if batch.is_control else _metadata_records(batch, content)
    return LogBatch(
        batch.base_offset,
        batch.last_offset + 1,
        batch.epoch,
        batch.max_timestamp_ms,
        batch.size_bytes,
        tuple(records),
    )


def _plain_metadata_records(batch: RecordBatch) -> list[LogRecord] | None:
    """The records of a batch as KRaft's leader and `encode_batch` write it; None for any other batch.

    That is: one timestamp, offsets without gaps, no keys, no headers, no record of more than 8 KB. A million
    records pass here, so it is written for speed; anything unusual, or wrong, is left to `_metadata_records`.
    """
    data, at = batch.covered, _COVERED.size
    offset, timestamp_ms = batch.base_offset, batch.base_timestamp_ms
    count = batch.record_count
    if count > len(_PLAIN_STARTS) or offset + count - 1 > batch.last_offset:
        return None
    records: list[LogRecord] = []
    try:
        for plain_start in _PLAIN_STARTS[:count]:
            record_size = data[at]
            if record_size < 0x80:
                at += 1
            elif data[at + 1] < 0x80:
                record_size += (data[at + 1] - 1) << 7
                at += 2
            else:
                return None
            record_end = at + (record_size >> 1)
            start = at + len(plain_start)
            if data[at:start] != plain_start:
                return None
            value_size = data[start]
            if value_size < 0x80:
                start += 1
            elif data[start + 1] < 0x80:
                value_size += (data[start + 1] - 1) << 7
                start += 2
            else:
                return None
            end = start + (value_size >> 1)
            # The last byte says that there are no headers; an odd size is a negative one.
            if data[end] or end + 1 != record_end or (record_size | value_size) & 1:
                return None
            records.append(LogRecord(offset, timestamp_ms, decode_frame_at(data, start, end)))
            offset += 1
            at = record_end
    except (IndexError, DecodeError):
        return None  # `_metadata_records` says what is wrong, and where
    return records if at == len(data) else None


class _Content(msgspec.Struct, frozen=True, gc=False):
    """A batch's records, decompressed.

    Attributes:
        data: they begin at ``start``.
        origin: what to add to an index in ``data`` to get the place in the file; for compressed records the
            place of the batch stands for all of them, and there is no such number.
        place: of the batch.
    """

    data: bytes
    start: int
    origin: int | None
    place: int

    def located(self, error: DecodeError, offset: int) -> DecodeError:
        """``error``, raised with a position in ``data``, as one of this batch."""
        cls = DecodeError if isinstance(error, TruncatedRecordError) else type(error)
        if self.origin is None:
            reason = f"{error.reason}, at byte {error.position} of the decompressed records"
            return cls(reason, offset=offset, position=self.place)
        position = self.place if error.position is None else self.origin + error.position
        return cls(error.reason, offset=offset, position=position)


def _content(batch: RecordBatch) -> _Content:
    if not batch.attributes & _COMPRESSION_MASK:
        return _Content(batch.covered, _COVERED.size, batch.position + _COVERED_AT, batch.position)
    try:
        data = decompress(batch.compression, batch.covered[_COVERED.size :])
    except DecodeError as error:
        raise error.located(offset=batch.base_offset, position=batch.position) from error
    return _Content(data, 0, None, batch.position)


# Offset, timestamp, start and end of the key, start and end of the value; -1 for null.
_Span = tuple[int, int, int, int, int, int]


def _spans(batch: RecordBatch, content: _Content) -> list[_Span]:
    """Where each record's key and value lie in the content."""
    try:
        return _read_spans(batch, content.data, content.start)
    except DecodeError as error:
        raise content.located(error, batch.base_offset) from error


def _read_spans(batch: RecordBatch, data: bytes, at: int) -> list[_Span]:
    """As `_spans`, with positions in ``data`` in its errors. The short forms of varints are read in place."""
    base_offset, end = batch.base_offset, len(data)
    delta_before, delta_max = -1, batch.last_offset - base_offset
    spans: list[_Span] = []
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

            if batch.attributes & _LOG_APPEND_TIME:
                timestamp_ms = batch.max_timestamp_ms
            else:
                timestamp_ms = batch.base_timestamp_ms + timestamp_delta
            spans.append(
                (base_offset + offset_delta, timestamp_ms, key_start, key_end, value_start, value_end)
            )
    except IndexError:
        raise DecodeError("a record ends beyond its batch", position=record_at) from None
    if at != end:
        raise DecodeError(f"{end - at} bytes follow the last record of a batch", position=at)
    return spans


def _skip_headers(data: bytes, at: int) -> int:
    """Position after a record's headers, which begin at ``at``."""
    start = at
    count, at = read_varint(data, at)
    # A header has two bytes at least, so that no count makes us loop for long.
    if not 0 <= count <= len(data) - at:
        raise DecodeError(f"a record cannot have {count} headers", position=start)
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < 0:
            raise DecodeError("a header's key must not be null", position=start)
        size, at = read_varint(data, at + size)
        at += max(size, 0)
    return at


def _metadata_records(batch: RecordBatch, content: _Content) -> list[LogRecord]:
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


def _control_records(batch: RecordBatch, content: _Content) -> list[LogRecord]:
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


def encode_batch(
    values: Sequence[bytes | None],
    *,
    base_offset: int,
    epoch: int,
    timestamp_ms: int,
    keys: Sequence[bytes | None] | None = None,
    is_control: bool = False,
    compression: Compression = Compression.NONE,
) -> bytes:
    """One batch with a record for each value, all with one timestamp, byte for byte as KRaft's leader.

    Args:
        values: at least one.
        base_offset: offset of the first value; the others follow it.
        epoch: the leader's.
        timestamp_ms: since the epoch of Unix.
        keys: one for each value; None for null keys.
        is_control: keys and values are those of control records (records.control).
        compression: of all records together.

    Raises:
        EncodeError: no values, or something that does not fit into a batch.
    """
    if not values:
        raise EncodeError("a batch holds one record at least")
    records = bytearray()
    for delta, (key, value) in enumerate(zip(keys or [None] * len(values), values, strict=True)):
        record = bytearray(2)  # attributes and timestamp delta
        append_varint(record, delta)
        _append_bytes(record, key)
        _append_bytes(record, value)
        record.append(0)  # headers
        append_varint(records, len(record))
        records += record
    body = compress(compression, bytes(records))
    if HEADER_BYTES + len(body) > _BATCH_BYTES_MAX:
        raise EncodeError(f"a batch holds {_BATCH_BYTES_MAX} bytes at most, not {HEADER_BYTES + len(body)}")
    try:
        covered = (
            _COVERED.pack(
                compression | (_CONTROL if is_control else 0),
                len(values) - 1,
                timestamp_ms,
                timestamp_ms,
                _NO_PRODUCER,
                _NO_PRODUCER,
                _NO_PRODUCER,
                len(values),
            )
            + body
        )
        length = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)
        return _BEFORE_COVERED.pack(base_offset, length, epoch, MAGIC, google_crc32c.value(covered)) + covered
    except struct.error as error:
        raise EncodeError(f"a batch's header cannot hold this: {error}") from error


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(out, -1)
    else:
        append_varint(out, len(value))
        out += value
