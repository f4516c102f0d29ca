"""Reading of requests and creation of responses, for all handlers."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from authorizer.api.http.answers.confluent import ConfluentError
from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

    from starlette.types import Message, Send

    from authorizer.sidecar.http.limits import LoadLimiter
    from authorizer.sidecar.http.request_origin import Origin


#: The answer repeats X-Request-ID; this is enough for the ids of tracing systems.
REQUEST_ID_BYTES_MAX: Final = 256

#: Errors below this path have AuthZEN's form.
AUTHZEN_PATH: Final = "/access/v1/"
#: Errors below this path have the form of Confluent's Kafka REST API.
CONFLUENT_PATH: Final = "/kafka/v3/"

JSON: Final = "application/json"
#: Content-Type that ``curl -d`` sends with every body.
_CURL_CONTENT_TYPE: Final = "application/x-www-form-urlencoded"
PROBLEM_JSON: Final = "application/problem+json"

#: Bytes of a large answer that are written at a time, as fast as the client reads.
PART_BYTES: Final = 64 * 1024


def json_response(
    value: object, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None
) -> Response:
    """Encode a value as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def error_response(error: HttpError, path: str) -> Response:
    """Return the response for an HttpError, in the form for ``path``."""
    headers = {"aclog-error": error.code.value, **error.headers}
    if path.startswith(AUTHZEN_PATH):
        return json_response(error.message, error.code.status, headers)
    if path.startswith(CONFLUENT_PATH):
        return json_response(ConfluentError.of(error.code, error.message), error.code.status, headers)
    return Response(msgspec.json.encode(error.problem()), error.code.status, headers, PROBLEM_JSON)


def request_id_of(request: Request) -> str | None:
    """Return X-Request-ID, which the answer must repeat (AuthZEN 1.0, section 10.1.3); else HttpError 400."""
    request_id = request.headers.get("x-request-id")
    if request_id is not None and not is_valid_request_id(request_id):
        raise HttpError(
            ErrorCode.INVALID_HEADER,
            f"X-Request-ID must be printable ASCII, at most {REQUEST_ID_BYTES_MAX} characters",
        )
    return request_id


def is_valid_request_id(request_id: str) -> bool:
    """Whether it is printable ASCII and not too long."""
    return len(request_id) <= REQUEST_ID_BYTES_MAX and request_id.isascii() and request_id.isprintable()


async def send_in_parts(message: Message, send: Send) -> None:
    """Send a body in parts; ``send`` waits while the client does not read."""
    body: bytes = message.get("body", b"")
    last = max(len(body) - 1, 0) // PART_BYTES * PART_BYTES
    for start in range(0, last, PART_BYTES):
        await send({**message, "body": body[start : start + PART_BYTES], "more_body": True})
    await send({**message, "body": body[last:]})


def hold_answer(request: Request, count: int) -> None:
    """Reserve memory for a request's answer until it was sent.

    HttpError 503: other answers use too much; never after the request has changed something.
    """
    load: LoadLimiter = request.app.load
    load.hold_answer(count, can_refuse=not getattr(request.state, "has_changed", False))
    request.state.held_answer_bytes += count


def origin_of(request: Request) -> Origin:
    """Return the origin, which the application determined before it called the handler."""
    found: Origin = request.state.origin
    return found


def require_no_browser(request: Request, *, takes_query: bool = False) -> None:
    """Reject a write from a web page (403), or one with a query string that it does not take (400).

    Browsers send Origin or Sec-Fetch-Site, mostly both, with a page's requests; no page can omit them.
    """
    for header in ("Origin", "Sec-Fetch-Site"):
        if header in request.headers:
            raise HttpError(
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                f"nothing is changed from web pages (the request has the header {header})",
            )
    if request.url.query and not takes_query:
        raise HttpError(
            ErrorCode.INVALID_REQUEST,
            f"{request.method} {request.url.path} takes no query string: use the body",
        )


async def read_body(request: Request) -> bytes:
    """Read the request body, whose memory is reserved until the request is answered.

    HttpError: 413, the body is too large or has too many values; 503, the memory limit is reached.
    ConnectionResetError: the client disconnected.
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
    complete = bytes(body)
    load.require_value_count(complete)
    return complete


async def read_json(request: Request) -> bytes:
    """Read a request body whose Content-Type AuthZEN requires to be JSON (certification, 2.4.3).

    HttpError 400: another Content-Type; and the errors of ``read_body``.
    """
    called = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if called not in (JSON, _CURL_CONTENT_TYPE):
        raise HttpError(ErrorCode.INVALID_HEADER, f"Content-Type must be {JSON}, not {called[:80]}")
    return await read_body(request)


_T = TypeVar("_T")


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of ``work``; the request's body must have been read.

    ConnectionResetError: the client disconnected first, and the work was cancelled.
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
        # Cancelled work must have ended when this returns: it must not outlive its request.
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
