"""Frames of records that are neither ACLs nor transactions, with secrets in those that have some.

Written by hand from the schemas in kafka-metadata-4.4.0.jar: the product reads these records and writes none.
"""

from __future__ import annotations

from typing import Final

from records.entries import (
    METADATA_VERSION_FEATURE,
    BrokerRecord,
    DelegationTokenRecord,
    OtherRecord,
    ScramCredentialRecord,
    TopicRecord,
)
from records.flexible import append_signed, append_string, append_uuid
from records.varint import append_unsigned_varint

#: Of every credential: salt, stored key and server key.
SECRETS: Final = (
    b"salt-of-the-sea",
    b"a-stored-key-of-32-bytes-exactly",
    b"a-server-key-of-32-bytes-exactly",
)


def other_frame(record: OtherRecord) -> bytes:
    """The frame that a broker writes; for an unknown type, its header and an arbitrary body."""
    out = bytearray((1,))
    append_unsigned_varint(out, record.api_key)
    append_unsigned_varint(out, record.version)
    match record:
        case TopicRecord():
            if record.name is not None:
                append_string(out, record.name, "name")
            append_uuid(out, record.topic_id, "topic id")
        case ScramCredentialRecord():
            append_string(out, record.user, "user")
            append_signed(out, record.mechanism, 1, "mechanism")
            if not record.is_removal:
                for secret in SECRETS:
                    append_unsigned_varint(out, len(secret) + 1)
                    out += secret
                append_signed(out, 4096, 4, "iterations")
        case DelegationTokenRecord():
            if record.owner is not None:
                append_string(out, record.owner, "owner")
                append_string(out, "User:requester", "requester")
                append_unsigned_varint(out, 2)
                append_string(out, "User:renewer", "renewer")
                for _ in range(3):
                    append_signed(out, 1_790_000_000_000, 8, "timestamp")
            append_string(out, record.token_id, "token id")
        case BrokerRecord():
            append_signed(out, record.broker_id, 4, "broker id")
            if record.levels is None:
                append_signed(out, 7, 8, "broker epoch")
            else:
                out += b"\0" * (record.version > 1) + bytes(16 + 8)  # migrating, incarnation id, epoch
                out += b"\1\2"  # no end points, one feature
                append_string(out, METADATA_VERSION_FEATURE, "feature")
                append_signed(out, record.levels.lowest, 2, "lowest")
                append_signed(out, record.levels.highest, 2, "highest")
                out += b"\0\0\1"  # of the feature, no rack, fenced
        case _:
            return bytes(out) + b"\0 body of another record"
    out.append(0)
    return bytes(out)
