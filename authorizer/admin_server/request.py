"""AdminRequest: one request of Kafka's protocol, and the session that it belongs to."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import msgspec
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

from authorizer.admin_server.message_schema import message_schema
from authorizer.api.authorizer_api import RequestContext, SecurityProtocol
from records.errors import DecodeError
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader

if TYPE_CHECKING:
    from authorizer.admin_server.sasl.session import SaslSession
    from authorizer.listeners.listener import Listener
    from records.principal import KafkaPrincipal

_HEADER_START_BYTES: Final = 8


class UnsupportedRequestError(Exception):
    """A request that this server does not serve; the message says which."""


class Forwarder(msgspec.Struct, frozen=True):
    """The sender of an Envelope, whose principal is not that of the embedded request (KIP-590)."""

    principal: KafkaPrincipal
    address: str


class Session(msgspec.Struct, kw_only=True):
    """What is known of a connection.

    Attributes:
        is_of_controllers: controller.listener.names has the listener.
        sasl: states of the authentication; None on a listener without SASL.
        forwarder: who forwarded the request; None for the client's own connection.
    """

    listener: Listener
    security_protocol: SecurityProtocol
    is_of_controllers: bool
    address: str
    principal: KafkaPrincipal
    software: str = ""
    client_id: str = ""
    sasl: SaslSession | None = None
    forwarder: Forwarder | None = None


class RequestHeader(msgspec.Struct, frozen=True, gc=False):
    """The first fields of every request (RequestHeader.json, versions 1 and 2)."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class AdminRequest(msgspec.Struct):
    """One request.

    Attributes:
        body: an entity of kio's schemas.
        remote_s: how long it waited for replay, as its handler measured.
        throttle_ms: for how long its connection is muted after the response, because of a quota.
    """

    header: RequestHeader
    body: Any
    session: Session
    remote_s: float = 0.0
    throttle_ms: int = 0

    @property
    def context(self) -> RequestContext:
        """The context in which the sender's rights are decided and audited (KIP-504)."""
        header, session = self.header, self.session
        return RequestContext(
            session.principal,
            session.address,
            session.listener.name,
            session.security_protocol,
            header.api_key,
            header.api_version,
            header.client_id,
            header.correlation_id,
        )


def schema_of(name: str, version: int, kind: EntityType) -> Any:
    """The class of a request or response: kio's, or one made from Kafka's definition."""
    if version not in schema_name_map[name]:
        return message_schema(f"{name.title().replace('_', '')}{kind.name.title()}", version)
    module, _, entity = schema_name_map[name][version][kind].partition(":")  # type: ignore[index]
    return getattr(import_module(module), entity)


def read_key(frame: bytes) -> tuple[int, int, int]:
    """API key, version and correlation id of a frame. Raises DecodeError: the frame is too short."""
    if len(frame) < _HEADER_START_BYTES:
        raise DecodeError(f"a request of {len(frame)} bytes has no header", position=0)
    reader = MessageReader(frame)
    return reader.signed(2, "api key"), reader.signed(2, "api version"), reader.signed(4, "correlation id")


def read_request(frame: bytes, name: str, version: int, session: Session) -> AdminRequest:
    """Decode a frame of a request in kio's schemas; bytes after the request are ignored, as in Kafka.

    Raises:
        DecodeError: it is not such a request.
    """
    schema = schema_of(name, version, EntityType.request)
    reader = MessageReader(frame)
    header = _header(reader, is_flexible=schema.__header_schema__.__flexible__)
    session.client_id = header.client_id
    body = entity_reader(schema)(reader)
    return AdminRequest(header, body, session)


def read_client_id(frame: bytes) -> str:
    """The client id of a request that may be unknown: it has the same place in each header."""
    return _header(MessageReader(frame), is_flexible=False).client_id


def _header(reader: MessageReader, *, is_flexible: bool) -> RequestHeader:
    """The client id has a length of two bytes in every version (RequestHeader.json)."""
    key, version = reader.signed(2, "api key"), reader.signed(2, "api version")
    correlation_id, size = reader.signed(4, "correlation id"), reader.signed(2, "client id")
    client_id = reader.take(size, "client id").decode("utf-8", "replace") if size > 0 else ""
    if is_flexible:
        reader.skip_tagged_fields()
    return RequestHeader(key, version, correlation_id, client_id)
