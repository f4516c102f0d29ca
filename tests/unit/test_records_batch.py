"""Record batches v2: written, read, and refused."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable

import google_crc32c
import pytest

from records.batch import HEADER_BYTES, RECORDS_MAX, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.compression import Compression, compress
from records.content import to_log_batch
from records.control import ControlType, encode_control_key, snapshot_footer_value
from records.entries import (
    AccessControlEntryRecord,
    ControlRecord,
    EndTransactionRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import (
    ChecksumMismatchError,
    DecodeError,
    EncodeError,
    TruncatedRecordError,
    UnsupportedVersionError,
)
from records.ids import Uuid
from records.log_batch import LogBatch, LogRecord
from records.varint import append_varint
from support.raw_records import RawRecord, raw_records

TIME_MS = 1_795_222_795_968
ID = Uuid(bytes(range(16)))
RECORDS: list[MetadataRecord] = [
    AccessControlEntryRecord(ID, 2, "orders", 3, "User:a", "*", 3, 3),
    RemoveAccessControlEntryRecord(ID),
    EndTransactionRecord(),
    AccessControlEntryRecord(ID, 2, "x" * 20_000, 4, "User:é", "10.0.0.1", -1, 2),
]
FRAMES = [encode_frame(record) for record in RECORDS]
BATCH = encode_batch(FRAMES, base_offset=100, epoch=7, timestamp_ms=TIME_MS)

# Where fields lie in a batch.
CRC_AT, ATTRIBUTES_AT, LAST_DELTA_AT, MAX_TIMESTAMP_AT, COUNT_AT = 17, 21, 23, 35, 57


def changed(batch: bytes, at: int, data: bytes) -> bytes:
    """``data`` written over a batch, and the CRC made right again."""
    body = bytearray(batch)
    body[at : at + len(data)] = data
    return signed(bytes(body))


def signed(batch: bytes) -> bytes:
    """The batch with the length and the CRC that it should have."""
    length = struct.pack(">i", len(batch) - 12)
    crc = struct.pack(">I", google_crc32c.value(batch[ATTRIBUTES_AT:]))
    return batch[:8] + length + batch[12:CRC_AT] + crc + batch[ATTRIBUTES_AT:]


def with_body(body: bytes, count: int, last_delta: int | None = None) -> bytes:
    """A batch at offset 100 with these bytes for its records."""
    header = changed(BATCH, COUNT_AT, struct.pack(">i", count))
    header = changed(
        header, LAST_DELTA_AT, struct.pack(">i", count - 1 if last_delta is None else last_delta)
    )
    return signed(header[:HEADER_BYTES] + body)


def raw_record(
    value: bytes | None,
    *,
    delta: int = 0,
    time_delta: int = 0,
    key: bytes | None = None,
    headers: bytes = b"\x00",
) -> bytes:
    """One record by hand, in the most general form."""
    inner = bytearray(b"\x00")
    append_varint(inner, time_delta)
    append_varint(inner, delta)
    for part in (key, value):
        append_varint(inner, -1 if part is None else len(part))
        inner += part or b""
    inner += headers
    out = bytearray()
    append_varint(out, len(inner))
    return bytes(out + inner)


def test_the_header_is_read_back() -> None:
    batch = decode_batch(BATCH)
    assert (batch.base_offset, batch.last_offset, batch.end_offset) == (100, 103, 104)
    assert (batch.size_bytes, batch.position) == (len(BATCH), 0)
    assert (batch.epoch, batch.record_count) == (7, 4)
    assert (batch.base_timestamp_ms, batch.max_timestamp_ms) == (TIME_MS, TIME_MS)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert batch.compression is Compression.NONE
    assert not batch.is_control
    assert not batch.is_transactional
    assert decode_batch(changed(BATCH, ATTRIBUTES_AT, b"\x00\x10")).is_transactional


def test_records_as_bytes() -> None:
    assert raw_records(decode_batch(BATCH)) == [
        RawRecord(100 + index, TIME_MS, None, frame) for index, frame in enumerate(FRAMES)
    ]


def test_records_as_values() -> None:
    assert to_log_batch(decode_batch(BATCH)) == LogBatch(
        100,
        104,
        7,
        TIME_MS,
        len(BATCH),
        tuple(LogRecord(100 + index, TIME_MS, record) for index, record in enumerate(RECORDS)),
    )


@pytest.mark.parametrize("compression", Compression)
def test_every_compression_roundtrips(compression: Compression) -> None:
    data = encode_batch(FRAMES, base_offset=5, epoch=1, timestamp_ms=TIME_MS, compression=compression)
    batch = decode_batch(data)
    assert batch.compression is compression
    assert [record.value for record in raw_records(batch)] == FRAMES
    assert [record.record for record in to_log_batch(batch).records] == RECORDS


def test_a_batch_is_read_where_it_lies() -> None:
    """From bytes and memoryviews, with whatever before and after; positions count from the file's start."""
    data = b"before" + BATCH + BATCH[:30]
    for piece in (data, memoryview(data), memoryview(bytearray(data))):
        batch = decode_batch(piece, 6, origin=1000)
        assert batch.position == 1006
        assert to_log_batch(batch) == to_log_batch(decode_batch(BATCH))


