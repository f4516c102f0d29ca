"""Schemas that are made from Kafka's message definitions have the form of kio's."""

from __future__ import annotations

import zipfile
from dataclasses import asdict, fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from authorizer.admin_server import message_schema as module
from authorizer.admin_server.message_schema import message_schema
from authorizer.admin_server.request import schema_of
from authorizer.admin_server.values_encoder import values_encoder
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from support.kafka_jars import kafka_libs

KINDS = (EntityType.request, EntityType.response)
VALUES: dict[str, Any] = {
    "client_software_name": "test",
    "client_software_version": "1",
    "error_code": ErrorCode.unsupported_version,
    "throttle_time": timedelta(0),
    "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 5}],
    "supported_features": [{"name": "f", "min_version": 1, "max_version": 2}],
    "finalized_features_epoch": 7,
}


def form(schema: Any) -> Any:
    """Everything that readers and writers look at."""
    return (
        schema.__name__,
        schema.__type__,
        schema.__flexible__,
        schema.__api_key__,
        schema.__header_schema__,
        [(each.name, dict(each.metadata), each.default, _form_of_type(each.type)) for each in fields(schema)],
    )


def _form_of_type(type_: Any) -> Any:
    (nested,) = getattr(type_, "__args__", (None,))[:1]
    return form(nested) if hasattr(nested, "__api_key__") else type_


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", [3, 4])
def test_they_equal_kios_where_kio_has_the_version(kind: EntityType, version: int) -> None:
    made = message_schema(f"ApiVersions{kind.name.title()}", version)
    assert form(made) == form(schema_of("api_versions", version, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_version_that_kio_lacks_is_written_and_read(kind: EntityType) -> None:
    assert 5 not in schema_name_map["api_versions"], "kio has version 5 now: delete message_schema"
    schema = schema_of("api_versions", 5, kind)
    values = {**VALUES, "cluster_id": "c", "node_id": 3}
    out = bytearray()
    values_encoder(schema)(out, values)
    read = asdict(entity_reader(schema)(MessageReader(bytes(out))))
    assert {name: values[name] for name in read if name in values} == {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in read.items()
        if name in values
    }


@pytest.mark.parametrize("version", [-1, 6])
def test_an_invalid_version_is_refused(version: int) -> None:
    with pytest.raises(LookupError, match=f"ApiVersionsRequest has no version {version}"):
        message_schema("ApiVersionsRequest", version)


def test_a_message_without_a_definition_is_refused() -> None:
    with pytest.raises(LookupError, match="no definition of Fetch"):
        message_schema("Fetch", 1)


def test_the_definitions_are_kafkas() -> None:
    (clients,) = kafka_libs("4.4.0").glob("kafka-clients-*.jar")
    shipped = sorted((Path(module.__file__).parent / "messages").iterdir())
    assert shipped
    with zipfile.ZipFile(clients) as jar:
        for path in shipped:
            assert path.read_bytes() == jar.read(f"common/message/{path.name}")
