"""Requests of Kafka's protocol, sent to any server as bytes, and the answers."""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from typing import Any, Final

from kio.serial import entity_writer
from kio.static.constants import EntityType

from authorizer.admin_server.request import schema_of
from authorizer.admin_server.versioned_entity import entity_builder
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from support.nodes import SOON_S

CORRELATION_ID: Final = 7


def request_frame(
    name: str, version: int, values: Mapping[str, Any], *, claimed_version: int | None = None
) -> bytes:
    """A request of kio's schemas; `claimed_version`: in the header, in place of the real one."""
    schema = schema_of(name, version, EntityType.request)
    header = schema.__header_schema__
    out = io.BytesIO()
    entity_writer(header)(
        out,
        header(
            request_api_key=schema.__api_key__,
            request_api_version=version if claimed_version is None else claimed_version,
            correlation_id=CORRELATION_ID,
            client_id="test",
        ),
    )
    entity_writer(schema)(out, entity_builder(schema)(values))
    return out.getvalue()


def ask(address: str, frame: bytes) -> bytes | None:
    """The answer to a frame on a connection of its own; None: the server closed it."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), SOON_S) as opened, opened.makefile("rb") as file:
        opened.sendall(len(frame).to_bytes(4, "big") + frame)
        try:
            size = file.read(4)
        except ConnectionError:
            return None
        return file.read(int.from_bytes(size, "big")) if size else None


def decoded(name: str, version: int, answer: bytes | None) -> Any:
    """The entity of an answer; None if there was none."""
    if answer is None:
        return None
    schema = schema_of(name, version, EntityType.response)
    reader = MessageReader(answer)
    header = entity_reader(schema.__header_schema__)(reader)
    assert header.correlation_id == CORRELATION_ID
    entity = entity_reader(schema)(reader)
    assert reader.at == len(answer)
    return entity
