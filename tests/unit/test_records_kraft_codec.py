"""KRaft frames, against bytes that Kafka 4.3.1's MetadataRecordSerde wrote."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from zipfile import ZipFile

import pytest

from records.codecs.json import to_json
from records.codecs.kraft import (
    RECORD_TYPE_NAMES,
    decode_frame,
    decode_frame_at,
    encode_frame,
    record_type_name,
)
from records.codecs.kraft_cluster_records import _READERS, IGNORED_VERSIONS, is_unread
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
    TopicRecord,
)
from records.errors import DecodeError, EncodeError, TruncatedRecordError, UnsupportedVersionError
from records.ids import Uuid, uuid_from_string
from support.kafka_jars import kafka_libs
from support.other_frames import other_frame
from support.strategies import OTHER_RECORDS

ID = uuid_from_string("TDW2rEGSRmCowWZiURAiMw")
ID_HEX = "4c35b6ac41924660a8c1666251102233"
ACL = AccessControlEntryRecord(ID, 2, "orders.é", 4, "User:alice", "*", 8, 3)
ACL_HEX = f"011200{ID_HEX}020a6f72646572732ec3a9040b557365723a616c696365022a080300"


@dataclass(frozen=True)
class Written:
    """A record, its frame and its data as kafka-dump-log prints it."""

    name: str
    record: MetadataRecord
    frame: str
    data: str


WRITTEN = [
    Written("begin", BeginTransactionRecord(), "01170000", "{}"),
    Written(
        "begin named",
        BeginTransactionRecord("Bootstrap é"),
        "01170001000d0d426f6f74737472617020c3a9",
        '{"name":"Bootstrap é"}',
    ),
    Written("begin empty name", BeginTransactionRecord(""), "01170001000101", '{"name":""}'),
    Written("end", EndTransactionRecord(), "01180000", "{}"),
    Written("abort", AbortTransactionRecord(), "01190000", "{}"),
    Written("abort why", AbortTransactionRecord("no"), "011900010003036e6f", '{"reason":"no"}'),
    Written(
        "feature",
        FeatureLevelRecord("metadata.version", 30),
        "010c00116d657461646174612e76657273696f6e001e00",
        '{"name":"metadata.version","featureLevel":30}',
    ),
    Written(
        "feature below zero",
        FeatureLevelRecord("x", -1),
        "010c000278ffff00",
        '{"name":"x","featureLevel":-1}',
    ),
    Written(
        "acl",
        ACL,
        ACL_HEX,
        '{"id":"TDW2rEGSRmCowWZiURAiMw","resourceType":2,"resourceName":"orders.é","patternType":4,'
        '"principal":"User:alice","host":"*","operation":8,"permissionType":3}',
    ),
    Written(
        "acl with codes at the ends of int8",
        AccessControlEntryRecord(ID, 2, "orders.é", 4, "User:alice", "*", -1, 127),
        f"011200{ID_HEX}020a6f72646572732ec3a9040b557365723a616c696365022aff7f00",
        '{"id":"TDW2rEGSRmCowWZiURAiMw","resourceType":2,"resourceName":"orders.é","patternType":4,'
        '"principal":"User:alice","host":"*","operation":-1,"permissionType":127}',
    ),
    Written(
        "acl with a long name and an empty host",
        AccessControlEntryRecord(ID, 0, "t" * 200, 0, 'User:p\x01"', "", 0, 0),
        f"011200{ID_HEX}00c901{'74' * 200}0009557365723a70012201000000",
        f'{{"id":"TDW2rEGSRmCowWZiURAiMw","resourceType":0,"resourceName":"{"t" * 200}","patternType":0,'
        '"principal":"User:p\\u0001\\"","host":"","operation":0,"permissionType":0}',
    ),
    Written(
        "remove",
        RemoveAccessControlEntryRecord(ID),
        f"011300{ID_HEX}00",
        '{"id":"TDW2rEGSRmCowWZiURAiMw"}',
    ),
]
written = pytest.mark.parametrize("case", WRITTEN, ids=lambda case: case.name)


@written
def test_frames_are_those_of_kafka(case: Written) -> None:
    """Decoding and encoding, byte for byte; the JSON is Kafka's as well."""
    frame = bytes.fromhex(case.frame)
    assert decode_frame(frame) == case.record
    assert decode_frame(memoryview(frame)) == case.record
    assert encode_frame(case.record) == frame
    assert to_json(case.record)["data"] == json.loads(case.data)


@written
def test_a_frame_is_read_where_it_lies(case: Written) -> None:
    """Neighbours do not matter, whatever they are."""
    frame = bytes.fromhex(case.frame)
    for before, after in (
        (b"", frame),
        (frame, b""),
        (b"\x01\x12\x00", b"\x80\x00"),
        (b"\xff" * 9, b"\xff" * 99),
    ):
        data = before + frame + after
        assert decode_frame_at(data, len(before), len(before) + len(frame)) == case.record


