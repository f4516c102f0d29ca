"""Every request and response of Kafka's protocol that kio writes is read back as it was."""

from __future__ import annotations

import datetime as dt
import importlib
import pkgutil
from contextlib import suppress
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any

import kio.schema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.create_acls.v3.response import AclCreationResult
from kio.schema.describe_cluster.v1.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.fetch_snapshot.v1.response import PartitionSnapshot

from records.errors import DecodeError
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from support.kio_entities import instances, written


@cache
def entities() -> list[type[Any]]:
    """Each version of each request, response and header."""
    found = [
        each
        for module in pkgutil.walk_packages(kio.schema.__path__, "kio.schema.")
        if module.name.rpartition(".")[2] in ("request", "response", "header")
        for each in vars(importlib.import_module(module.name)).values()
        if isinstance(each, type) and is_dataclass(each) and each.__module__ == module.name
    ]
    return sorted(found, key=lambda entity: (entity.__module__, entity.__name__))


@given(data=st.data())
@settings(max_examples=400, deadline=None)
def test_what_kio_writes_is_read_back(data: st.DataObject) -> None:
    entity = data.draw(st.sampled_from(entities()).flatmap(instances))
    reader = MessageReader(written(entity))
    assert entity_reader(type(entity))(reader) == entity
    reader.finish()


def test_every_entity_has_a_reader() -> None:
    assert len(entities()) > 1_000
    for entity in entities():
        assert callable(entity_reader(entity))


@given(data=st.binary(max_size=300), entity=st.deferred(lambda: st.sampled_from(entities())))
@settings(max_examples=1_000, deadline=None)
def test_any_bytes_are_an_entity_or_an_error(data: bytes, entity: type[Any]) -> None:
    with suppress(DecodeError):
        entity_reader(entity)(MessageReader(data))


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_a_shortened_entity_is_an_error(data: st.DataObject) -> None:
    entity = data.draw(st.sampled_from(entities()).flatmap(instances))
    whole = written(entity)
    if whole:
        end = data.draw(st.integers(0, len(whole) - 1))
        with pytest.raises(DecodeError):
            entity_reader(type(entity))(MessageReader(whole[:end]))


CLUSTER = DescribeClusterResponse(
    throttle_time=dt.timedelta(0),  # type: ignore[arg-type] # kio's own type is a timedelta
    error_code=ErrorCode.none,
    error_message=None,
    cluster_id="c",
    controller_id=1,  # type: ignore[arg-type]
    brokers=(),
)


@pytest.mark.parametrize("count", [1_000, 1 << 24, (1 << 32) - 2])
def test_an_array_reserves_no_memory_for_what_is_not_there(count: int) -> None:
    """An array may claim billions of elements."""
    claimed = bytearray()
    left = count + 1
    while left >= 0x80:
        claimed.append(left & 0x7F | 0x80)
        left >>= 7
    claimed.append(left)
    body = bytes(4) + bytes(2) + b"\0" + b"\1" + b"\2c" + bytes(4) + claimed
    with pytest.raises(DecodeError, match="0 are left"):
        entity_reader(DescribeClusterResponse)(MessageReader(body))


def test_unknown_tagged_fields_are_skipped() -> None:
    """A later release of Kafka may add one within a version (KIP-482)."""
    broker = DescribeClusterBroker(broker_id=1, host="h", port=9092, rack=None)  # type: ignore[arg-type]
    whole = written(replace(CLUSTER, brokers=(broker,)))
    assert whole.endswith(bytes(1))
    newer = whole[:-1] + b"\1\x07\3abc"
    assert entity_reader(DescribeClusterResponse)(MessageReader(newer)) == replace(CLUSTER, brokers=(broker,))


def test_an_unknown_error_code_remains_a_number() -> None:
    found = entity_reader(AclCreationResult)(MessageReader(b"\x03\xe7\0\0"))
    assert found.error_code == 999


def test_an_absent_tagged_entity_without_a_default_is_none() -> None:
    body = bytes(4) + bytes(2) + bytes(12) + b"\0" + bytes(16) + b"\1" + b"\0"
    assert entity_reader(PartitionSnapshot)(MessageReader(body)).current_leader is None


def test_a_null_where_none_is_allowed_is_an_error() -> None:
    body = bytes(4) + bytes(2) + b"\0" + b"\1" + b"\0"
    with pytest.raises(DecodeError, match="cluster_id must not be null"):
        entity_reader(DescribeClusterResponse)(MessageReader(body))
