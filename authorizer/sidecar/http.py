"""Requests and responses of the sidecar, as values between ASGI and the handlers."""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from authorizer.sidecar.errors import ErrorCode, HttpError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_T = TypeVar("_T")

#: A request body beyond this is refused before it is read to its end: an evaluation takes some hundred
#: bytes, so this is room for ten thousand of them.
BODY_BYTES_MAX: Final = 4 * 1024 * 1024

#: An X-Request-ID is repeated in the answer: room for any tracing system's, not for a text.
REQUEST_ID_BYTES_MAX: Final = 256

#: Below it errors are as AuthZEN has them.
AUTHZEN_PATH: Final = "/access/v1/"

JSON: Final = b"application/json"
PROBLEM_JSON: Final = b"application/problem+json"


@dataclass(frozen=True, slots=True)
class Listener:
    """What a request's listener means for it; all of them are PLAINTEXT so far.

    Attributes:
        name: as configured.
        early_start: decides for super users before the node is ready (KIP-801).
        url: where it is, without a slash at the end.
        is_local: the socket in the log's directory, where everything is allowed (``local_socket``).
    """

    name: str
    early_start: bool
    url: str
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request, read whole.

    Attributes:
        query: what follows the ``?``, as it was sent.
        peer: the client's address as ACL hosts are written; empty when there is none.
        listener: where it came in.
    """

    method: str
    path: str
    query: bytes
    headers: Mapping[bytes, bytes]
    body: bytes
    peer: str
    listener: Listener


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP response."""

    status: HTTPStatus
    body: bytes
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = field(default=())


def json_response(value: object, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """``value`` as JSON."""
    return Response(status, msgspec.json.encode(value))


def error_response(error: HttpError, path: str) -> Response:
    """The answer for an HttpError, in the form that ``path`` has for errors."""
    headers = ((b"aclog-error", error.code.encode("ascii")), *error.headers)
    if path.startswith(AUTHZEN_PATH):
        return Response(error.code.status, msgspec.json.encode(error.message), headers=headers)
    return Response(error.code.status, msgspec.json.encode(error.problem()), PROBLEM_JSON, headers)


def decode_body(request: Request, kind: type[_T]) -> _T:
    """The request's JSON body as a value of ``kind``.

    Raises:
        HttpError: 400 with the field and what it should be.
    """
    try:
        return msgspec.json.decode(request.body, type=kind)
    except msgspec.ValidationError as error:
        raise HttpError(
            ErrorCode.INVALID_REQUEST, f"the body is not a request for {request.path}: {error}"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # RecursionError: arrays in arrays in arrays, even in a field that is not read.
        raise HttpError(ErrorCode.INVALID_JSON, f"the body is not JSON that can be read: {error}") from error


def request_id_of(headers: Mapping[bytes, bytes]) -> bytes | None:
    """X-Request-ID, which the answer repeats (AuthZEN 1.0, section 10.1.3).

    Raises:
        HttpError: 400, too long, or not printable ASCII; an answer without it would break that rule.
    """
    request_id = headers.get(b"x-request-id")
    if request_id is None:
        return None
    if len(request_id) > REQUEST_ID_BYTES_MAX or not all(0x20 <= byte <= 0x7E for byte in request_id):
        raise HttpError(
            ErrorCode.INVALID_HEADER,
            f"X-Request-ID must be printable ASCII, at most {REQUEST_ID_BYTES_MAX} characters",
        )
    return request_id


async def read_body(receive: Receive) -> bytes:
    """The whole request body.

    Raises:
        HttpError: 413, larger than BODY_BYTES_MAX.
        ConnectionResetError: the client went away.
    """
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client closed the connection before its request was complete")
        chunk: bytes = message.get("body", b"")
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise HttpError(
                ErrorCode.CONTENT_TOO_LARGE,
                f"the request body is larger than {BODY_BYTES_MAX} bytes: send less at once",
            )
        if not message.get("more_body", False):
            return body


async def send_response(send: Send, response: Response, request_id: bytes | None) -> None:
    """Send ``response``, with X-Request-ID if there is one."""
    headers = [
        (b"content-type", response.content_type),
        (b"content-length", str(len(response.body)).encode("ascii")),
        (b"cache-control", b"no-store"),
        *response.headers,
    ]
    if request_id is not None:
        headers.append((b"x-request-id", request_id))
    await send({"type": "http.response.start", "status": int(response.status), "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
