"""Avro single-object values of a topic log, and schemas that grow."""

from __future__ import annotations

import copy
import io

import fastavro
import pytest

from records.codecs import avro
from records.codecs.avro import (
    ACCESS_CONTROL_ENTRY_SCHEMA,
    REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA,
    AvroCodec,
    Schema,
)
from records.codecs.avro_header import ACL_HEADER, HEADER_BYTES, REMOVE_HEADER
from records.entries import AccessControlEntryRecord, AclRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError, TruncatedRecordError, UnsupportedVersionError
from records.ids import Uuid

ID = Uuid(bytes(range(16)))
ACL = AccessControlEntryRecord(ID, 2, "orders.é", 3, "User:a", "*", -3, 127)
REMOVE = RemoveAccessControlEntryRecord(ID)
# Magic, fingerprint of the schema, id, and the fields as Avro's int (zigzag) and string (length first).
ACL_HEX = (
    "c301 827f6315ab36a862 000102030405060708090a0b0c0d0e0f 04 12 6f72646572732ec3a9 06 0c 557365723a61 02 2a"
    " 05 fe01"
)


def grown(schema: Schema, **field: object) -> Schema:
    """The schema with one more field."""
    newer = copy.deepcopy(schema)
    newer["fields"].append(field)
    return newer


#: What a later version may look like: one field more, and a reader of older values knows its default.
NEWER_ACL_SCHEMA = grown(ACCESS_CONTROL_ENTRY_SCHEMA, name="comment", type="string", default="none")
NEWER = (NEWER_ACL_SCHEMA, REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA)


