"""Api: a request that the server answers: its key, versions and handler; its answer, encoded."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import structlog
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from authorizer.admin_server.request import AdminRequest, schema_of
from authorizer.admin_server.sasl.session import SaslStateError
from authorizer.admin_server.values_encoder import Values, values_encoder
from authorizer.api.api_keys import api_key_name
from authorizer.api.errors import ApiError, AuthorizerNotReadyError
from records.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from authorizer.admin_server.request import Session


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """A response after its header, in parts that are encoded when the client has read those before.

    Attributes:
        memory: what the parts that are not encoded yet hold, in bytes.
        parts: encoded by a thread, one at a time.
    """

    size: int
    memory: int
    parts: Iterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One request of Kafka's protocol.

    Attributes:
        answer: returns the values of the response, or the response in parts.
        error: values of the response that has an error for everything that was requested.
        is_change: it changes something, so its answer is sent also when many others wait to be read.
        is_of_controllers: only controllers answer it, so only their listeners do.
        cost: how many requests it counts as for the quota of its principal.
    """

    key: int
    schema: str
    versions: range
    answer: Callable[[AdminRequest], Awaitable[Values | StreamedAnswer]]
    error: Callable[[Any, ErrorCode, str | None], Values]
    is_change: bool = False
    is_of_controllers: bool = False
    cost: Callable[[Any], int] = lambda _body: 1

    def is_served_to(self, session: Session) -> bool:
        """Whether the listener of a connection has this request."""
        return session.is_of_controllers or not self.is_of_controllers


log = structlog.get_logger(__name__)

#: Bytes of an answer that a client must read in time, before more are written.
PART_BYTES: Final = 64 * 1024


async def answer_values(api: Api, request: AdminRequest) -> Values | StreamedAnswer:
    """The values of the response, which may be an error.

    Raises:
        DecodeError: the request has values that are none of Kafka's.
        SaslStateError: close the connection.
    """
    code, message = ErrorCode.unknown_server_error, None
    try:
        return await api.answer(request)
    except (DecodeError, SaslStateError):
        raise
    except AuthorizerNotReadyError:
        pass  # no client knows AUTHORIZER_NOT_READY; brokers answer with the same code
    except ApiError as error:
        code = ErrorCode[error.code_name.lower()]
        # As Kafka: the reason of an unexpected error is not for clients.
        message = None if code is ErrorCode.unknown_server_error else str(error)
    except Exception:
        log.exception("admin_request_failed", request=api_key_name(api.key))
    return api.error(request.body, code, message)


async def answer(api: Api, request: AdminRequest) -> bytes | StreamedAnswer:
    """The encoded response with its header. Raises as ``answer_values``."""
    version, correlation_id = request.header.api_version, request.header.correlation_id
    values = await answer_values(api, request)
    try:
        return encode(api, version, correlation_id, values, request.throttle_ms)
    except Exception:
        log.exception("admin_request_failed", request=api_key_name(api.key))
    values = api.error(request.body, ErrorCode.unknown_server_error, None)
    return encode(api, version, correlation_id, values, request.throttle_ms)


def encode(
    api: Api, version: int, correlation_id: int, values: Values | StreamedAnswer, throttle_ms: int = 0
) -> bytes | StreamedAnswer:
    """A response with its header; a large streamed one in parts."""
    schema = schema_of(api.schema, version, EntityType.response)
    out = bytearray()
    values_encoder(schema.__header_schema__)(out, {"correlation_id": correlation_id})
    if isinstance(values, StreamedAnswer):
        parts = chain((bytes(out),), values.parts)
        size = len(out) + values.size
        # A small answer is encoded here: threads would take longer.
        return b"".join(parts) if size <= PART_BYTES else StreamedAnswer(size, values.memory, parts)
    # Values of most responses, as far as a version has them.
    defaults = {"throttle_time": dt.timedelta(milliseconds=throttle_ms), "error_code": ErrorCode.none}
    values_encoder(schema)(out, {**defaults, **values})
    return bytes(out)