@written
def test_every_cut_is_an_error(case: Written) -> None:
    """A frame without its end is never another record, alone or with more bytes behind it."""
    frame = bytes.fromhex(case.frame)
    header = 3 if isinstance(case.record, FeatureLevelRecord) else len(frame)
    for size in range(header, len(frame)):  # passes by
        assert decode_frame(frame[:size]) == decode_frame_at(frame * 2, 0, size) == OtherRecord(12, 0)
    for size in range(header):
        with pytest.raises(DecodeError) as caught:
            decode_frame(frame[:size])
        assert caught.value.position is not None
        assert 0 <= caught.value.position <= size
        with pytest.raises(DecodeError):
            decode_frame_at(frame + frame, 0, size)


@written
def test_bytes_after_a_record_are_an_error(case: Written) -> None:
    frame = bytes.fromhex(case.frame)
    if isinstance(case.record, FeatureLevelRecord):  # passes by
        assert decode_frame(frame + b"\x00") == OtherRecord(12, 0)
        return
    with pytest.raises(DecodeError, match="1 bytes are left over") as caught:
        decode_frame(frame + b"\x00")
    assert caught.value.position == len(frame)


def test_unknown_tagged_fields_are_passed_over() -> None:
    """KIP-482: a later Kafka may tag fields on; Kafka 4.3.1 wrote tags 5 and 300 here."""
    frame = bytes.fromhex(f"011300{ID_HEX}020503010203ac0200")
    assert decode_frame(frame) == RemoveAccessControlEntryRecord(ID)
    tagged = bytes.fromhex(ACL_HEX[:-2] + "01" + "0702ffff")
    assert decode_frame(tagged) == ACL
    assert decode_frame(bytes.fromhex("01170002" + "00" + "0303" + b"x!".hex() + "0901ff")) == (
        BeginTransactionRecord("x!")
    )


def test_a_description_that_does_not_fill_its_field_is_an_error() -> None:
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        decode_frame(bytes.fromhex("01170001" + "00" + "0403" + b"x!?".hex()))
    with pytest.raises(DecodeError, match="transaction name needs 3 bytes, 1 are left"):
        decode_frame(bytes.fromhex("01170001" + "00" + "0204" + b"x".hex()))


def test_other_records_are_known_by_their_header() -> None:
    """A type and a version of a later Kafka, a header alone, and what should be a topic's."""
    topic = bytes.fromhex(f"0102000274{ID_HEX}00")
    assert decode_frame(topic + b"whatever") == OtherRecord(2, 0)
    assert decode_frame(b"\x01\x14\x00") == OtherRecord(20, 0)
    assert decode_frame(b"\x01\xff\xff\x01\xff\xff\x01?") == OtherRecord(0x7FFF, 0x7FFF)
    assert decode_frame(b"\x01\x82\x00\x05") == OtherRecord(2, 5)
    assert decode_frame(b"\x01\x0c\x01" + bytes(40)) == OtherRecord(12, 1)


def test_names_of_other_records_are_read() -> None:
    """A topic as Kafka wrote it, and the others; one that is cut short is known by its header."""
    assert decode_frame(bytes.fromhex(f"0102000274{ID_HEX}00")) == TopicRecord(2, 0, ID, "t")
    read = [record for record in OTHER_RECORDS if type(record) is not OtherRecord]
    for record in read:
        frame = other_frame(record)
        assert decode_frame(frame) == record
        assert decode_frame(frame[:5]) == OtherRecord(record.api_key, record.version)
        assert not is_unread(record)
    unread = {(record.api_key, record.version) for record in OTHER_RECORDS if is_unread(record)}
    assert unread == {(3, 3), (99, 1), (2, 0)}


def test_each_record_is_known_up_to_the_version_that_kafka_has() -> None:
    """Every type of 4.4.0, by the schemas in its jar."""
    (jar,) = kafka_libs("4.4.0").glob("kafka-metadata-*.jar")
    known = {api_key: version for api_key, (_, version) in _READERS.items()} | IGNORED_VERSIONS
    known |= dict.fromkeys((18, 19, 23, 24, 25), 0)
    with ZipFile(jar) as files:
        texts = [files.read(name).decode() for name in files.namelist() if name.endswith("Record.json")]
    assert {field(text, "name") for text in texts} >= {"TopicRecord", "UnregisterControllerRecord"}
    assert known == {int(field(text, "apiKey")): int(field(text, "validVersions")[-1]) for text in texts}
    names = {
        int(field(text, "apiKey")): re.sub("(?<=[a-z])(?=[A-Z])", "_", field(text, "name")) for text in texts
    }
    assert {api_key: name.upper() for api_key, name in names.items()} == RECORD_TYPE_NAMES


