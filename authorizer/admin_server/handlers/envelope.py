"""Envelope: a request that a broker forwards for its client (KIP-590), as a controller answers it.

As in Kafka only controllers' listeners have it, and the sender needs ClusterAction. The embedded request is
decided with the client's principal and address. One that cannot be read is UNSUPPORTED_VERSION, and one that
Kafka does not forward INVALID_REQUEST.

Source: ControllerApis.handleEnvelopeRequest, EnvelopeUtils, DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from kio.schema.default_principal_data.v0 import DefaultPrincipalData
from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from authorizer.admin_server.api import Api, StreamedAnswer, answer_values, encode
from authorizer.admin_server.request import Forwarder, read_client_id, read_key, read_request
from authorizer.api.ip_address import host_address
from records.acl import AclOperation
from records.errors import DecodeError
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from authorizer.admin_server.handlers.cluster_node import ClusterNode
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values

#: Requests that Kafka 4.4 has and does not forward: without ApiKeys.forwardable and what 4.0 removed.
_NOT_FORWARDED: Final = frozenset(range(95)) - {
    *range(4, 8), 19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81, 94,
}  # fmt: skip
_ADDRESS_BYTES: Final = (4, 16)


class EnvelopeHandler:
    """Answers for one node; ``api``: of this request."""

    def __init__(self, cluster: ClusterNode, forwarded: Iterable[Api]) -> None:
        """``forwarded``: the requests that may be embedded."""
        self._cluster = cluster
        self._forwarded = {api.key: api for api in forwarded}
        self.api = Api(
            key=58,
            schema="envelope",
            versions=range(1),
            answer=self.answer,
            error=self.error,
            is_change=True,
            is_of_controllers=True,
        )

    async def answer(self, request: AdminRequest) -> Values:
        self._cluster.require_on_cluster(request, AclOperation.CLUSTER_ACTION)
        body, session = request.body, request.session
        try:
            principal = _principal(body.request_principal)
        except DecodeError:
            return _values(ErrorCode.principal_deserialization_failure)
        if len(body.client_host_address) not in _ADDRESS_BYTES:
            return _values(ErrorCode.invalid_request)
        client = replace(
            session,
            principal=principal,
            address=host_address(str(ip_address(body.client_host_address))),
            forwarder=Forwarder(session.principal, session.address),
        )
        try:
            key, version, correlation_id = read_key(body.request_data)
            read_client_id(body.request_data)
            if key in _NOT_FORWARDED:
                return _values(ErrorCode.invalid_request)
            api = self._forwarded.get(key)
            if api is None or version not in api.versions:
                return _values(ErrorCode.unsupported_version)
            embedded = read_request(body.request_data, api.schema, version, client)
            answered = await answer_values(api, embedded)
        except DecodeError:
            return _values(ErrorCode.unsupported_version)
        request.remote_s = embedded.remote_s
        if _is_not_controller(answered):
            return _values(ErrorCode.not_controller)
        return _values(ErrorCode.none, encode(api, version, correlation_id, answered))

    def error(self, _body: Any, code: ErrorCode, _message: str | None) -> Values:
        return _values(code)


def _values(code: ErrorCode, response: bytes | StreamedAnswer | None = None) -> Values:
    return {"error_code": code, "response_data": response}


def _principal(serialized: bytes | None) -> KafkaPrincipal:
    """Raises DecodeError unless it is one of DefaultKafkaPrincipalBuilder, version 0."""
    reader = MessageReader(serialized or b"")
    if reader.signed(2, "principal version") != 0:
        raise DecodeError("the principal has an unknown version", position=0)
    found = entity_reader(DefaultPrincipalData)(reader)
    return KafkaPrincipal(found.type_, found.name)


def _is_not_controller(answered: Values | StreamedAnswer) -> bool:
    """Whether an item has NOT_CONTROLLER, which is then the code of the envelope."""
    if isinstance(answered, StreamedAnswer):
        return False
    items = [*answered.get("results", ()), *answered.get("filter_results", ())]
    return any(each["error_code"] == ErrorCode.not_controller for each in items)