def test_a_thousand_records() -> None:
    """Offset deltas take two bytes from 64 on, and three from 8192 on."""
    values: list[bytes | None] = [b"\x01\x14\x00\x00"] * 9000
    log_batch = to_log_batch(decode_batch(encode_batch(values, base_offset=3, epoch=1, timestamp_ms=TIME_MS)))
    assert [record.offset for record in log_batch.records] == list(range(3, 9003))
    assert {record.record for record in log_batch.records} == {OtherRecord(20, 0)}
    few = to_log_batch(decode_batch(encode_batch(values[:900], base_offset=3, epoch=1, timestamp_ms=TIME_MS)))
    assert few.records == log_batch.records[:900]


def test_keys_and_null_values() -> None:
    """A compacted topic's batch; a null value is no metadata record."""
    data = encode_batch(
        [b"v", None, b""], keys=[b"k", b"", None], base_offset=0, epoch=0, timestamp_ms=TIME_MS
    )
    batch = decode_batch(data)
    assert [(record.key, record.value) for record in raw_records(batch)] == [
        (b"k", b"v"),
        (b"", None),
        (None, b""),
    ]
    null = encode_batch([FRAMES[0], None], base_offset=8, epoch=0, timestamp_ms=TIME_MS)
    with pytest.raises(DecodeError, match="a metadata record without a value") as caught:
        to_log_batch(decode_batch(null))
    assert caught.value.offset == 9


def test_control_batches() -> None:
    data = encode_batch(
        [snapshot_footer_value(), None],
        keys=[encode_control_key(ControlType.SNAPSHOT_FOOTER), b"\x00\x01\x00\x63"],
        base_offset=9,
        epoch=2,
        timestamp_ms=TIME_MS,
        is_control=True,
    )
    batch = decode_batch(data)
    assert batch.is_control
    assert [record.record for record in to_log_batch(batch).records] == [
        ControlRecord(ControlType.SNAPSHOT_FOOTER, 0, b"\x00\x00\x00"),
        ControlRecord(99, 1, b""),
    ]


def test_a_control_record_needs_a_key() -> None:
    data = encode_batch([b"x"], base_offset=9, epoch=2, timestamp_ms=TIME_MS, is_control=True)
    with pytest.raises(DecodeError, match="a control record's key has 4 bytes") as caught:
        to_log_batch(decode_batch(data))
    assert caught.value.offset == 9