def single_object(schema: Schema, fields: dict[str, object]) -> bytes:
    """A value as another Avro library writes it."""
    canonical = fastavro.schema.to_parsing_canonical_form(schema)
    out = io.BytesIO()
    out.write(b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO")))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, {}), fields)
    return out.getvalue()


NEWER_VALUE = single_object(
    NEWER_ACL_SCHEMA,
    {
        "id": ID,
        "resourceType": 2,
        "resourceName": "orders.é",
        "patternType": 3,
        "principal": "User:a",
        "host": "*",
        "operation": -3,
        "permissionType": 127,
        "comment": "of a later version",
    },
)


def test_the_bytes_of_a_value() -> None:
    """Pinned: a value that was once written must be readable for ever."""
    assert avro.encode(ACL) == bytes.fromhex(ACL_HEX)
    assert avro.decode(bytes.fromhex(ACL_HEX)) == ACL
    assert avro.decode(memoryview(bytes.fromhex(ACL_HEX))) == ACL


def test_the_constant_headers_are_those_of_the_schemas() -> None:
    """Columns find Avro values by them, also where fastavro is not installed."""
    fields: dict[str, object] = {"id": ID}
    assert single_object(REMOVE_ACCESS_CONTROL_ENTRY_SCHEMA, fields)[:HEADER_BYTES] == REMOVE_HEADER
    assert avro.encode(ACL)[:HEADER_BYTES] == ACL_HEADER


def test_the_fingerprint_is_little_endian() -> None:
    """The specification's own example: CRC-64-AVRO of "null" is 7195948357588979594."""
    assert bytes.fromhex(fastavro.schema.fingerprint('"null"', "CRC-64-AVRO")) == (
        7195948357588979594
    ).to_bytes(8, "little")


def test_removals() -> None:
    value = avro.encode(REMOVE)
    assert value[10:] == ID
    assert avro.decode(value) == REMOVE


def test_a_newer_value_is_read_with_its_schema() -> None:
    """Today's reader skips the field that it does not have."""
    assert AvroCodec(known=[NEWER_ACL_SCHEMA]).decode(NEWER_VALUE) == ACL
    by_full_name = {**NEWER_ACL_SCHEMA, "name": "aclog.records.AccessControlEntryRecord"}
    assert AvroCodec(known=[by_full_name]).decode(NEWER_VALUE) == ACL


def test_a_newer_value_of_an_unknown_schema_is_refused() -> None:
    """I7: without the writer's schema nothing in the body is certain."""
    with pytest.raises(
        UnsupportedVersionError, match=r"^Avro schema with fingerprint [0-9a-f]{16} is unknown"
    ) as caught:
        avro.decode(NEWER_VALUE)
    assert caught.value.position == 2


def test_todays_values_are_read_under_a_newer_schema() -> None:
    """The new field has its default."""
    newer = AvroCodec(NEWER, known=[ACCESS_CONTROL_ENTRY_SCHEMA])
    name, fields = newer.decode_fields(avro.encode(ACL))
    assert name == "AccessControlEntryRecord"
    assert fields["comment"] == "none"
    assert newer.decode(avro.encode(ACL)) == ACL
    assert newer.decode_fields(NEWER_VALUE)[1]["comment"] == "of a later version"


def test_a_schema_without_a_required_field_is_refused() -> None:
    """A newer schema without the host: today's record would not know whom to deny."""
    poorer = copy.deepcopy(ACCESS_CONTROL_ENTRY_SCHEMA)
    poorer["fields"] = [field for field in poorer["fields"] if field["name"] != "host"]
    value = single_object(
        poorer,
        {
            "id": ID,
            "resourceType": 2,
            "resourceName": "t",
            "patternType": 3,
            "principal": "User:a",
            "operation": 3,
            "permissionType": 2,
        },
    )
    with pytest.raises(DecodeError, match="does not fit its schema"):
        AvroCodec(known=[poorer]).decode(value)


@pytest.mark.parametrize("record", [ACL, REMOVE])
def test_every_cut_and_every_addition_is_an_error(record: AclRecord) -> None:
    value = avro.encode(record)
    for size in range(len(value)):
        with pytest.raises(DecodeError) as caught:
            avro.decode(value[:size])
        assert caught.value.position is not None
        assert 0 <= caught.value.position <= size
        assert isinstance(caught.value, TruncatedRecordError) == (size < 10)
    with pytest.raises(DecodeError, match="1 bytes are left over") as caught:
        avro.decode(value + b"\x00")
    assert caught.value.position == len(value)


@pytest.mark.parametrize("data", [b"\xc4", b"\xc3\x02" + bytes(20), b"\x00" + bytes(20), b'{"type": "x"}'])
def test_other_values_are_no_single_objects(data: bytes) -> None:
    with pytest.raises(DecodeError, match="not an Avro single-object value"):
        avro.decode(data)


@pytest.mark.parametrize("field", ["resourceType", "patternType", "operation", "permissionType"])
@pytest.mark.parametrize("code", [128, -129, 2**31 - 1])
def test_codes_are_int8(field: str, code: int) -> None:
    """Avro's int could hold more than a log record can."""
    fields: dict[str, object] = {
        "id": ID,
        "resourceType": 2,
        "resourceName": "t",
        "patternType": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permissionType": 2,
    }
    with pytest.raises(DecodeError, match=f"{field} {code} is beyond int8"):
        avro.decode(single_object(ACCESS_CONTROL_ENTRY_SCHEMA, fields | {field: code}))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (AccessControlEntryRecord(ID, 128, "", 3, "", "", 1, 1), "resourceType 128 is beyond int8"),
        (AccessControlEntryRecord(ID, 2, "\ud800", 3, "", "", 1, 1), "cannot be written as UTF-8"),
        (AccessControlEntryRecord(Uuid(b"x" * 17), 2, "", 3, "", "", 1, 1), "id has 17 bytes, not 16"),
        (RemoveAccessControlEntryRecord(Uuid(b"")), "id has 0 bytes, not 16"),
    ],
)
def test_values_that_a_record_cannot_hold_are_encode_errors(record: AclRecord, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        avro.encode(record)


def test_schemas_of_other_records_are_refused() -> None:
    """A schema that no record of ours was written with is a mistake of the configuration."""
    with pytest.raises(ValueError, match="`Other` is not the schema of an ACL record"):
        AvroCodec(known=[{"type": "record", "name": "Other", "fields": []}])
    with pytest.raises(ValueError, match="not an Avro schema"):
        AvroCodec(known=[{"type": "record", "name": "AccessControlEntryRecord", "fields": [{"name": "x"}]}])
