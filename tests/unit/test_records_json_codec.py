"""kafka-dump-log's JSON: accepted and refused lines, and their errors."""

from __future__ import annotations

import json
from typing import Any

import pytest

from records.codecs.json import dumps, from_json, loads, to_json
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
    ScramCredentialRecord,
    TopicRecord,
)
from records.errors import DecodeError, UnsupportedVersionError
from records.ids import uuid_from_string, uuid_to_string

ID_TEXT = "-0zOiV-Hamp2CQqG-_5gNg"
ID = uuid_from_string(ID_TEXT)
ACL_DATA: dict[str, Any] = {
    "id": ID_TEXT,
    "resourceType": 2,
    "resourceName": "本日",
    "patternType": 3,
    "principal": "User:a;b",
    "host": "*",
    "operation": -13,
    "permissionType": 3,
}
ACL = AccessControlEntryRecord(ID, 2, "本日", 3, "User:a;b", "*", -13, 3)


def payload(record_type: str, data: object, version: object = 0) -> dict[str, Any]:
    return {"type": record_type, "version": version, "data": data}


ACL_PAYLOAD = payload("ACCESS_CONTROL_ENTRY_RECORD", ACL_DATA)

SAME = [
    (ACL, ACL_PAYLOAD),
    (RemoveAccessControlEntryRecord(ID), payload("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": ID_TEXT})),
    (FeatureLevelRecord("x", -1), payload("FEATURE_LEVEL_RECORD", {"name": "x", "featureLevel": -1})),
    (BeginTransactionRecord("x"), payload("BEGIN_TRANSACTION_RECORD", {"name": "x"})),
    (BeginTransactionRecord(), payload("BEGIN_TRANSACTION_RECORD", {})),
    (EndTransactionRecord(), payload("END_TRANSACTION_RECORD", {})),
    (AbortTransactionRecord("x"), payload("ABORT_TRANSACTION_RECORD", {"reason": "x"})),
    (AbortTransactionRecord(), payload("ABORT_TRANSACTION_RECORD", {})),
    (OtherRecord(2, 0), {"type": "TOPIC_RECORD", "version": 0}),
    (OtherRecord(999, 7), {"type": "UNKNOWN_RECORD_TYPE_999", "version": 7}),
]


@pytest.mark.parametrize(("record", "expected"), SAME, ids=lambda value: type(value).__name__)
def test_records_and_payloads(record: MetadataRecord, expected: dict[str, Any]) -> None:
    """Both ways, as objects and as lines."""
    assert to_json(record) == expected
    assert list(to_json(record)) == list(expected)
    assert from_json(expected) == record
    assert json.loads(dumps(record)) == expected
    assert loads(dumps(record)) == record
    assert loads(json.dumps(expected).encode()) == record


def test_a_line_is_as_kafka_prints_it() -> None:
    assert dumps(RemoveAccessControlEntryRecord(ID)) == (
        '{"type":"REMOVE_ACCESS_CONTROL_ENTRY_RECORD","version":0,"data":{"id":"-0zOiV-Hamp2CQqG-_5gNg"}}'
    )


def test_keys_that_say_where_a_record_was_are_passed_over() -> None:
    """Lines of dump.jsonl have ``file``, ``offset`` and ``timestamp``; oracle cases have ``batch``."""
    placed = {"file": "0.log", "offset": 7, "timestamp": 1, "batch": 0, **ACL_PAYLOAD}
    assert from_json(placed) == ACL


def test_the_data_of_other_records_is_passed_over() -> None:
    assert from_json(payload("PARTITION_RECORD", {"topicId": "?"})) == OtherRecord(3, 0)
    assert from_json(payload("TOPIC_RECORD", {"name": "t"})) == OtherRecord(2, 0)
    assert from_json(payload("TOPIC_RECORD", 1, version=3)) == OtherRecord(2, 3)
    assert from_json(payload("FEATURE_LEVEL_RECORD", {}, version=1)) == OtherRecord(12, 1)


def test_names_of_other_records_are_read() -> None:
    """As of their frames; a credential's secrets are passed over."""
    topic_id = uuid_to_string(ID)
    for record_type, data, record in (
        ("TOPIC_RECORD", {"name": "t", "topicId": topic_id}, TopicRecord(2, 0, ID, "t")),
        ("REMOVE_TOPIC_RECORD", {"topicId": topic_id}, TopicRecord(9, 0, ID, None)),
        (
            "USER_SCRAM_CREDENTIAL_RECORD",
            {"name": "u", "mechanism": 1, "salt": "c2FsdA==", "storedKey": "", "serverKey": ""},
            ScramCredentialRecord(11, 0, "u", 1),
        ),
        (
            "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
            {"name": "u", "mechanism": 2},
            ScramCredentialRecord(22, 0, "u", 2),
        ),
        (
            "DELEGATION_TOKEN_RECORD",
            {"owner": "User:o", "requester": "User:r", "tokenId": "x"},
            DelegationTokenRecord(10, 0, "x", "User:o"),
        ),
        ("REMOVE_DELEGATION_TOKEN_RECORD", {"tokenId": "x"}, DelegationTokenRecord(26, 0, "x", None)),
    ):
        assert from_json(payload(record_type, data)) == record