def test_timestamps_of_records() -> None:
    """Deltas count from the batch's base; a topic with LogAppendTime has one for all."""
    body = raw_record(b"a", time_delta=-5) + raw_record(b"b", delta=1, time_delta=2**40)
    data = with_body(body, 2)
    assert [record.timestamp_ms for record in raw_records(decode_batch(data))] == [
        TIME_MS - 5,
        TIME_MS + 2**40,
    ]
    appended = changed(data, ATTRIBUTES_AT, b"\x00\x08")
    appended = changed(appended, MAX_TIMESTAMP_AT, struct.pack(">q", 77))
    assert [record.timestamp_ms for record in raw_records(decode_batch(appended))] == [77, 77]
    # The same for records that are otherwise plain.
    plain = changed(changed(BATCH, ATTRIBUTES_AT, b"\x00\x08"), MAX_TIMESTAMP_AT, struct.pack(">q", 77))
    assert {record.timestamp_ms for record in to_log_batch(decode_batch(plain)).records} == {77}


def test_compaction_leaves_gaps() -> None:
    """Offsets are those of the records that are left; the batch still covers its full range."""
    body = raw_record(FRAMES[1], delta=2) + raw_record(FRAMES[2], delta=300)
    log_batch = to_log_batch(decode_batch(with_body(body, 2, last_delta=500)))
    assert [record.offset for record in log_batch.records] == [102, 400]
    assert log_batch.end_offset == 601


def test_a_batch_may_have_lost_all_its_records() -> None:
    """Compaction keeps the header of the last batch of a producer."""
    log_batch = to_log_batch(decode_batch(with_body(b"", 0, last_delta=9)))
    assert log_batch.records == ()
    assert log_batch.end_offset == 110


def test_record_headers_are_skipped() -> None:
    headers = b"\x04" + b"\x02k\x02v" + b"\x00\x01"
    body = raw_record(FRAMES[0], headers=headers) + raw_record(FRAMES[1], delta=1)
    batch = decode_batch(with_body(body, 2))
    assert [record.value for record in raw_records(batch)] == FRAMES[:2]
    assert [record.record for record in to_log_batch(batch).records] == RECORDS[:2]


def test_every_flipped_bit_of_what_the_crc_covers_is_caught() -> None:
    """Bit by bit, in the header and in the records, and in the CRC itself."""
    batch = encode_batch(FRAMES[:3], base_offset=0, epoch=1, timestamp_ms=TIME_MS)
    for bit in range(8 * CRC_AT, 8 * len(batch)):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ChecksumMismatchError) as caught:
            decode_batch(bytes(flipped), origin=50)
        assert (caught.value.offset, caught.value.position) == (0, 50)


