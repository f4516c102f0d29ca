"""Control records, against bytes and JSON that Kafka 4.3.1 made of the same messages."""

from __future__ import annotations

import json

import pytest

from records.control import (
    ControlType,
    decode_control_key,
    describe_control,
    encode_control_key,
    snapshot_footer_value,
    snapshot_header_timestamp_ms,
    snapshot_header_value,
)
from records.entries import ControlRecord
from records.errors import DecodeError, UnsupportedVersionError

DIRECTORY_ID = "4c35b6ac41924660a8c1666251102233"

WRITTEN = [
    (
        ControlType.LEADER_CHANGE,
        "000000000bb90300000bb90000000bba000200000bba0000",
        "LeaderChange",
        '{"version":0,"leaderId":3001,"voters":[{"voterId":3001},{"voterId":3002}],"grantingVoters":[{"voterId":3002}]}',
    ),
    (
        ControlType.LEADER_CHANGE,  # KIP-853
        f"000100000bb90300000bb9{DIRECTORY_ID}0000000bba{'00' * 17}0100",
        "LeaderChange",
        (
            '{"version":1,"leaderId":3001,"voters":'
            '[{"voterId":3001,"voterDirectoryId":"TDW2rEGSRmCowWZiURAiMw"},'
            '{"voterId":3002,"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"}],"grantingVoters":[]}'
        ),
    ),
    (ControlType.KRAFT_VERSION, "0000000100", "KRaftVersion", '{"version":0,"kRaftVersion":1}'),
    (
        ControlType.KRAFT_VOTERS,
        f"00000200000bb9{DIRECTORY_ID}020b434f4e54524f4c4c455208686f73742dc3a9ffff0000000001000000",
        "KRaftVoters",
        (
            '{"version":0,"voters":[{"voterId":3001,"voterDirectoryId":"TDW2rEGSRmCowWZiURAiMw",'
            '"endpoints":[{"name":"CONTROLLER","host":"host-é","port":65535}],'
            '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}'
        ),
    ),
    (
        ControlType.SNAPSHOT_HEADER,
        "0000000001a1fb9e0a2c00",
        "SnapshotHeader",
        '{"version":0,"lastContainedLogTimestamp":1795222800940}',
    ),
    (ControlType.SNAPSHOT_FOOTER, "000000", "SnapshotFooter", '{"version":0}'),
    (ControlType.COMMIT, "000000000007", "COMMIT", '{"version":0,"coordinatorEpoch":7}'),
    (ControlType.ABORT, "0000ffffffff", "ABORT", '{"version":0,"coordinatorEpoch":-1}'),
]
written = pytest.mark.parametrize(("control_type", "value", "name", "described"), WRITTEN)


@written
def test_described_as_kafka_does(control_type: ControlType, value: str, name: str, described: str) -> None:
    record = ControlRecord(control_type, 0, bytes.fromhex(value))
    assert describe_control(record) == (name, json.loads(described))


@written
def test_every_cut_and_every_addition_is_an_error(
    control_type: ControlType, value: str, name: str, described: str
) -> None:
    whole = bytes.fromhex(value)
    for size in range(len(whole)):
        with pytest.raises(DecodeError) as caught:
            describe_control(ControlRecord(control_type, 0, whole[:size]))
        assert caught.value.position is not None
    with pytest.raises(DecodeError, match="1 bytes are left over"):
        describe_control(ControlRecord(control_type, 0, whole + b"\x00"))


def test_tagged_fields_are_passed_over() -> None:
    tagged = ControlRecord(ControlType.KRAFT_VERSION, 0, bytes.fromhex("00000001" + "01" + "0902ffff"))
    assert describe_control(tagged) == ("KRaftVersion", {"version": 0, "kRaftVersion": 1})


@pytest.mark.parametrize("control_type", ControlType)
def test_later_versions_are_refused(control_type: ControlType) -> None:
    """What they hold is not known."""
    with pytest.raises(UnsupportedVersionError, match=r"version 2, only 0 to [01] are known"):
        describe_control(ControlRecord(control_type, 0, b"\x00\x02" + bytes(50)))


def test_types_of_a_later_kafka_have_a_number() -> None:
    assert describe_control(ControlRecord(7, 0, b"whatever")) == ("UNKNOWN(7)", {})


def test_snapshot_header_and_footer_are_written_as_kafka_does() -> None:
    header = snapshot_header_value(1795222800940)
    assert header.hex() == "0000000001a1fb9e0a2c00"
    assert (
        snapshot_header_timestamp_ms(ControlRecord(ControlType.SNAPSHOT_HEADER, 0, header)) == 1795222800940
    )
    assert snapshot_footer_value().hex() == "000000"
    with pytest.raises(DecodeError, match="expected a snapshot header, found SnapshotFooter"):
        snapshot_header_timestamp_ms(ControlRecord(ControlType.SNAPSHOT_FOOTER, 0, snapshot_footer_value()))


@pytest.mark.parametrize("control_type", ControlType)
def test_keys(control_type: ControlType) -> None:
    key = encode_control_key(control_type)
    assert key == bytes((0, 0, 0, control_type))
    assert decode_control_key(key) == (control_type, 0)


def test_a_later_key_may_be_longer() -> None:
    """ControlRecordType: new versions add at the end."""
    assert decode_control_key(b"\x00\x03\x00\x09more") == (9, 3)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (None, "a control record's key has 4 bytes, this one 0"),
        (b"", "a control record's key has 4 bytes, this one 0"),
        (b"\x00\x00\x00", "a control record's key has 4 bytes, this one 3"),
        (b"\xff\xff\x00\x00", "a control record's key has version -1"),
    ],
)
def test_other_keys_are_refused(key: bytes | None, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_control_key(key)
