"""What an exchange came to: a value, or which error; and when it is worth another try.

The rules:

- What cannot be asked now is asked again until the call's time is up: not reached, gone, not ready,
  overloaded. The pauses grow, at random so that clients do not come in step, and are never shorter than
  ``Retry-After`` says.
- A change is sent again only if nothing was done: it was not sent, or the answer says that it was refused.
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from authorizer.api.http.answers import Problem
from authorizer.client.calls import NotYetError

if TYPE_CHECKING:
    from authorizer.client.calls import Call

_T = TypeVar("_T")

JSON: Final = {"content-type": "application/json"}

_OK: Final = 200
_REFUSED: Final = (401, 403)
_SERVER: Final = 500
#: The node said that nothing was begun.
_NOT_BEGUN: Final = (429, 503)

#: Seconds between two tries: the first, and the longest.
_WAIT_FIRST_S: Final = 0.05
_WAIT_LONGEST_S: Final = 1.0

#: What httpcore raises for an exchange that did not come to its end, and before anything was sent.
FAULTS: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.RemoteProtocolError)
_NOT_SENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)


def retries(timeout_s: float, *, unanswered: bool) -> dict[str, Any]:
    """How often a call is tried, for tenacity's ``Retrying`` and ``AsyncRetrying``.

    ``unanswered``: also where nothing answers.
    """

    def is_worth_another_try(error: BaseException) -> bool:
        return (
            isinstance(error, SidecarUnavailableError)
            and not isinstance(error, SidecarOutcomeUnknownError)
            and (unanswered or error.status is not None)
        )

    return {
        "stop": tenacity.stop_before_delay(timeout_s),
        "wait": _Wait(),
        "retry": tenacity.retry_if_exception(is_worth_another_try),
        "reraise": True,
    }


class _Wait(tenacity.wait_random_exponential):
    """Twice as long each time, at random; no less than the sidecar asks for."""

    def __init__(self) -> None:
        super().__init__(multiplier=_WAIT_FIRST_S, max=_WAIT_LONGEST_S)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        waited_s = float(super().__call__(retry_state))
        outcome = retry_state.outcome
        error = None if outcome is None else outcome.exception()
        asked_s = error.retry_after_s if isinstance(error, SidecarUnavailableError) else None
        return max(waited_s, asked_s or 0.0)


def value_of(url: str, call: Call[_T], response: httpcore.Response) -> _T:
    """What was answered; SidecarError for everything but a good 200."""
    if response.status != _OK:
        raise error_of(url, response, response.content, changes=call.changes)
    try:
        return _expected(url, lambda: call.read(response.content))
    except NotYetError as error:
        raise SidecarUnavailableError(f"{url}: {error}", status=response.status) from error


def error_of(url: str, response: httpcore.Response, body: bytes, *, changes: bool = False) -> SidecarError:
    """What an answer with another status than 200 says."""
    status = response.status
    code, detail = _expected(url, lambda: _said(response, body))
    if status in _NOT_BEGUN:
        retry_after = _headers(response).get("retry-after", "")
        return SidecarUnavailableError(
            f"{url}: {detail}",
            status=status,
            code=code,
            retry_after_s=float(retry_after) if retry_after.isdecimal() else None,
        )
    if status >= _SERVER:
        # It may have begun.
        kind: type[SidecarError] = SidecarOutcomeUnknownError if changes else SidecarDefectError
    elif status in _REFUSED:
        kind = SidecarRefusedError
    else:
        kind = SidecarRequestError
    return kind(f"{url}: {detail}", status=status, code=code)


def fault_of(url: str, call: Call[_T], error: Exception) -> SidecarError:
    """What stands for an exchange that did not come to its end."""
    reason = _reason(error)
    if isinstance(error, _NOT_SENT):
        return SidecarUnreachedError(f"{url}: {reason}")
    if call.changes:
        return SidecarOutcomeUnknownError(f"{url} has not answered ({reason}). The outcome is unknown")
    return SidecarUnavailableError(f"{url} has not answered ({reason})")


def _reason(error: BaseException) -> str:
    """What the system said, else the library."""
    innermost: BaseException = error
    while (cause := innermost.__cause__ or innermost.__context__) is not None:
        innermost = cause
        if isinstance(innermost, ssl.SSLError | socket.gaierror):
            return innermost.strerror or str(innermost)
        if isinstance(innermost, OSError) and innermost.errno is not None:
            # The event loop's own text would say that a call failed, and not why.
            return os.strerror(innermost.errno)
    return str(error) or type(error).__name__


def _said(response: httpcore.Response, body: bytes) -> tuple[str, str]:
    """Code and message of an error; below /access/v1 the body is the message alone."""
    headers = _headers(response)
    if "application/problem+json" in headers.get("content-type", ""):
        problem = msgspec.json.decode(body, type=Problem)
        return problem.code, problem.detail
    return headers["aclog-error"], msgspec.json.decode(body, type=str)


def _headers(response: httpcore.Response) -> dict[str, str]:
    return {name.decode("ascii").lower(): value.decode("latin-1") for name, value in response.headers}


def _expected(url: str, read: Callable[[], _T]) -> _T:
    try:
        return read()
    except (msgspec.DecodeError, ValueError, KeyError, TypeError) as error:
        raise SidecarAnswerError(f"{url} does not answer as an aclog node does") from error
