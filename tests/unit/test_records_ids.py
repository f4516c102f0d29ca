"""Kafka's ids as text, ids that aclog gives, and principals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.errors import DecodeError
from records.ids import METADATA_TOPIC_ID, Uuid, binding_uuid, uuid_from_string, uuid_to_string
from records.principal import KafkaPrincipal, parse_kafka_principal
from support.strategies import acl_bindings

BINDING = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
    AccessControlEntry("User:alice", "*", AclOperation.READ, AclPermissionType.ALLOW),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("AAAAAAAAAAAAAAAAAAAAAA", bytes(16)),
        ("AAAAAAAAAAAAAAAAAAAAAQ", bytes(15) + b"\x01"),
        ("TDW2rEGSRmCowWZiURAiMw", bytes.fromhex("4c35b6ac41924660a8c1666251102233")),
        ("-_-_-_-_-_-_-_-_-_-_-w", bytes.fromhex("fbffbffbffbffbffbffbffbffbffbffb")),
    ],
)
def test_ids_as_kafka_prints_them(text: str, value: bytes) -> None:
    assert uuid_to_string(value) == text
    assert uuid_from_string(text) == value


@given(st.binary(min_size=16, max_size=16))
def test_ids_roundtrip(value: bytes) -> None:
    text = uuid_to_string(value)
    assert len(text) == 22
    assert uuid_from_string(text) == value


def test_ids_with_a_meaning() -> None:
    assert uuid_to_string(Uuid(bytes(16))) == "A" * 22
    assert uuid_to_string(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "A" * 21,
        "A" * 23,
        "AAAAAAAAAAAAAAAAAAAAAQ==",
        "AAAAAAAAAAAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAA+Q",
        "AAAAAAAAAAAAAAAAAAAA/Q",
        " AAAAAAAAAAAAAAAAAAAAQ",
        "AAAAAAAAAAAAAAAAAAAAA\n",
        "AAAAAAAAAAAAAAAAAAAAAé",
        "00000000-0000-0000-0000-000000000001",
    ],
)
def test_other_texts_are_no_ids(text: str) -> None:
    with pytest.raises(DecodeError, match="is not a Kafka id"):
        uuid_from_string(text)


@given(st.text(max_size=30))
def test_any_text_is_an_id_or_a_decode_error(text: str) -> None:
    try:
        assert len(uuid_from_string(text)) == 16
    except DecodeError as error:
        assert len(str(error)) < 200  # noqa: PT017 - any other exception ends the test


def test_the_id_of_a_binding_never_changes() -> None:
    """Pinned: writers of different versions must agree, or an ACL would be in force twice."""
    assert uuid_to_string(binding_uuid(BINDING)) == "1W1GjGs3UKG1E6QC4F1Nkw"
    assert binding_uuid(BINDING)[6] >> 4 == 5  # version
    assert binding_uuid(BINDING)[8] >> 6 == 2  # variant


@given(acl_bindings(), acl_bindings())
def test_equal_bindings_have_equal_ids_and_others_others(first: AclBinding, second: AclBinding) -> None:
    assert (binding_uuid(first) == binding_uuid(second)) == (first == second)


def test_no_separator_in_a_name_makes_two_bindings_one() -> None:
    """Names, principals and hosts may hold anything, lengths and colons among it."""
    first = replace(BINDING, entry=replace(BINDING.entry, principal="User:a1:*", host="x"))
    second = replace(BINDING, entry=replace(BINDING.entry, principal="User:a", host="1:*x"))
    assert binding_uuid(first) != binding_uuid(second)


@pytest.mark.parametrize(
    ("text", "principal"),
    [
        ("User:alice", KafkaPrincipal("User", "alice")),
        ("User:CN=a,OU=b:c", KafkaPrincipal("User", "CN=a,OU=b:c")),
        ("user:*", KafkaPrincipal("user", "*")),
        (":", KafkaPrincipal("", "")),
        ("User:", KafkaPrincipal("User", "")),
    ],
)
def test_principals_are_split_at_the_first_colon(text: str, principal: KafkaPrincipal) -> None:
    """SecurityUtils.parseKafkaPrincipal."""
    assert parse_kafka_principal(text) == principal
    assert str(principal) == text


@pytest.mark.parametrize("text", ["", "alice", "User alice"])
def test_a_principal_needs_a_colon(text: str) -> None:
    """The words are Kafka's."""
    with pytest.raises(
        ValueError, match=rf"^expected a string in format principalType:principalName but got {text}$"
    ):
        parse_kafka_principal(text)
