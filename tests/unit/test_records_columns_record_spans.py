"""Batches decoded by column: their conditions, and the same content as one record after another."""

from __future__ import annotations

import struct
from pathlib import Path

import google_crc32c
import pytest

from records.batch import COVERED_AT, RecordBatch, decode_batch, encode_batch
from records.codecs.kraft import encode_frame
from records.columns.record_spans import table_records
from records.compression import Compression
from records.entries import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError
from records.ids import Uuid
from records.log.directory import DirectoryLog
from support.column_logs import by_column, one_by_one, raw_batches
from support.directory_logs import batch_bytes, read_until_error, write_segment
from support.snapshots import acl, acl_id

FRAME = encode_frame(acl(1))
NAME_AT = FRAME.index(b"t-1") - 1
ENDING_AT = len(FRAME) - 3  # operation, permission type, tagged fields


def batch_of(*frames: bytes | None, base_offset: int = 0) -> RecordBatch:
    return decode_batch(encode_batch(frames, base_offset=base_offset, epoch=1, timestamp_ms=5))


def edited(batch: RecordBatch, covered: bytes) -> RecordBatch:
    """The batch with other content, and the CRC that fits."""
    length = struct.pack(">qiib", batch.base_offset, 9 + len(covered), 1, 2)
    return decode_batch(length + struct.pack(">I", google_crc32c.value(covered)) + covered)


def read_by_column(*batches: RecordBatch) -> list[bool]:
    return [records is not None for records in table_records(batches)]


@pytest.mark.parametrize(
    "records",
    [
        [acl(1)],
        [acl(number) for number in range(300)],
        [RemoveAccessControlEntryRecord(acl_id(1)), acl(1), OtherRecord(20, 0), OtherRecord(17, 3)],
        [acl(1, resource_name="", principal="", host="")],
        [acl(1, resource_name="ü" * 63), acl(2, resource_name="n" * 126), acl(3, resource_name="n" * 127)],
        [acl(1, principal="User:CN=" + "x" * 7000, host="h" * 200), acl(2, resource_name="n" * 20_000)],
        [acl(1, resource_type=0, pattern_type=127, operation=127, permission_type=0)],
        [OtherRecord(3, 2)],
    ],
    ids=["one", "many", "all kinds", "empty texts", "around one byte", "long", "codes", "no ACL"],
)
def test_plain_batches_are_decoded_by_column(records: list[MetadataRecord]) -> None:
    """Offsets, times, ids, codes, texts: the columns say what the records say."""
    batches = raw_batches([records, records[:1]], start=40)
    first, second = table_records(batches)
    assert first is not None
    assert second is not None
    table = first.parts[0][0]
    assert (first.parts, second.parts) == (
        ((table, 0, len(records)),),
        ((table, len(records), len(records) + 1),),
    )
    decoded, error = by_column(batches)
    assert (decoded, error) == one_by_one(batches)
    logged = [logged for batch in decoded for logged in batch.records]
    acls = [
        (at, entry.record)
        for at, entry in enumerate(logged)
        if isinstance(entry.record, AccessControlEntryRecord)
    ]
    rows = zip(table.acls.tolist(), table.table.records(slice(None)), strict=True)
    assert list(rows) == acls
    assert table.offsets.tolist() == [entry.offset for entry in logged]
    assert table.timestamps_ms.tolist() == [entry.timestamp_ms for entry in logged]
    removed = [
        entry.record.id for entry in logged if isinstance(entry.record, RemoveAccessControlEntryRecord)
    ]
    assert table.removal_ids == b"".join(removed)
    assert first.offsets == (40, 39 + len(records))


