"""KRaft metadata frames: the encoding of metadata records in a cluster's log.

A frame is varint frame version (1), varint api key, varint record version, and the message in flexible
encoding (records.flexible). Source: AbstractApiMessageSerde, MetadataRecordSerde and the schemas inside
kafka-metadata-4.3.1.jar. Rules of this file:

- The two ACL records and the transaction markers (KIP-868) are known in version 0, their only one. Another
  version is an error, as skipping it could lose a DENY (I7).
- All others are ignored; records.codecs.kraft_cluster_records reads the names in some of them.
- Any bytes result in a record or a DecodeError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, assert_never

from records.codecs.kraft_cluster_records import read_other
from records.entries import (
    ABORT_TRANSACTION_API_KEY,
    ACCESS_CONTROL_ENTRY_API_KEY,
    BEGIN_TRANSACTION_API_KEY,
    END_TRANSACTION_API_KEY,
    FEATURE_LEVEL_API_KEY,
    METADATA_VERSION_FEATURE,
    REMOVE_ACCESS_CONTROL_ENTRY_API_KEY,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError, EncodeError, UnsupportedVersionError
from records.flexible import MessageReader, append_signed, append_string, append_uuid
from records.varint import append_unsigned_varint

FRAME_VERSION: Final = 1
#: Version of every record that is written or decoded here.
RECORD_VERSION: Final = 0

#: MetadataRecordType of Kafka 4.4: all API keys, also of records that are no longer written.
RECORD_TYPE_NAMES: Final[dict[int, str]] = {
    0: "REGISTER_BROKER_RECORD",
    1: "UNREGISTER_BROKER_RECORD",
    2: "TOPIC_RECORD",
    3: "PARTITION_RECORD",
    4: "CONFIG_RECORD",
    5: "PARTITION_CHANGE_RECORD",
    7: "FENCE_BROKER_RECORD",
    8: "UNFENCE_BROKER_RECORD",
    9: "REMOVE_TOPIC_RECORD",
    10: "DELEGATION_TOKEN_RECORD",
    11: "USER_SCRAM_CREDENTIAL_RECORD",
    12: "FEATURE_LEVEL_RECORD",
    14: "CLIENT_QUOTA_RECORD",
    15: "PRODUCER_IDS_RECORD",
    17: "BROKER_REGISTRATION_CHANGE_RECORD",
    18: "ACCESS_CONTROL_ENTRY_RECORD",
    19: "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    20: "NO_OP_RECORD",
    21: "ZK_MIGRATION_STATE_RECORD",
    22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    23: "BEGIN_TRANSACTION_RECORD",
    24: "END_TRANSACTION_RECORD",
    25: "ABORT_TRANSACTION_RECORD",
    26: "REMOVE_DELEGATION_TOKEN_RECORD",
    27: "REGISTER_CONTROLLER_RECORD",
    28: "CLEAR_ELR_RECORD",
    29: "UNREGISTER_CONTROLLER_RECORD",
}
UNKNOWN_TYPE_PREFIX: Final = "UNKNOWN_RECORD_TYPE_"

# Kafka stores API keys and versions in a short.
_CODE_MAX: Final = 0x7FFF
# Tag 0 of the begin and abort records: an optional text.
_DESCRIPTION_TAG: Final = 0


def record_type_name(api_key: int) -> str:
    """``ACCESS_CONTROL_ENTRY_RECORD``; ``UNKNOWN_RECORD_TYPE_<n>`` for API keys that Kafka 4.4 lacks."""
    return RECORD_TYPE_NAMES.get(api_key) or f"{UNKNOWN_TYPE_PREFIX}{api_key}"


def decode_frame(value: bytes | memoryview) -> MetadataRecord:
    """Decode a value of the metadata log.

    UnsupportedVersionError: a frame version other than 1, or a known record in a version other than 0.
    DecodeError: its ``position`` is within ``value``.
    """
    data = value if isinstance(value, bytes) else bytes(value)
    return decode_frame_at(data, 0, len(data))


def decode_frame_at(data: bytes, start: int, end: int) -> MetadataRecord:
    """Decode ``data[start:end]``; raises as `decode_frame`, with positions within ``data``."""
    reader = MessageReader(data[start:end], start)
    position = reader.position
    frame_version = reader.unsigned_varint()
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersionError(
            f"metadata frame version {frame_version}, only {FRAME_VERSION} is known", position=position
        )
    api_key = _code(reader, "record type")
    position = reader.position
    version = _code(reader, "record version")
    decoder = _DECODERS.get(api_key)
    if decoder is None:
        return read_other(reader, api_key, version)
    if version != RECORD_VERSION:
        raise UnsupportedVersionError(
            f"{record_type_name(api_key)} version {version}, only {RECORD_VERSION} is known",
            position=position,
        )
    record = decoder(reader)
    reader.finish()
    return record


def _code(reader: MessageReader, what: str) -> int:
    position = reader.position
    code = reader.unsigned_varint()
    if code > _CODE_MAX:
        raise DecodeError(f"{what} {code} is too large", position=position)
    return code


def _decode_acl(reader: MessageReader) -> AccessControlEntryRecord:
    record = AccessControlEntryRecord(
        reader.uuid("id"),
        reader.signed(1, "resource type"),
        reader.string("resource name"),
        reader.signed(1, "pattern type"),
        reader.string("principal"),
        reader.string("host"),
        reader.signed(1, "operation"),
        reader.signed(1, "permission type"),
    )
    reader.skip_tagged_fields()
    return record


def _decode_remove(reader: MessageReader) -> RemoveAccessControlEntryRecord:
    record = RemoveAccessControlEntryRecord(reader.uuid("id"))
    reader.skip_tagged_fields()
    return record


def _decode_begin(reader: MessageReader) -> BeginTransactionRecord:
    return BeginTransactionRecord(_description(reader, "transaction name"))


def _decode_end(reader: MessageReader) -> EndTransactionRecord:
    reader.skip_tagged_fields()
    return EndTransactionRecord()


def _decode_abort(reader: MessageReader) -> AbortTransactionRecord:
    return AbortTransactionRecord(_description(reader, "abort reason"))


def _description(reader: MessageReader, what: str) -> str | None:
    description = None
    for tag, field in reader.tagged_fields():
        if tag == _DESCRIPTION_TAG:
            description = field.nullable_string(what)
            field.finish()
    return description


_DECODERS: Final[dict[int, Callable[[MessageReader], MetadataRecord]]] = {
    ACCESS_CONTROL_ENTRY_API_KEY: _decode_acl,
    REMOVE_ACCESS_CONTROL_ENTRY_API_KEY: _decode_remove,
    BEGIN_TRANSACTION_API_KEY: _decode_begin,
    END_TRANSACTION_API_KEY: _decode_end,
    ABORT_TRANSACTION_API_KEY: _decode_abort,
}


def encode_frame(record: MetadataRecord) -> bytes:
    """Encode a record byte for byte as Kafka does.

    EncodeError: a record known by its header only, or a field that the format cannot hold.
    """
    match record:
        case AccessControlEntryRecord():
            out = _frame(ACCESS_CONTROL_ENTRY_API_KEY)
            append_uuid(out, record.id, "id")
            append_signed(out, record.resource_type, 1, "resource type")
            append_string(out, record.resource_name, "resource name")
            append_signed(out, record.pattern_type, 1, "pattern type")
            append_string(out, record.principal, "principal")
            append_string(out, record.host, "host")
            append_signed(out, record.operation, 1, "operation")
            append_signed(out, record.permission_type, 1, "permission type")
            out.append(0)
        case RemoveAccessControlEntryRecord():
            out = _frame(REMOVE_ACCESS_CONTROL_ENTRY_API_KEY)
            append_uuid(out, record.id, "id")
            out.append(0)
        case FeatureLevelRecord():
            out = _frame(FEATURE_LEVEL_API_KEY)
            append_string(out, record.name, "feature name")
            append_signed(out, record.level, 2, "feature level")
            out.append(0)
        case BeginTransactionRecord():
            out = _frame(BEGIN_TRANSACTION_API_KEY)
            _append_description(out, record.name, "transaction name")
        case EndTransactionRecord():
            out = _frame(END_TRANSACTION_API_KEY)
            out.append(0)
        case AbortTransactionRecord():
            out = _frame(ABORT_TRANSACTION_API_KEY)
            _append_description(out, record.reason, "abort reason")
        case BrokerRecord(version=0):
            out = _frame(record.api_key)
            _append_broker(out, record)
        case OtherRecord():
            raise EncodeError(
                f"{record_type_name(record.api_key)} is known by its header only and cannot be written"
            )
        case _:
            assert_never(record)
    return bytes(out)


def _frame(api_key: int) -> bytearray:
    return bytearray((FRAME_VERSION, api_key, RECORD_VERSION))


def _append_broker(out: bytearray, record: BrokerRecord) -> None:
    """A registration with only the levels of metadata.version, or an unregistration."""
    append_signed(out, record.broker_id, 4, "broker id")
    levels = record.levels
    if levels is not None:
        append_uuid(out, bytes(16), "incarnation id")
    append_signed(out, -1, 8, "broker epoch")
    if levels is not None:
        out += b"\x01\x02"  # no end points, one feature
        append_string(out, METADATA_VERSION_FEATURE, "feature name")
        append_signed(out, levels.lowest, 2, "lowest level")
        append_signed(out, levels.highest, 2, "highest level")
        out += b"\x00\x00\x00"  # no tagged fields, no rack, not fenced
    out.append(0)


def _append_description(out: bytearray, text: str | None, what: str) -> None:
    if text is None:
        out.append(0)
        return
    field = bytearray()
    append_string(field, text, what)
    out += bytes((1, _DESCRIPTION_TAG))
    append_unsigned_varint(out, len(field))
    out += field