def test_a_flipped_bit_before_what_the_crc_covers_gives_a_batch_or_an_error() -> None:
    """Leaders rewrite offset and epoch, so the CRC leaves them out; length and magic cannot change unseen."""
    refused = set()
    for bit in range(8 * CRC_AT):
        flipped = bytearray(BATCH)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            to_log_batch(decode_batch(bytes(flipped)))
        except DecodeError:
            refused.add(bit // 8)
    assert refused == {0, 8, 9, 10, 11, 16}  # byte 0: an offset below zero


def test_every_cut_is_a_truncated_tail() -> None:
    for size in range(len(BATCH)):
        with pytest.raises(TruncatedRecordError) as caught:
            decode_batch(b"??" + BATCH[:size], 2)
        assert caught.value.position == 2
        assert caught.value.offset == (100 if size >= HEADER_BYTES else None)


def test_a_truncated_record_in_a_complete_batch_is_no_truncated_tail() -> None:
    """I7: a log drops truncated tails; a complete batch with half a record must stop the reader."""
    for compression in (Compression.NONE, Compression.LZ4):
        data = encode_batch(
            [FRAMES[1], FRAMES[0][:-3]],
            base_offset=40,
            epoch=1,
            timestamp_ms=TIME_MS,
            compression=compression,
        )
        with pytest.raises(DecodeError, match=r"needs|ends inside") as caught:
            to_log_batch(decode_batch(data))
        assert type(caught.value) is DecodeError
        assert caught.value.offset == 41


def test_an_error_in_a_record_says_where_it_is() -> None:
    """The position is the byte in the file; for compressed records it is the batch's."""
    bad = bytearray(FRAMES[0])
    bad[21] = 0xFF
    plain = encode_batch([FRAMES[1], bytes(bad)], base_offset=40, epoch=1, timestamp_ms=TIME_MS)
    with pytest.raises(DecodeError, match="resource name is not UTF-8") as caught:
        to_log_batch(decode_batch(b"12345" + plain, 5, origin=10))
    assert caught.value.offset == 41
    assert caught.value.position == 10 + 5 + plain.index(bytes(bad)) + 21

    data = encode_batch(
        [FRAMES[1], bytes(bad)], base_offset=40, epoch=1, timestamp_ms=TIME_MS, compression=Compression.ZSTD
    )
    with pytest.raises(
        DecodeError, match="resource name is not UTF-8, at byte 54 of the decompressed"
    ) as caught:
        to_log_batch(decode_batch(data, origin=15))
    assert (caught.value.offset, caught.value.position) == (41, 15)


def test_an_unknown_version_in_a_batch_keeps_its_kind() -> None:
    data = encode_batch([b"\x01\x12\x01" + bytes(40)], base_offset=3, epoch=1, timestamp_ms=TIME_MS)
    with pytest.raises(UnsupportedVersionError, match="ACCESS_CONTROL_ENTRY_RECORD version 1") as caught:
        to_log_batch(decode_batch(data))
    assert caught.value.offset == 3
    assert caught.value.position == data.index(b"\x01\x12\x01") + 2


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (BATCH[:16] + b"\x01" + BATCH[17:], UnsupportedVersionError, "magic 1, only 2 is known"),
        (BATCH[:16] + b"\x00" + BATCH[17:30], DecodeError, "no record batch begins here"),
        (BATCH[:16] + b"\xff" + BATCH[17:], DecodeError, "no record batch begins here"),
        (BATCH[:16] + b"\x03" + BATCH[17:-1], DecodeError, "no record batch begins here"),
        (BATCH[:8] + struct.pack(">i", 48) + BATCH[12:], DecodeError, "cannot have length 48"),
        (BATCH[:8] + struct.pack(">i", -1) + BATCH[12:], DecodeError, "cannot have length -1"),
        (changed(BATCH, ATTRIBUTES_AT, b"\x00\x05"), UnsupportedVersionError, "compression 5 is unknown"),
        (changed(BATCH, LAST_DELTA_AT, b"\xff\xff\xff\xff"), DecodeError, "last offset delta -1"),
        (changed(BATCH, COUNT_AT, b"\xff\xff\xff\xff"), DecodeError, "-1 records"),
        (b"\x80" + BATCH[1:], DecodeError, "base offset -9223372036854775708"),
        (
            changed(BATCH, COUNT_AT, struct.pack(">i", RECORDS_MAX + 1)),
            DecodeError,
            "a batch of 524289 records; 524288 at most are read",
        ),
    ],
)
def test_invalid_headers_are_refused(batch: bytes, error: type[DecodeError], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        decode_batch(batch)
    assert caught.value.position == 0
    assert not isinstance(caught.value, TruncatedRecordError)


def test_random_bytes_are_no_batch_of_a_newer_version() -> None:
    """Where nothing else looks like a batch, a byte at the place of the version means nothing."""
    choice = random.Random(0)
    for _ in range(2000):
        with pytest.raises(DecodeError) as caught:
            decode_batch(choice.randbytes(choice.randrange(1, 2000)))
        assert not isinstance(caught.value, UnsupportedVersionError)


def test_zeros_are_no_batch() -> None:
    """The end of a file that was made larger before it was written; a log decides what to do about it."""
    with pytest.raises(DecodeError):
        decode_batch(bytes(200))
    with pytest.raises(DecodeError):
        decode_batch(bytes(40))


ONE = raw_record(FRAMES[1])


@pytest.mark.parametrize(
    ("body", "count", "message"),
    [
        (ONE, 2, "the input ends inside a varint"),
        (ONE + ONE, 1, "27 bytes follow the last record"),
        (ONE + ONE, 2, "offset delta 0 after 0, in a batch that ends at 1"),
        (raw_record(FRAMES[1], delta=1), 1, "offset delta 1 after -1, in a batch that ends at 0"),
        (raw_record(FRAMES[1], delta=-1), 1, "offset delta -1 after -1"),
        (ONE[:-1], 1, "a record ends beyond its batch"),
        (b"\x01" + ONE[1:], 1, "a record ends beyond its batch"),
        (raw_record(FRAMES[1], headers=b"\x01"), 1, "cannot have -1 headers"),
        (raw_record(FRAMES[1], headers=b"\x7e"), 1, "cannot have 63 headers"),
        (raw_record(FRAMES[1], headers=b"\x02\x01\x00"), 1, "a header's key must not be null"),
        (raw_record(FRAMES[1], headers=b"\x00\x00"), 1, "a record ends -1 bytes from its end"),
        (raw_record(FRAMES[1], headers=b"\x02\x04"), 1, "ends"),
        (b"\x08\x00\x00\x00\x01", 1, "a record ends beyond its batch|ends"),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1, "a record ends beyond its batch"),
        (b"\xff\xff\xff\xff\xff\xff", 1, "a varint is too long"),
    ],
)
def test_records_that_do_not_fit_their_batch(body: bytes, count: int, message: str) -> None:
    """With a right CRC it is an error of the writer, and never a truncated tail."""
    for batch in (
        with_body(body, count),
        changed(with_body(compress(Compression.GZIP, body), count), ATTRIBUTES_AT, b"\x00\x01"),
    ):
        for read in (to_log_batch, raw_records):
            check_refused(read, batch, message)


