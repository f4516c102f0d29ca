"""Outcome of an HTTP exchange, a value or an error; and the rules of retries.

- A client retries until the call's timeout while a sidecar is unreachable, silent, not ready or overloaded.
  The pauses grow, with jitter, and are never shorter than ``Retry-After``.
- A change is sent again only if nothing was done: it was not sent, or the answer is a refusal.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final, TypeVar

import httpcore
import msgspec
import tenacity

from authorizer.api.errors import (
    SidecarAnswerError,
    SidecarDefectError,
    SidecarError,
    SidecarOutcomeUnknownError,
    SidecarRefusedError,
    SidecarRequestError,
    SidecarUnavailableError,
    SidecarUnreachedError,
)
from authorizer.api.http.answers.node import Problem
from authorizer.client.calls import Call, NotReadyError

_T = TypeVar("_T")

JSON_HEADERS: Final = {"content-type": "application/json"}

_OK: Final = 200
_REFUSED: Final = (401, 403)
_SERVER: Final = 500
#: The node did not begin the request.
_NOT_BEGUN: Final = (429, 503)

#: Pause between two attempts: the first, and the longest.
_RETRY_INTERVAL_S: Final = 0.05
_RETRY_INTERVAL_MAX_S: Final = 1.0

#: httpcore's errors of an incomplete exchange, and those raised before anything was sent.
TRANSPORT_ERRORS: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError)
_NOT_SENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)


def retries(timeout_s: float, *, unanswered: bool) -> dict[str, Any]:
    """Return the arguments of tenacity's ``Retrying`` and ``AsyncRetrying``.

    ``unanswered``: retry also if nothing answers.
    """

    def is_retriable(error: BaseException) -> bool:
        return (
            isinstance(error, SidecarUnavailableError)
            and not isinstance(error, SidecarOutcomeUnknownError)
            and (unanswered or error.status is not None)
        )

    return {
        "stop": tenacity.stop_before_delay(timeout_s),
        "wait": _Wait(),
        "retry": tenacity.retry_if_exception(is_retriable),
        "reraise": True,
    }


class _Wait(tenacity.wait_random_exponential):
    """Exponential backoff with jitter, and at least the sidecar's ``Retry-After``."""

    def __init__(self) -> None:
        super().__init__(multiplier=_RETRY_INTERVAL_S, max=_RETRY_INTERVAL_MAX_S)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        backoff_s = float(super().__call__(retry_state))
        outcome = retry_state.outcome
        error = None if outcome is None else outcome.exception()
        retry_after_s = error.retry_after_s if isinstance(error, SidecarUnavailableError) else None
        return max(backoff_s, retry_after_s or 0.0)


def value_of_response(url: str, call: Call[_T], response: httpcore.Response) -> _T:
    """Return the value of an answer. Raises a SidecarError for anything but a valid 200."""
    if response.status != _OK:
        raise error_of_response(url, response, response.content, is_change=call.is_change)
    try:
        return _decoded(url, lambda: call.decode(response.content))
    except NotReadyError as error:
        raise SidecarUnavailableError(f"{url}: {error}", status=response.status) from error


def error_of_response(
    url: str, response: httpcore.Response, body: bytes, *, is_change: bool = False
) -> SidecarError:
    """Return the error of an answer with another status than 200."""
    status = response.status
    code, detail = _decoded(url, lambda: _code_and_message(response, body))
    if status in _NOT_BEGUN:
        retry_after = _headers(response).get("retry-after", "")
        return SidecarUnavailableError(
            f"{url}: {detail}",
            status=status,
            code=code,
            retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
        )
    if status >= _SERVER:
        # The node may have begun the change.
        kind: type[SidecarError] = SidecarOutcomeUnknownError if is_change else SidecarDefectError
    elif status in _REFUSED:
        kind = SidecarRefusedError
    else:
        kind = SidecarRequestError
    return kind(f"{url}: {detail}", status=status, code=code)


def error_of_transport(url: str, call: Call[_T], error: Exception) -> SidecarError:
    """Return the error of an incomplete exchange."""
    reason = _reason(error)
    if isinstance(error, _NOT_SENT):
        return SidecarUnreachedError(f"{url}: {reason}")
    if call.is_change:
        return SidecarOutcomeUnknownError(f"{url} has not answered ({reason}). The outcome is unknown")
    return SidecarUnavailableError(f"{url} has not answered ({reason})")


def _reason(error: BaseException) -> str:
    """Return the operating system's message if there is one, else the library's."""
    innermost: BaseException = error
    while (cause := innermost.__cause__ or innermost.__context__) is not None:
        innermost = cause
        if isinstance(innermost, ssl.SSLError | socket.gaierror):
            return innermost.strerror or str(innermost)
        if isinstance(innermost, OSError) and innermost.errno is not None:
            # The event loop's text says only that a call failed, not why.
            return os.strerror(innermost.errno)
    return str(error) or type(error).__name__


def _code_and_message(response: httpcore.Response, body: bytes) -> tuple[str, str]:
    """Return an error's code and message; below /access/v1 the body is only the message."""
    headers = _headers(response)
    if "application/problem+json" in headers.get("content-type", ""):
        problem = msgspec.json.decode(body, type=Problem)
        return problem.code, problem.detail
    return headers["aclog-error"], msgspec.json.decode(body, type=str)


def _headers(response: httpcore.Response) -> dict[str, str]:
    return {name.decode("ascii").lower(): value.decode("latin-1") for name, value in response.headers}


def _decoded(url: str, decode: Callable[[], _T]) -> _T:
    try:
        return decode()
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise SidecarAnswerError(f"{url} does not answer as an aclog node does") from error
