"""records.log.topic.codec: a record as key and value."""

from __future__ import annotations

import pytest

from records.codecs.avro import encode
from records.codecs.kraft import encode_frame
from records.entries import BeginTransactionRecord, FeatureLevelRecord, RemoveAccessControlEntryRecord
from records.errors import DecodeError, EncodeError
from records.ids import uuid_to_string
from records.log.topic.codec import decode_message, encode_messages
from support.sim_scenario import acl_named

ACL = acl_named("a")
OTHER = acl_named("b")
REMOVAL = RemoveAccessControlEntryRecord(ACL.id)
KEY = uuid_to_string(ACL.id).encode()


def test_an_acl_is_one_message() -> None:
    """Its key is the id as Kafka prints it."""
    assert encode_messages([ACL]) == [(KEY, encode(ACL))]


def test_a_removal_is_a_record_and_a_null_value() -> None:
    """Of the same key, in this order: compaction keeps the null value for a while, then nothing."""
    assert encode_messages([REMOVAL]) == [(KEY, encode(REMOVAL)), (KEY, None)]


def test_messages_are_read_back() -> None:
    """The null value says once more what the record before it said."""
    messages = encode_messages([ACL, REMOVAL])
    assert [decode_message(*message) for message in messages] == [ACL, REMOVAL, REMOVAL]


@pytest.mark.parametrize("key", [KEY, bytes(ACL.id), None])
def test_keys_of_other_writers(key: bytes | None) -> None:
    """Text, 16 bytes or none; values in KRaft frames."""
    assert decode_message(key, encode_frame(ACL)) == ACL
    assert decode_message(key, encode(ACL)) == ACL


def test_records_without_an_acl_may_have_any_key() -> None:
    """KRaft frames of other types come as the codec gives them."""
    for record in (FeatureLevelRecord("metadata.version", 7), BeginTransactionRecord("x")):
        assert decode_message(b"anything", encode_frame(record)) == record


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, None, "neither key nor value"),
        (b"short", None, "not a Kafka id"),
        (b"\xff" * 22, None, "not a Kafka id"),
        (KEY, b"", "neither Avro nor"),
        (KEY, b"{}", "neither Avro nor"),
        (KEY, encode(ACL)[:-1], "Avro"),
        (KEY, encode(OTHER), f"the key is {uuid_to_string(ACL.id)}, but the value is about"),
        (b"short", encode(ACL), "not a Kafka id"),
        (KEY, encode_frame(ACL)[:-2], "permission type needs 1 bytes"),
    ],
)
def test_an_undecodable_message_is_an_error(key: bytes | None, value: bytes | None, reason: str) -> None:
    """I7: an error that says what is wrong."""
    with pytest.raises(DecodeError, match=reason):
        decode_message(key, value)


def test_only_acls_are_written() -> None:
    """Compaction would not keep anything else."""
    with pytest.raises(EncodeError, match="FeatureLevelRecord"):
        encode_messages([ACL, FeatureLevelRecord("metadata.version", 7)])
