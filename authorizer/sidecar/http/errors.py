"""The sidecar's errors: an HTTP status, a code for programs, a message for people.

The body is RFC 9457's, ``application/problem+json``; below ``/access/v1/`` it is the message alone, a JSON
string, as AuthZEN 1.0 (section 10.1) has it. The header ``aclog-error`` has the code in both cases.
"""

from __future__ import annotations

from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE_PREFIX: Final = "urn:aclog:error:"
#: For an answer that may be another one soon.
RETRY: Final = {"retry-after": "1"}


class ErrorCode(StrEnum):
    """Kafka's name of the error where it has one (org.apache.kafka.common.protocol.Errors)."""

    AUTHORIZER_NOT_READY = "AUTHORIZER_NOT_READY"
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
    INVALID_CONFIG = "INVALID_CONFIG"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    # HTTP's own
    CONSOLE_AWAY = "CONSOLE_AWAY"
    CONTENT_TOO_LARGE = "CONTENT_TOO_LARGE"
    HEAD_TOO_LARGE = "HEAD_TOO_LARGE"
    INVALID_HEADER = "INVALID_HEADER"
    INVALID_HTTP = "INVALID_HTTP"
    INVALID_JSON = "INVALID_JSON"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    MISDIRECTED_REQUEST = "MISDIRECTED_REQUEST"
    NOT_FOUND = "NOT_FOUND"
    NO_PRINCIPAL = "NO_PRINCIPAL"
    NO_TOKEN_KEYS = "NO_TOKEN_KEYS"  # noqa: S105 - no password
    OFFSET_NOT_HELD = "OFFSET_NOT_HELD"
    OFFSET_NOT_VISIBLE = "OFFSET_NOT_VISIBLE"
    OVERLOADED = "OVERLOADED"
    REQUEST_TIMEOUT = "REQUEST_TIMEOUT"
    TOO_MANY_CONNECTIONS = "TOO_MANY_CONNECTIONS"
    TOO_MANY_REQUESTS = "TOO_MANY_REQUESTS"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    TOO_MANY_STREAMS = "TOO_MANY_STREAMS"

    @property
    def status(self) -> HTTPStatus:
        """The status of answers with this code."""
        return _STATUSES[self]


_STATUSES: Final = {
    ErrorCode.AUTHORIZER_NOT_READY: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: HTTPStatus.FORBIDDEN,
    ErrorCode.INVALID_CONFIG: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    ErrorCode.UNKNOWN_SERVER_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
    ErrorCode.CONSOLE_AWAY: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.CONTENT_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    ErrorCode.HEAD_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    ErrorCode.INVALID_HEADER: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_HTTP: HTTPStatus.BAD_REQUEST,
    ErrorCode.INVALID_JSON: HTTPStatus.BAD_REQUEST,
    ErrorCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
    ErrorCode.MISDIRECTED_REQUEST: HTTPStatus.MISDIRECTED_REQUEST,
    ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
    ErrorCode.NO_PRINCIPAL: HTTPStatus.FORBIDDEN,
    ErrorCode.NO_TOKEN_KEYS: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.OFFSET_NOT_HELD: HTTPStatus.GONE,
    ErrorCode.OFFSET_NOT_VISIBLE: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.REQUEST_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
    ErrorCode.TOO_MANY_CONNECTIONS: HTTPStatus.SERVICE_UNAVAILABLE,
    ErrorCode.TOO_MANY_REQUESTS: HTTPStatus.TOO_MANY_REQUESTS,
    ErrorCode.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    ErrorCode.TOO_MANY_STREAMS: HTTPStatus.SERVICE_UNAVAILABLE,
}


class HttpError(AclogError):
    """An answer other than 200, raised where the reason is known.

    Attributes:
        code: for programs; it has the HTTP status.
        message: for people; names the thing and the way out.
        headers: beyond Content-Type, lower case.
    """

    def __init__(self, code: ErrorCode, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.headers = headers or {}

    def problem(self) -> dict[str, Any]:
        """RFC 9457's members, and the code beside them."""
        return {
            "type": TYPE_PREFIX + self.code.lower().replace("_", "-"),
            "title": self.code.replace("_", " ").capitalize(),
            "status": int(self.code.status),
            "code": self.code,
            "detail": self.message,
        }


def invalid_request(message: str) -> HttpError:
    """400: what was asked for makes no sense."""
    return HttpError(ErrorCode.INVALID_REQUEST, message)
