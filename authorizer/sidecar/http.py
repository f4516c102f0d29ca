"""Requests read, answers made: what every handler does with HTTP."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from authorizer.sidecar.errors import ErrorCode, HttpError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from authorizer.sidecar.origin import Origin

#: A request body beyond this is refused before it is read to its end: an evaluation takes some hundred
#: bytes, so this is room for ten thousand of them.
BODY_BYTES_MAX: Final = 4 * 1024 * 1024

#: An X-Request-ID is repeated in the answer: room for any tracing system's, not for a text.
REQUEST_ID_BYTES_MAX: Final = 256

#: Below it errors are as AuthZEN has them.
AUTHZEN_PATH: Final = "/access/v1/"

JSON: Final = "application/json"
#: What ``curl -d`` calls every body.
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
PROBLEM_JSON: Final = "application/problem+json"


def json_response(
    value: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """``value`` as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def error_response(error: HttpError, path: str) -> Response:
    """The answer for an HttpError, in the form that ``path`` has for errors."""
    headers = {"aclog-error": error.code.value, **error.headers}
    if path.startswith(AUTHZEN_PATH):
        return json_response(error.message, error.code.status, headers)
    return Response(msgspec.json.encode(error.problem()), error.code.status, headers, PROBLEM_JSON)


def request_id_of(request: Request) -> str | None:
    """X-Request-ID, which the answer repeats (AuthZEN 1.0, section 10.1.3).

    Raises:
        HttpError: 400, it cannot be repeated; an answer without it would break that rule.
    """
    request_id = request.headers.get("x-request-id")
    if request_id is not None and not can_be_repeated(request_id):
        raise HttpError(
            ErrorCode.INVALID_HEADER,
            f"X-Request-ID must be printable ASCII, at most {REQUEST_ID_BYTES_MAX} characters",
        )
    return request_id


def can_be_repeated(request_id: str) -> bool:
    """Whether it is printable ASCII, and not too long."""
    return len(request_id) <= REQUEST_ID_BYTES_MAX and request_id.isascii() and request_id.isprintable()


def origin_of(request: Request) -> Origin:
    """Where it comes from, as the application has found out before any handler."""
    found: Origin = request.state.origin
    return found


async def read_body(request: Request) -> bytes:
    """The whole request body.

    Raises:
        HttpError: 413, larger than BODY_BYTES_MAX.
        ConnectionResetError: the client went away.
    """
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise HttpError(
                    ErrorCode.CONTENT_TOO_LARGE,
                    f"the request body is larger than {BODY_BYTES_MAX} bytes: send less at once",
                )
    except ClientDisconnect as error:
        raise ConnectionResetError(
            "the client closed the connection before its request was complete"
        ) from error
    return bytes(body)


async def read_json(request: Request) -> bytes:
    """The whole request body, which AuthZEN wants to be called JSON (certification, 2.4.3).

    Raises:
        HttpError: 400, it is called something else; 413, larger than BODY_BYTES_MAX.
        ConnectionResetError: the client went away.
    """
    called = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if called not in (JSON, _CURLS_OWN):
        raise HttpError(ErrorCode.INVALID_HEADER, f"Content-Type must be {JSON}, not {called[:80]}")
    return await read_body(request)
