"""Answers over Kafka's protocol, encoded from values: the bytes that kio's writer makes of objects."""

from __future__ import annotations

import struct
import uuid
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v9.response import MetadataResponseTopic
from kio.static.constants import EntityType

from authorizer.admin_server.request import schema_of
from authorizer.admin_server.values_encoder import values_encoder
from support.admin_sockets import admin_server
from support.kio_entities import instances, written
from support.nodes import running_node

METADATA: Final = [schema_of("metadata", version, EntityType.response) for version in range(14)]
TOPIC: Final[dict[str, Any]] = {"error_code": ErrorCode.none, "name": "t", "partitions": []}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The responses of all versions that are served, and their headers."""
    directory: Path = tmp_path_factory.mktemp("schemas") / "log"
    with running_node(directory, log_mode="create") as node, admin_server(node) as server:
        (listeners,) = server._listeners
        apis = list(listeners._apis.values())
    responses = [
        schema_of(api.schema, version, EntityType.response) for api in apis for version in api.versions
    ]
    assert len(responses) > 50
    # With numbers of another type; tests send it to brokers.
    quotas = schema_of("alter_client_quotas", 1, EntityType.request)
    return [*responses, *{each.__header_schema__ for each in responses}, quotas]


def values_of(value: Any, data: st.DataObject) -> Any:
    """The values of an entity, without some of those that are the default, and with unknown ones."""
    if isinstance(value, tuple):
        return [values_of(each, data) for each in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if not is_dataclass(value):
        return value
    values = {field.name: values_of(getattr(value, field.name), data) for field in fields(value)}
    for field in fields(value):
        is_default = field.default is not MISSING and getattr(value, field.name) == field.default
        if is_default and data.draw(st.booleans()):
            del values[field.name]
    return {**values, "of_a_later_version": 1}


@given(data=st.data())
def test_every_response_has_kios_bytes(schemas: list[Any], data: st.DataObject) -> None:
    entity = data.draw(st.sampled_from(schemas).flatmap(instances))
    out = bytearray(b"before")
    values_encoder(type(entity))(out, values_of(entity, data))
    assert out == b"before" + written(entity)


@given(data=st.data())
def test_metadata_of_any_topics_has_kios_bytes_in_every_version(data: st.DataObject) -> None:
    entity = data.draw(st.sampled_from(METADATA).flatmap(instances))
    out = bytearray()
    values_encoder(type(entity))(out, values_of(entity, data))
    assert out == written(entity)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": None}, AttributeError),
        ({"partitions": None}, TypeError),
        ({"topic_authorized_operations": 2**31}, struct.error),
        ({"topic_authorized_operations": None}, struct.error),
    ],
)
def test_a_value_that_its_type_cannot_hold_is_an_error(
    changed: dict[str, Any], error: type[Exception]
) -> None:
    encode = values_encoder(MetadataResponseTopic)
    encode(bytearray(), TOPIC)
    with pytest.raises(error):
        encode(bytearray(), {**TOPIC, **changed})


def test_a_missing_value_without_a_default_is_an_error() -> None:
    with pytest.raises(KeyError, match="name"):
        values_encoder(MetadataResponseTopic)(bytearray(), {"error_code": ErrorCode.none, "partitions": []})


@pytest.mark.parametrize("size", [0, 126, 127, 16_382, 16_383, 40_000])
def test_texts_of_any_size_have_kios_bytes(size: int) -> None:
    out = bytearray()
    values_encoder(MetadataResponseTopic)(out, {**TOPIC, "name": "n" * size})
    assert out == written(MetadataResponseTopic(**{**TOPIC, "name": "n" * size, "partitions": ()}))
