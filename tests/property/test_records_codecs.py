"""Codecs and batches under fuzz: any bytes give a value or a DecodeError with its position."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import google_crc32c
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from records.batch import decode_batch, encode_batch
from records.codecs import avro, json, kraft
from records.codecs.avro_header import ACL_HEADER
from records.columns.record_table import RecordTable
from records.columns.values import Values
from records.compression import Compression, decompress
from records.content import to_log_batch
from records.control import ControlType, describe_control
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    AclRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
)
from records.errors import DecodeError
from records.ids import Uuid
from records.log_batch import LogBatch
from support.example_counts import examples
from support.other_frames import other_frame
from support.raw_records import raw_records
from support.strategies import (
    OTHER_RECORDS,
    access_control_entry_records,
    acl_records,
    record_lists,
    strange_acl_records,
)

T = TypeVar("T")

ATTRIBUTES_AT = 21

texts = st.text(max_size=200)
known_records: st.SearchStrategy[MetadataRecord] = st.one_of(
    strange_acl_records(),
    acl_records(),
    st.builds(FeatureLevelRecord, texts, st.integers(-0x8000, 0x7FFF)),
    st.builds(BeginTransactionRecord, st.none() | texts),
    st.builds(AbortTransactionRecord, st.none() | texts),
    st.just(EndTransactionRecord()),
)


def mutations(valid: bytes) -> Iterator[bytes]:
    """Every flipped bit, every cut, every removed byte, and some inserted bytes."""
    for at in range(len(valid)):
        for bit in range(8):
            yield valid[:at] + bytes((valid[at] ^ 1 << bit,)) + valid[at + 1 :]
        yield valid[:at]
        yield valid[:at] + valid[at + 1 :]
        for added in (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"):
            yield valid[:at] + added + valid[at:]


def value_or_error(decode: Callable[[bytes], T], data: bytes) -> T | DecodeError:
    """The decoded value or the DecodeError. Any other exception fails the test."""
    try:
        return decode(data)
    except DecodeError as error:
        located = error
    assert located.position is not None
    assert 0 <= located.position <= len(data)
    return located


def is_same_outcome(first: object, second: object) -> bool:
    """Whether both are equal values, or errors with the same text."""
    if isinstance(first, DecodeError) and isinstance(second, DecodeError):
        return (type(first), str(first)) == (type(second), str(second))
    return first == second


@given(known_records)
def test_kraft_frames_roundtrip(record: MetadataRecord) -> None:
    assert kraft.decode_frame(kraft.encode_frame(record)) == record


@given(known_records | st.builds(OtherRecord, st.sampled_from([0, 2, 6, 28, 0x7FFF]), st.integers(0, 0x7FFF)))
def test_json_lines_roundtrip(record: MetadataRecord) -> None:
    assert json.loads(json.dumps(record)) == record
    assert json.from_json(json.to_json(record)) == record


@given(strange_acl_records())
def test_avro_values_roundtrip(record: AclRecord) -> None:
    assert avro.decode(avro.encode(record)) == record


def by_column(decode: Callable[[bytes], MetadataRecord], data: bytes, neighbour: bytes) -> MetadataRecord:
    """Decode as the readers of many values do: by column between two others, and alone if that fails."""
    places = np.zeros(3, np.int64)
    table = RecordTable(Values.of([neighbour, data, neighbour]), places, places)
    return decode(data) if 1 in table.unread else next(table.records(1, 2))


def have_same_outcome(decode: Callable[[bytes], MetadataRecord], data: bytes, neighbour: bytes) -> bool:
    """Whether both decoders of a format give the same value or error for these bytes."""
    alone = value_or_error(decode, data)
    return is_same_outcome(alone, value_or_error(lambda value: by_column(decode, value, neighbour), data))


FRAME = kraft.encode_frame(AccessControlEntryRecord(Uuid(bytes(16)), 2, "a", 3, "b", "c", 4, 5))
VALUE = avro.encode(AccessControlEntryRecord(Uuid(bytes(16)), 2, "a", 3, "b", "c", 4, 5))


@given(access_control_entry_records() | known_records)
@settings(max_examples=examples(gate=20, deep=50))
def test_damaged_frames_give_a_record_or_an_error(record: MetadataRecord) -> None:
    """At any position, with either decoder."""
    for data in mutations(kraft.encode_frame(record)):
        found = value_or_error(kraft.decode_frame, data)
        around = value_or_error(
            lambda frame: kraft.decode_frame_at(frame, 1, len(frame) - 1), b"\x01" + data + b"\x00"
        )
        if isinstance(around, DecodeError):
            assert around.position is not None
            around = type(around)(around.reason, position=around.position - 1)
        assert is_same_outcome(found, around)
        assert have_same_outcome(kraft.decode_frame, data, FRAME)


@given(acl_records() | access_control_entry_records())
@settings(max_examples=examples(gate=20, deep=50))
def test_damaged_avro_values_give_a_record_or_an_error(record: AclRecord) -> None:
    """With either decoder."""
    assert avro.decode(avro.encode(record)) == record
    for data in mutations(avro.encode(record)):
        assert have_same_outcome(avro.decode, data, VALUE)


acl_header = FRAME[:19]


@given(st.binary(max_size=60) | st.binary(max_size=60).map(lambda tail: acl_header + tail))
@example(acl_header + b"\x02\x80\x01")
def test_any_bytes_give_a_frame_or_an_error(data: bytes) -> None:
    assert have_same_outcome(kraft.decode_frame, data, FRAME)


@given(st.sampled_from([0, 1]), st.binary(max_size=60))
def test_any_bytes_give_an_avro_value_or_an_error(index: int, tail: bytes) -> None:
    assert have_same_outcome(avro.decode, tail, VALUE)
    assert have_same_outcome(avro.decode, list(avro._CODEC._writers)[index] + tail, VALUE)


@given(st.binary(max_size=40))
@example(b"\x04\x02t\x06\x02u\x02*\x06\x06")
@example(b"\x04\x03t\x06\x02u\x02*\x06\x06")
@example(b"\x05\x02t\x06\x02u\x02*\x06\x06")
@example(b"\x04\x02\xff\x06\x02u\x02*\x06\x06")
@example(b"\x04\x00\x06\x00\x00\x06\x06")
@example(b"\x04\x02t\x06\x02u\x02*\x06\x06\x00")
def test_any_bytes_after_the_id_give_an_avro_acl_or_an_error(tail: bytes) -> None:
    assert have_same_outcome(avro.decode, ACL_HEADER + bytes(16) + tail, VALUE)


@given(st.text() | st.binary())
def test_any_line_gives_a_json_record_or_an_error(line: str | bytes) -> None:
    with suppress(DecodeError):
        json.loads(line)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
    acl_records(),
    st.data(),
)
def test_any_json_payload_gives_a_record_or_an_error(
    odd: object, record: AclRecord, data: st.DataObject
) -> None:
    """One key of a payload, or of its data, has any other value."""
    payload = json.to_json(record)
    holder = data.draw(st.sampled_from([payload, payload["data"]]))
    holder[data.draw(st.sampled_from(sorted(holder)) | st.text(max_size=5))] = odd
    with suppress(DecodeError):
        json.from_json(payload)


@given(st.sampled_from(ControlType), st.binary(max_size=60), st.booleans())
def test_any_bytes_give_a_control_record_or_an_error(
    control_type: ControlType, tail: bytes, known: bool
) -> None:
    value = b"\x00\x00" + tail if known else tail
    value_or_error(lambda data: describe_control(ControlRecord(control_type, 0, data)), value)


@given(st.sampled_from(Compression), st.binary(max_size=200))
def test_any_compressed_bytes_give_bytes_or_an_error(compression: Compression, data: bytes) -> None:
    with suppress(DecodeError):
        assert len(decompress(compression, data, max_bytes=1000)) <= 1000


def encoded(records: list[MetadataRecord], **options: int) -> bytes:
    """A batch of the records that can be encoded; at least one."""
    frames = [kraft.encode_frame(record) for record in records if not isinstance(record, OtherRecord)]
    return encode_batch(
        frames or [kraft.encode_frame(EndTransactionRecord())],
        base_offset=options.get("base_offset", 0),
        epoch=1,
        timestamp_ms=1_795_222_795_968,
        compression=Compression(options.get("compression", 0)),
    )


def signed(data: bytes) -> bytes:
    """The batch with its length and CRC corrected, so that the reader decodes the damaged records."""
    length, crc = len(data) - 12, google_crc32c.value(data[ATTRIBUTES_AT:])
    return data[:8] + struct.pack(">i", length) + data[12:17] + struct.pack(">I", crc) + data[ATTRIBUTES_AT:]


def read_batch(data: bytes) -> LogBatch:
    return to_log_batch(decode_batch(data))


@given(record_lists(with_transactions=True), st.sampled_from(Compression), st.integers(0, 2**40))
def test_batches_roundtrip(records: list[MetadataRecord], compression: Compression, base_offset: int) -> None:
    data = encoded(records, base_offset=base_offset, compression=compression)
    found = read_batch(data).records
    expected = [record for record in records if not isinstance(record, OtherRecord)] or [
        EndTransactionRecord()
    ]
    assert [record.record for record in found] == expected
    assert [record.offset for record in found] == list(range(base_offset, base_offset + len(expected)))


@given(record_lists(max_size=3))
@settings(max_examples=examples(gate=20, deep=50))
def test_damaged_batches_give_a_batch_or_an_error(records: list[MetadataRecord]) -> None:
    """With the original CRC, and with a corrected one."""
    data = encoded(records)
    for damaged in mutations(data):
        value_or_error(read_batch, damaged)
        if len(damaged) > ATTRIBUTES_AT:
            repaired = signed(damaged)
            value_or_error(read_batch, repaired)
            value_or_error(lambda repaired: raw_records(decode_batch(repaired)), repaired)


@given(record_lists(max_size=3), st.sampled_from(Compression), st.data())
def test_damaged_compressed_batches_give_a_batch_or_an_error(
    records: list[MetadataRecord], compression: Compression, data: st.DataObject
) -> None:
    batch = bytearray(encoded(records, compression=compression))
    for at in data.draw(st.lists(st.integers(61, len(batch) - 1), min_size=1, max_size=4)):
        batch[at] = data.draw(st.integers(0, 255))
    value_or_error(read_batch, signed(bytes(batch)))


@given(st.sampled_from(OTHER_RECORDS), st.data())
def test_a_damaged_record_of_another_type_is_skipped(record: OtherRecord, data: st.DataObject) -> None:
    """I7 concerns ACLs: for other types any bytes after the header give a record of that type."""
    frame = bytearray(other_frame(record))
    for at in data.draw(st.lists(st.integers(3, len(frame) - 1), min_size=1, max_size=4)):
        frame[at] = data.draw(st.integers(0, 255))
    found = kraft.decode_frame(bytes(frame[: data.draw(st.integers(3, len(frame)))]))
    assert isinstance(found, OtherRecord)
    assert (found.api_key, found.version) == (record.api_key, record.version)
    garbage = kraft.decode_frame(bytes(frame[:3]) + data.draw(st.binary(max_size=40)))
    assert isinstance(garbage, OtherRecord)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_batch_or_an_error(data: bytes) -> None:
    value_or_error(read_batch, data)
    value_or_error(read_batch, signed(encoded([])[:61] + data))
