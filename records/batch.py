"""Record batches v2: the format of segment files, of Kafka's protocol and of .checkpoint files.

A batch is a header of 61 bytes and its records, which may be compressed together. A CRC-32C covers everything
from the attributes on. Source: KIP-98, DefaultRecordBatch. Rules of this file:

- `decode_batch` returns no batch with a wrong CRC. Only then are its records decoded (records.content).
- Only `decode_batch` raises TruncatedRecordError, and only if the data ends before the batch does: a
  truncated tail. Truncation inside a complete batch is a DecodeError, so that no log cuts it off as a tail.
- Errors have the offset of the batch or record, and the byte position in the input.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import google_crc32c
import msgspec

from records.compression import Compression, compress
from records.errors import (
    ChecksumMismatchError,
    DecodeError,
    EncodeError,
    TruncatedRecordError,
    UnsupportedVersionError,
)
from records.varint import append_varint

MAGIC: Final = 2
#: Position of the bytes that the CRC covers, and how many of these belong to the header.
COVERED_AT: Final = 21
COVERED_HEADER_BYTES: Final = 40
#: Bytes of a batch before its records.
HEADER_BYTES: Final = COVERED_AT + COVERED_HEADER_BYTES
#: Bytes of a batch that its length field does not count: base offset and length.
LENGTH_PREFIX_BYTES: Final = 12

#: Maximum number of records in a batch: a KRaft batch has at most 8 MiB (KafkaRaftClient), a record at least
#: 16 bytes. Checked before any record is decoded, as each becomes an object of some hundred bytes.
RECORDS_MAX: Final = 1 << 19

# baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp,
# maxTimestamp, producerId, producerEpoch, baseSequence, recordsCount
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
# The part of the header before the covered bytes, and the covered part.
_BEFORE_COVERED: Final = struct.Struct(">qiibI")
_COVERED: Final = struct.Struct(">hiqqqhii")
# The same position in older formats.
MAGIC_AT: Final = 16

# A batch's attributes.
COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20

_COMPRESSION_MAX: Final = int(max(Compression))

_NO_PRODUCER: Final = -1
_BATCH_BYTES_MAX: Final = 2**31 - 1


class RecordBatch(msgspec.Struct, frozen=True, gc=False):
    """One batch with a valid CRC; its records are still encoded.

    Attributes:
        base_offset: offset of its first record when it was written.
        last_offset: last offset that it covers (compaction may have removed the record).
        epoch: leader epoch under which it was appended; -1: not appended by a leader yet.
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
        return Compression(self.attributes & COMPRESSION_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def decode_batch(data: bytes | memoryview, position: int = 0, *, origin: int = 0) -> RecordBatch:
    """Decode the batch that begins at ``data[position]``; the bytes after it are ignored.

    Args:
        data: for example a part of a segment file.
        position: index in ``data`` where the batch begins.
        origin: position of ``data`` in its file; added to the positions of errors and of the batch.

    Raises:
        TruncatedRecordError: ``data`` ends inside the batch.
        ChecksumMismatchError: the CRC is wrong.
        UnsupportedVersionError: not magic 2, or a compression that Kafka 4.3 does not have.
        DecodeError: the header is inconsistent, or has more than RECORDS_MAX records.
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
    size = LENGTH_PREFIX_BYTES + length
    if magic != MAGIC:
        # Data that is no batch must not send the reader looking for a newer version.
        if magic < 0 or base_offset < 0 or not MAGIC_AT < size <= left:
            raise DecodeError("no record batch begins here", position=place)
        raise UnsupportedVersionError(
            f"record batch magic {magic}, only {MAGIC} is known", offset=base_offset, position=place
        )
    if size < HEADER_BYTES:
        raise DecodeError(f"a batch cannot have length {length}", offset=base_offset, position=place)
    if size > left:
        raise TruncatedRecordError(
            f"the batch has {size} bytes, {left} are there",
            offset=base_offset,
            position=place,
        )
    covered = data[position + COVERED_AT : position + size]
    if not isinstance(covered, bytes):
        covered = bytes(covered)
    found = google_crc32c.value(covered)
    if found != crc:
        raise ChecksumMismatchError(
            f"the batch's CRC-32C is {found:#010x}, its header says {crc:#010x}",
            offset=base_offset,
            position=place,
        )
    if attributes & COMPRESSION_MASK > _COMPRESSION_MAX:
        raise UnsupportedVersionError(
            f"compression {attributes & COMPRESSION_MASK} is unknown", offset=base_offset, position=place
        )
    if base_offset | last_offset_delta | record_count < 0:
        raise DecodeError(
            f"a batch cannot have base offset {base_offset}, last offset delta {last_offset_delta} and "
            f"{record_count} records",
            offset=base_offset,
            position=place,
        )
    if record_count > RECORDS_MAX:
        raise DecodeError(
            f"a batch of {record_count} records; {RECORDS_MAX} at most are read",
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
    if left > MAGIC_AT and data[position + MAGIC_AT] != MAGIC:
        return DecodeError(f"no record batch begins here, where {left} bytes are left", position=place)
    return TruncatedRecordError(
        f"a batch's header has {HEADER_BYTES} bytes, {left} are there", position=place
    )


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
    """Encode one record per value with one timestamp, byte for byte as KRaft's leader does.

    Args:
        values: at least one.
        base_offset: offset of the first value.
        epoch: of the leader.
        timestamp_ms: since the Unix epoch.
        keys: one per value; None: null keys.
        is_control: whether these are control records (records.control).
        compression: of all records together.

    Raises:
        EncodeError: no values, or too many records or bytes for a batch.
    """
    if not values:
        raise EncodeError("a batch holds one record at least")
    if len(values) > RECORDS_MAX:
        raise EncodeError(f"a batch holds {RECORDS_MAX} records at most, not {len(values)}")
    records = bytearray()
    keys = [None] * len(values) if keys is None else keys
    for delta, (key, value) in enumerate(zip(keys, values, strict=True)):
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
                compression | (CONTROL if is_control else 0),
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