def field(schema: str, name: str) -> str:
    """The first field of this name; the file is JSON with comments."""
    found = re.search(rf'^  "{name}": "?([^",]+)', schema, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("api_key", [18, 19, 23, 24, 25])
def test_other_versions_of_acl_and_feature_records_are_refused(api_key: int) -> None:
    """I7: to pass over a version 1 of these could drop a DENY."""
    with pytest.raises(UnsupportedVersionError, match=f"{record_type_name(api_key)} version 1") as caught:
        decode_frame(bytes((1, api_key, 1)) + bytes(40))
    assert caught.value.position == 2


def test_other_frame_versions_are_refused() -> None:
    for version in (0, 2, 127):
        with pytest.raises(UnsupportedVersionError, match=f"frame version {version}") as caught:
            decode_frame_at(b"..." + bytes((version, 2, 0, 0)), 3, 7)
        assert caught.value.position == 3


@pytest.mark.parametrize(
    ("frame", "reason", "position"),
    [
        ("", "the input ends inside a varint", 0),
        ("01", "the input ends inside a varint", 1),
        ("0112", "the input ends inside a varint", 2),
        ("01ffff0300", "record type 65535 is too large", 1),
        ("0102ffff03", "record version 65535 is too large", 2),
        (f"011200{ID_HEX[:-2]}", "id needs 16 bytes, 15 are left", 3),
        (f"011200{ID_HEX}0200", "resource name must not be null", 20),
        (f"011200{ID_HEX}020361", "resource name needs 2 bytes, 1 are left", 21),
        (f"011200{ID_HEX}020461ff62", "resource name is not UTF-8", 22),
        (f"011200{ID_HEX}020761eda080628003", "resource name is not UTF-8", 22),
        (f"011200{ID_HEX}028180027878", "resource name has 32768 bytes, more than 32767", 20),
        (f"011200{ID_HEX}02026104", "the input ends inside a varint", 23),
        (f"{ACL_HEX[:-2]}0100", "the input ends inside a varint", 48),
        (f"{ACL_HEX[:-2]}01000500", "tagged field 0 needs 5 bytes, 1 are left", 49),
    ],
)
def test_an_error_says_what_and_where(frame: str, reason: str, position: int) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_frame(bytes.fromhex(frame))
    assert (caught.value.reason, caught.value.position) == (reason, position)
    with pytest.raises(DecodeError) as caught:
        decode_frame_at(b"??" + bytes.fromhex(frame) + b"?", 2, 2 + len(frame) // 2)
    assert (caught.value.reason, caught.value.position) == (reason, position + 2)


def test_a_short_input_is_a_truncated_record() -> None:
    with pytest.raises(TruncatedRecordError):
        decode_frame(bytes.fromhex(ACL_HEX)[:-1])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (OtherRecord(2, 0), "TOPIC_RECORD is known by its header only"),
        (
            AccessControlEntryRecord(ID, 128, "", 3, "", "", 1, 1),
            "resource type 128 does not fit into 1 bytes",
        ),
        (AccessControlEntryRecord(ID, 2, "", 3, "", "", 1, -129), "permission type -129 does not fit"),
        (AccessControlEntryRecord(ID, 2, "é" * 16384, 3, "", "", 1, 1), "resource name has 32768 bytes"),
        (AccessControlEntryRecord(ID, 2, "", 3, "\ud800", "", 1, 1), "principal cannot be written as UTF-8"),
        (AccessControlEntryRecord(Uuid(b"short"), 2, "", 3, "", "", 1, 1), "id has 5 bytes, not 16"),
        (RemoveAccessControlEntryRecord(Uuid(b"")), "id has 0 bytes, not 16"),
        (FeatureLevelRecord("x", 32768), "feature level 32768 does not fit into 2 bytes"),
    ],
)
def test_values_that_the_format_cannot_hold_are_encode_errors(record: MetadataRecord, message: str) -> None:
    with pytest.raises(EncodeError, match=message):
        encode_frame(record)


def test_the_longest_string_is_written_and_read() -> None:
    record = AccessControlEntryRecord(ID, 2, "x" * 32767, 3, "User:a", "*", 1, 1)
    assert decode_frame(encode_frame(record)) == record


def test_names_of_types() -> None:
    assert record_type_name(18) == "ACCESS_CONTROL_ENTRY_RECORD"
    assert record_type_name(21) == "ZK_MIGRATION_STATE_RECORD"
    assert record_type_name(6) == "UNKNOWN_RECORD_TYPE_6"
    assert record_type_name(999) == "UNKNOWN_RECORD_TYPE_999"