UNUSUAL = {
    "negative code": encode_frame(acl(1, operation=-1)),
    "tagged field": FRAME[:-1] + b"\x01\x00\x00",
    "size in two bytes": FRAME[:NAME_AT] + bytes((FRAME[NAME_AT] | 0x80, 0)) + FRAME[NAME_AT + 1 :],
    "size in three bytes": FRAME[:NAME_AT] + bytes((FRAME[NAME_AT] | 0x80, 0x80, 0)) + FRAME[NAME_AT + 1 :],
    "feature level": encode_frame(FeatureLevelRecord("metadata.version", 20)),
    "transaction": encode_frame(BeginTransactionRecord()),
    "two-byte api key": b"\x01\x80\x01\x00",
    "tagged removal": encode_frame(RemoveAccessControlEntryRecord(acl_id(1)))[:-1] + b"\x01\x00\x00",
}
WRONG = {
    "no UTF-8": FRAME.replace(b"t-1", b"t-\xff"),
    "half a surrogate pair": FRAME.replace(b"t-1", b"\xed\xa0\x80"),
    "null name": FRAME[:NAME_AT] + b"\x00" + FRAME[NAME_AT + 4 :],
    "cut short": FRAME[:-1],
    "left over": FRAME + b"\x00",
    "name beyond the end": FRAME[:NAME_AT] + b"\x7f" + FRAME[NAME_AT + 1 :],
    "version": b"\x01\x12\x01" + FRAME[3:],
    "frame version": b"\x02" + FRAME[1:],
    "header only": FRAME[:3],
    "empty": b"",
    "one byte": b"\x01",
    "null": None,
    "short removal": encode_frame(RemoveAccessControlEntryRecord(acl_id(1)))[:-1],
}


@pytest.mark.parametrize("frame", (UNUSUAL | WRONG).values(), ids=(UNUSUAL | WRONG).keys())
def test_other_records_are_decoded_alone(frame: bytes | None) -> None:
    """What is unusual; where one is wrong its batch is refused as ever, and the others stay plain."""
    before, after = batch_of(FRAME, FRAME), batch_of(FRAME, base_offset=5)
    other = batch_of(FRAME, frame, FRAME, base_offset=2)
    assert read_by_column(before, other, after) == [True, frame in UNUSUAL.values(), True]
    (decoded, error), (expected, problem) = (way([before, other, after]) for way in (by_column, one_by_one))
    assert decoded == expected
    assert (type(error), str(error)) == (type(problem), str(problem))
    assert (error is None) == (frame in UNUSUAL.values())


COVERED = batch_of(FRAME, FRAME).covered
RECORD_AT = 40 + 2  # behind the header and the first record's size, which has two bytes


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (RECORD_AT, 1),  # attributes: unused, but not zero
        (RECORD_AT + 1, 2),  # timestamp delta 1
        (RECORD_AT + 2, 2),  # offset delta 1, which is also the next one's
        (RECORD_AT + 3, 0),  # a key without bytes
        (RECORD_AT + 4, 3),  # a negative value size
        (40, COVERED[40] + 1),  # a negative record size
        (40, COVERED[40] + 2),  # a longer record
        (41, 0x80),  # a record size of three bytes
        (len(COVERED) - 1, 2),  # a header
        (39, 3),  # three records
        (39, 1),  # one record
        (37, 0x07),  # very many records
        (5, 5),  # offsets are missing at the end
        (1, 1),  # gzip
        (1, 8),  # log append time
    ],
)
def test_batches_of_other_shapes_are_decoded_singly(at: int, value: int) -> None:
    """Keys, headers, times of their own, missing offsets, wrong sizes."""
    covered = bytearray(COVERED)
    covered[at] = value
    other = edited(batch_of(FRAME), bytes(covered))
    batches = [other, batch_of(FRAME, base_offset=20)]
    assert read_by_column(*batches) == [False, True]
    (decoded, error), (expected, problem) = by_column(batches), one_by_one(batches)
    assert decoded == expected
    assert (type(error), str(error)) == (type(problem), str(problem))


# Nothing in it looks like the start of a record.
QUIET = encode_frame(acl(1, id=Uuid(bytes(range(16, 32)))))


