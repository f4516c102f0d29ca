"""Reading of requests and creation of responses, for all handlers."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import Any

    from starlette.requests import Request
    from starlette.types import Message, Send

    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.http.request_origin import Origin


#: An X-Request-ID is repeated in the answer: room for any tracing system's, not for a text.
REQUEST_ID_BYTES_MAX: Final = 256

#: Below it errors are as AuthZEN has them.
AUTHZEN_PATH: Final = "/access/v1/"

JSON: Final = "application/json"
#: What ``curl -d`` calls every body.
_CURLS_OWN: Final = "application/x-www-form-urlencoded"
PROBLEM_JSON: Final = "application/problem+json"

#: Bytes of a large answer that are written at a time: the next ones wait until its client has read.
PART_BYTES: Final = 64 * 1024


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
    if request_id is not None and not is_valid_request_id(request_id):
        raise HttpError(
            ErrorCode.INVALID_HEADER,
            f"X-Request-ID must be printable ASCII, at most {REQUEST_ID_BYTES_MAX} characters",
        )
    return request_id


def is_valid_request_id(request_id: str) -> bool:
    """Whether it is printable ASCII, and not too long."""
    return len(request_id) <= REQUEST_ID_BYTES_MAX and request_id.isascii() and request_id.isprintable()


async def send_in_parts(message: Message, send: Send) -> None:
    """Send a body's bytes a part at a time: ``send`` waits while the client does not read."""
    body: bytes = message.get("body", b"")
    last = max(len(body) - 1, 0) // PART_BYTES * PART_BYTES
    for start in range(0, last, PART_BYTES):
        await send({**message, "body": body[start : start + PART_BYTES], "more_body": True})
    await send({**message, "body": body[last:]})


def hold_answer(request: Request, count: int) -> None:
    """Count bytes of its answer until it was sent.

    Raises:
        HttpError: 503, too many wait to be read by others; never for what has changed something already.
    """
    load: LoadLimiter = request.app.load
    load.hold_answer(count, can_refuse=not getattr(request.state, "has_changed", False))
    request.state.held_answer_bytes += count


def origin_of(request: Request) -> Origin:
    """Where it comes from, as the application has found out before any handler."""
    found: Origin = request.state.origin
    return found


def require_no_browser(request: Request) -> None:
    """Refuse a change that a web page asks for, or that is not in the body alone.

    A browser adds Origin or Sec-Fetch-Site to what a page sends, mostly both; no page can leave them out.

    Raises:
        HttpError: 403, there is one of these headers; 400, there is a query.
    """
    for header in ("Origin", "Sec-Fetch-Site"):
        if header in request.headers:
            raise HttpError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"nothing is changed from web pages (the request has the header {header})",
            )
    if request.url.query:
        raise HttpError(
            ErrorCode.INVALID_REQUEST,
            f"{request.method} {request.url.path} takes no query: what it is about goes into the body",
        )


async def read_body(request: Request) -> bytes:
    """The whole request body, which is held until its request is answered.

    Raises:
        HttpError: 413, it is larger than a body may be, or has more in it; 503, there is no room for it.
        ConnectionResetError: the client went away.
    """
    load: LoadLimiter = request.app.load
    body = bytearray()
    try:
        async for chunk in request.stream():
            load.require_size(len(body) + len(chunk))
            load.hold(len(chunk))
            request.state.held_bytes += len(chunk)
            body += chunk
    except ClientDisconnect as error:
        raise ConnectionResetError(
            "the client closed the connection before its request was complete"
        ) from error
    whole = bytes(body)
    load.require_value_count(whole)
    return whole


async def read_json(request: Request) -> bytes:
    """The whole request body, which AuthZEN wants to be called JSON (certification, 2.4.3).

    Raises:
        HttpError: 400, it is called something else; and those of ``read_body``.
        ConnectionResetError: the client went away.
    """
    called = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if called not in (JSON, _CURLS_OWN):
        raise HttpError(ErrorCode.INVALID_HEADER, f"Content-Type must be {JSON}, not {called[:80]}")
    return await read_body(request)


_T = TypeVar("_T")


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of ``work``; the request's body must have been read.

    Raises:
        ConnectionResetError: the client went away first, and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_leave(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ConnectionResetError("the client closed the connection before its answer was ready")
    finally:
        for task in (working, leaving):
            task.cancel()
        # What was cancelled has ended when this returns: nothing of it outlives its request.
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