def test_null_is_no_description() -> None:
    assert from_json(payload("BEGIN_TRANSACTION_RECORD", {"name": None})) == BeginTransactionRecord()


@pytest.mark.parametrize("field", list(ACL_DATA))
def test_every_field_of_an_acl_must_be_there(field: str) -> None:
    data = {name: value for name, value in ACL_DATA.items() if name != field}
    with pytest.raises(DecodeError, match=f"^{field} is missing$"):
        from_json(payload("ACCESS_CONTROL_ENTRY_RECORD", data))


@pytest.mark.parametrize("field", ["resourceType", "patternType", "operation", "permissionType"])
@pytest.mark.parametrize("value", [128, -129, 3.0, "3", None, True, [3], 10**400])
def test_codes_are_int8(field: str, value: object) -> None:
    """Kafka would cut 259 down to 3; a code that cannot be is an error here."""
    with pytest.raises(DecodeError, match=f"^{field} must be an integer from -128 to 127, not "):
        from_json(payload("ACCESS_CONTROL_ENTRY_RECORD", ACL_DATA | {field: value}))


@pytest.mark.parametrize("field", ["id", "resourceName", "principal", "host"])
@pytest.mark.parametrize("value", [3, None, True, ["a"], {"a": 1}])
def test_texts_are_texts(field: str, value: object) -> None:
    with pytest.raises(DecodeError, match=f"^{field} must be text, not "):
        from_json(payload("ACCESS_CONTROL_ENTRY_RECORD", ACL_DATA | {field: value}))


@pytest.mark.parametrize(
    "text", ["", "short", ID_TEXT + "A", ID_TEXT[:-1] + "é", ID_TEXT[:-1] + "+", "=" * 22]
)
def test_ids_are_kafkas(text: str) -> None:
    with pytest.raises(DecodeError, match="is not a Kafka id"):
        from_json(payload("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", {"id": text}))


def test_half_of_a_surrogate_pair_is_refused() -> None:
    """Python's json module lets it in; no log could hold it."""
    with pytest.raises(DecodeError, match=r"^principal holds half of a surrogate pair at character 5$"):
        from_json(payload("ACCESS_CONTROL_ENTRY_RECORD", ACL_DATA | {"principal": "User:\ud800"}))


def test_an_unknown_field_is_refused() -> None:
    """It may be a misspelt name of another field."""
    with pytest.raises(DecodeError, match=r"^ACCESS_CONTROL_ENTRY_RECORD has no field 'principle'$"):
        from_json(payload("ACCESS_CONTROL_ENTRY_RECORD", ACL_DATA | {"principle": "User:x"}))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("{}{}", "not JSON"),
        (b'{"type": "\xff"}', "not JSON"),
        ('{"type": "\ud800"}', "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("1" * 5000, "not JSON"),
        ("null", "expected a JSON object, found None"),
        ("[]", "expected a JSON object, found a list"),
        ("{}", "type is missing"),
        ('{"type": "TOPIC_RECORD"}', "version is missing"),
        ('{"type": "TOPIC_RECORD", "version": -1}', "version must be an integer from 0 to 32767, not -1"),
        ('{"type": "TOPIC_RECORD", "version": 32768}', "version must be an integer from 0 to 32767"),
        ('{"type": "TOPIC_RECORD", "version": "0"}', "version must be an integer from 0 to 32767, not '0'"),
        ('{"type": "topic_record", "version": 0}', "type 'topic_record' is not one of Kafka's"),
        ('{"type": 18, "version": 0}', "type 18 is not one of Kafka's"),
        ('{"type": "UNKNOWN_RECORD_TYPE_x", "version": 0}', "is not one of Kafka's"),
        ('{"type": "UNKNOWN_RECORD_TYPE_99999", "version": 0}', "is not one of Kafka's"),
        ('{"type": "UNKNOWN_RECORD_TYPE_٣", "version": 0}', "is not one of Kafka's"),
        ('{"type": "END_TRANSACTION_RECORD", "version": 0}', "data is missing"),
        (
            '{"type": "END_TRANSACTION_RECORD", "version": 0, "data": []}',
            "data must be an object, not a list",
        ),
        ('{"type": "END_TRANSACTION_RECORD", "version": 0, "data": {"x": 1}}', "has no field 'x'"),
        (
            '{"type": "FEATURE_LEVEL_RECORD", "version": 0, "data": {"name": "x", "featureLevel": 32768}}',
            "featureLevel must be an integer from -32768 to 32767, not 32768",
        ),
    ],
)
def test_an_invalid_record_is_a_decode_error(line: str | bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message) as caught:
        loads(line)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "record_type",
    ["ACCESS_CONTROL_ENTRY_RECORD", "ABORT_TRANSACTION_RECORD"],
)
def test_other_versions_of_acl_records_are_refused(record_type: str) -> None:
    """I7, as in the log itself."""
    with pytest.raises(UnsupportedVersionError, match=f"{record_type} version 1"):
        from_json(payload(record_type, {}, version=1))


def test_an_unknown_type_may_be_one_that_we_know_by_another_name() -> None:
    """UNKNOWN_RECORD_TYPE_18 is an ACL record, and is read as strictly."""
    assert from_json(ACL_PAYLOAD | {"type": "UNKNOWN_RECORD_TYPE_18"}) == ACL