@pytest.mark.parametrize("at", range(3))
@pytest.mark.parametrize(
    ("place", "old", "new"),
    [
        (0, b"", b"\x00"),  # a byte before the first record
        (0, b"\x58", b"\x5a"),  # the size of the first record reaches into the second
        (45, b"\x58", b"\x56"),  # the size of the last record ends before its end
        (90, b"", b"\x00"),  # a byte behind the last record
    ],
    ids=["before", "longer", "shorter", "behind"],
)
def test_records_that_do_not_follow_one_another(at: int, place: int, old: bytes, new: bytes) -> None:
    """All records are found where they are, but a reader that goes from one to the next finds others."""
    batches = [batch_of(QUIET, QUIET, base_offset=2 * number) for number in range(3)]
    covered = batches[at].covered
    begin, end = 40 + place, 40 + place + len(old)
    assert covered[begin:end] == old
    batches[at] = edited(batches[at], covered[:begin] + new + covered[end:])
    assert not read_by_column(*batches)[at]
    (decoded, error), (expected, problem) = by_column(batches), one_by_one(batches)
    assert decoded == expected
    assert len(decoded) == at
    assert (type(error), str(error)) == (type(problem), str(problem))


@pytest.mark.parametrize(
    "middle",
    [
        bytes.fromhex("00 00 02 01"),
        bytes.fromhex("00 00 00 01 01"),
        bytes.fromhex("5a 00 00 02 01 4c 01 12"),
        bytes.fromhex("02 00 00 00 01 00 00 00 01"),
        bytes.fromhex("84 01 00 00 80 01 01"),
    ],
    ids=["one", "two in a row", "a full start", "two with sizes", "in two bytes each"],
)
def test_ids_that_look_like_starts_of_records(middle: bytes) -> None:
    """Whatever an id holds, its batch is plain."""
    ids = [(bytes([16] * at) + middle).ljust(16, b"\x11")[:16] for at in range(17 - len(middle))]
    batches = raw_batches([[acl(number, id=Uuid(each)) for number, each in enumerate(ids)], [acl(0)]])
    assert read_by_column(*batches) == [True, True]
    assert by_column(batches) == one_by_one(batches)


def test_compressed_batches_are_not_decoded_by_column() -> None:
    """They are decoded all the same."""
    packed = decode_batch(
        encode_batch([FRAME] * 3, base_offset=0, epoch=1, timestamp_ms=5, compression=Compression.ZSTD)
    )
    assert read_by_column(packed) == [False]
    assert by_column([packed]) == one_by_one([packed])


def test_offset_deltas_of_three_bytes() -> None:
    """Batches of a snapshot have so many records."""
    most, more = batch_of(*[FRAME] * 8192), batch_of(*[FRAME] * 8200)
    assert read_by_column(most, more) == [True, True]
    assert by_column([most, more]) == one_by_one([most, more])


def test_no_batches_give_no_records() -> None:
    """Nothing in, nothing out."""
    assert table_records([]) == []
    assert by_column([]) == ([], None)


@pytest.mark.parametrize("damaged", [0, 7, 199])
def test_a_log_is_read_up_to_the_batch_that_cannot_be_decoded(
    tmp_path: Path, damaged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I7: all batches before it, by column; then the error, with file, offset and byte."""
    monkeypatch.setattr("records.log.directory.reader.to_log_batches", by_column)
    whole = [batch_bytes(5 * number, 5) for number in range(200)]
    frame_at = COVERED_AT + 40 + 6
    raw = bytearray(whole[damaged])
    assert raw[frame_at] == 1
    raw[frame_at] = 2  # the first record's frame version
    raw[17:21] = google_crc32c.value(bytes(raw[COVERED_AT:])).to_bytes(4, "big")
    path = write_segment(tmp_path, 0, *whole[:damaged], bytes(raw), *whole[damaged + 1 :])
    (tmp_path / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with DirectoryLog.open(tmp_path, cluster_id="c") as log:
        batches, error = read_until_error(log)
        assert [batch.base_offset for batch in batches] == [5 * number for number in range(damaged)]
        assert not any(isinstance(batch.records, tuple) for batch in batches)
        assert isinstance(error, DecodeError)
        place = sum(map(len, whole[:damaged])) + frame_at
        assert (error.source, error.offset, error.position) == (str(path), 5 * damaged, place)
        # Asked again behind it, the reader goes on.
        if damaged < 199:
            assert log.read(5 * damaged + 5)[0].base_offset == 5 * damaged + 5
