"""Control records: information about the log itself, never about ACLs.

The key is int16 version and int16 type. The value is a flexible message (records.flexible) that begins with
its version, except at the end of a producer's transaction. Source: ControlRecordType, EndTransactionMarker,
and the schemas LeaderChangeMessage, SnapshotHeaderRecord, SnapshotFooterRecord, KRaftVersionRecord and
VotersRecord inside kafka-clients-4.3.1.jar.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

from records.entries import ControlRecord
from records.errors import DecodeError, UnsupportedVersionError
from records.flexible import MessageReader, append_signed
from records.ids import uuid_to_string

_KEY_VERSION: Final = 0
_KEY_BYTES: Final = 4


class ControlType(IntEnum):
    """ControlRecordType; a later Kafka may write others."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def decode_control_key(key: bytes | None) -> tuple[int, int]:
    """(type, version) of a control record. Raises DecodeError: not a control record's key."""
    if key is None or len(key) < _KEY_BYTES:
        raise DecodeError(f"a control record's key has {_KEY_BYTES} bytes, this one {len(key or b'')}")
    version = int.from_bytes(key[:2], "big", signed=True)
    # ControlRecordType.parseTypeId: a later version may extend the key, but not change its beginning.
    if version < 0:
        raise DecodeError(f"a control record's key has version {version}")
    return int.from_bytes(key[2:4], "big", signed=True), version


def encode_control_key(control_type: int) -> bytes:
    """The key of a control record; ``control_type`` may be unknown to `ControlType`."""
    return _KEY_VERSION.to_bytes(2, "big") + control_type.to_bytes(2, "big", signed=True)


def snapshot_header_value(last_contained_log_timestamp_ms: int) -> bytes:
    """Value of the first record of a .checkpoint file: the timestamp of the last record that it contains."""
    out = bytearray()
    append_signed(out, 0, 2, "version")
    append_signed(out, last_contained_log_timestamp_ms, 8, "timestamp")
    out.append(0)
    return bytes(out)


def snapshot_footer_value() -> bytes:
    """Value of the last record of a .checkpoint file; a file without it is incomplete."""
    return bytes(3)


def snapshot_header_timestamp_ms(record: ControlRecord) -> int:
    """The timestamp in a snapshot header. Raises DecodeError: not a snapshot header."""
    if record.type != ControlType.SNAPSHOT_HEADER:
        raise DecodeError(f"expected a snapshot header, found {describe_control(record)[0]}")
    return int(describe_control(record)[1]["lastContainedLogTimestamp"])


def describe_control(record: ControlRecord) -> tuple[str, dict[str, Any]]:
    """(name, value) as kafka-dump-log prints them; ``UNKNOWN(<type>)`` for types that Kafka 4.3 lacks.

    Differs from that tool in two points. It reads every LeaderChange as version 0, and so fails on those of a
    quorum with dynamic voters (KIP-853). It prints the end of a producer's transaction without braces.

    Raises:
        UnsupportedVersionError: a version that this build does not know.
        DecodeError: an invalid message; ``position`` is within the value.
    """
    described = _DESCRIBED.get(record.type)
    if described is None:
        return f"UNKNOWN({record.type})", {}
    name, version_max, read = described
    reader = MessageReader(record.value)
    version = reader.signed(2, "version")
    if not 0 <= version <= version_max:
        raise UnsupportedVersionError(
            f"{name} version {version}, only 0 to {version_max} are known", position=0
        )
    value = {"version": version, **read(reader, version)}
    reader.finish()
    return name, value


def _end_of_transaction(reader: MessageReader, _version: int) -> dict[str, Any]:
    return {"coordinatorEpoch": reader.signed(4, "coordinator epoch")}


def _leader_change(reader: MessageReader, version: int) -> dict[str, Any]:
    value = {
        "leaderId": reader.signed(4, "leader id"),
        "voters": [_leader_change_voter(reader, version) for _ in reader.array("voters")],
        "grantingVoters": [_leader_change_voter(reader, version) for _ in reader.array("granting voters")],
    }
    reader.skip_tagged_fields()
    return value


def _leader_change_voter(reader: MessageReader, version: int) -> dict[str, Any]:
    voter: dict[str, Any] = {"voterId": reader.signed(4, "voter id")}
    if version >= 1:
        voter["voterDirectoryId"] = uuid_to_string(reader.uuid("voter directory id"))
    reader.skip_tagged_fields()
    return voter


def _snapshot_header(reader: MessageReader, _version: int) -> dict[str, Any]:
    value = {"lastContainedLogTimestamp": reader.signed(8, "last contained log timestamp")}
    reader.skip_tagged_fields()
    return value


def _snapshot_footer(reader: MessageReader, _version: int) -> dict[str, Any]:
    reader.skip_tagged_fields()
    return {}


def _kraft_version(reader: MessageReader, _version: int) -> dict[str, Any]:
    value = {"kRaftVersion": reader.signed(2, "kraft version")}
    reader.skip_tagged_fields()
    return value


def _kraft_voters(reader: MessageReader, _version: int) -> dict[str, Any]:
    value = {"voters": [_kraft_voter(reader) for _ in reader.array("voters")]}
    reader.skip_tagged_fields()
    return value


def _kraft_voter(reader: MessageReader) -> dict[str, Any]:
    voter: dict[str, Any] = {
        "voterId": reader.signed(4, "voter id"),
        "voterDirectoryId": uuid_to_string(reader.uuid("voter directory id")),
        "endpoints": [_endpoint(reader) for _ in reader.array("endpoints")],
        "kRaftVersionFeature": {
            "minSupportedVersion": reader.signed(2, "min supported version"),
            "maxSupportedVersion": reader.signed(2, "max supported version"),
        },
    }
    reader.skip_tagged_fields()  # of the version range
    reader.skip_tagged_fields()  # of the voter
    return voter


def _endpoint(reader: MessageReader) -> dict[str, Any]:
    endpoint = {
        "name": reader.string("endpoint name"),
        "host": reader.string("endpoint host"),
        "port": reader.uint16("endpoint port"),
    }
    reader.skip_tagged_fields()
    return endpoint


_Reader = Callable[[MessageReader, int], dict[str, Any]]

# Name in kafka-dump-log, highest version, and the reader of the value after its version.
_DESCRIBED: Final[dict[int, tuple[str, int, _Reader]]] = {
    ControlType.ABORT: ("ABORT", 0, _end_of_transaction),
    ControlType.COMMIT: ("COMMIT", 0, _end_of_transaction),
    ControlType.LEADER_CHANGE: ("LeaderChange", 1, _leader_change),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", 0, _snapshot_header),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", 0, _snapshot_footer),
    ControlType.KRAFT_VERSION: ("KRaftVersion", 0, _kraft_version),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", 0, _kraft_voters),
}