def check_refused(read: Callable[..., object], data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        read(decode_batch(data))
    assert type(caught.value) is DecodeError
    assert caught.value.offset == 100
    assert caught.value.position is not None
    assert 0 <= caught.value.position <= len(data)


def test_compressed_records_that_are_damaged() -> None:
    """With a right CRC the damage is the writer's; the error names batch and compression."""
    data = encode_batch(FRAMES, base_offset=4, epoch=1, timestamp_ms=TIME_MS, compression=Compression.ZSTD)
    damaged = signed(data[: HEADER_BYTES + 10])
    with pytest.raises(DecodeError, match="cannot decompress zstd") as caught:
        to_log_batch(decode_batch(damaged, origin=70))
    assert (caught.value.offset, caught.value.position) == (4, 70)


def test_tiny_records_take_no_memory_before_they_are_refused() -> None:
    """Some hundred kilobytes of zstd hold as many records as a batch may, and the first is refused."""
    body = b"".join([raw_record(None, delta=delta) for delta in range(RECORDS_MAX)])
    data = with_body(compress(Compression.ZSTD, body), RECORDS_MAX)
    batch = decode_batch(changed(data, ATTRIBUTES_AT, struct.pack(">h", Compression.ZSTD)))
    assert batch.size_bytes < len(body) / 8
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match="without a value"):
            to_log_batch(batch)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5 * len(body)  # it was 13 times as much, for the places of all records


def test_the_first_error_is_reported() -> None:
    """A batch is decoded in one pass: records after a damaged one are not read."""
    body = raw_record(None) + b"\xff" * 20
    with pytest.raises(DecodeError, match="without a value"):
        to_log_batch(decode_batch(with_body(body, 2)))


def test_values_that_do_not_fit_are_encode_errors() -> None:
    with pytest.raises(EncodeError, match="524288 records at most, not 524289"):
        encode_batch([b"x"] * (RECORDS_MAX + 1), base_offset=0, epoch=1, timestamp_ms=0)
    with pytest.raises(EncodeError, match="one record at least"):
        encode_batch([], base_offset=0, epoch=1, timestamp_ms=0)
    for base_offset, epoch, timestamp_ms in ((2**63, 1, 0), (0, 2**31, 0), (0, 1, 2**63)):
        with pytest.raises(EncodeError, match="a batch's header cannot hold this"):
            encode_batch([b"x"], base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms)
