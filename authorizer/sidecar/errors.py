"""The sidecar's errors: an HTTP status, a code for programs, a message for people.

The body is RFC 9457's, ``application/problem+json``; below ``/access/v1/`` it is the message alone, a JSON
string, as AuthZEN 1.0 (section 10.1) has it. The header ``aclog-error`` has the code in both cases.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from records.errors import AclogError

if TYPE_CHECKING:
    from http import HTTPStatus

TYPE_PREFIX: Final = "urn:aclog:error:"


class ErrorCode(StrEnum):
    """Kafka's name of the error where it has one (org.apache.kafka.common.protocol.Errors)."""

    AUTHORIZER_NOT_READY = "AUTHORIZER_NOT_READY"
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED"
    INVALID_REQUEST = "INVALID_REQUEST"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    # HTTP's own
    CONTENT_TOO_LARGE = "CONTENT_TOO_LARGE"
    INVALID_HEADER = "INVALID_HEADER"
    INVALID_JSON = "INVALID_JSON"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    NOT_FOUND = "NOT_FOUND"
    OFFSET_NOT_VISIBLE = "OFFSET_NOT_VISIBLE"


class HttpError(AclogError):
    """An answer other than 200, raised where the reason is known.

    Attributes:
        status: HTTP status.
        code: for programs: an ErrorCode, or the ``code_name`` of an ApiError.
        message: for people; names the thing and the way out.
        headers: beyond Content-Type, lower case.
    """

    def __init__(
        self, status: HTTPStatus, code: str, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers

    def problem(self) -> dict[str, Any]:
        """RFC 9457's members, and the code beside them."""
        return {
            "type": TYPE_PREFIX + self.code.lower().replace("_", "-"),
            "title": self.code.replace("_", " ").capitalize(),
            "status": int(self.status),
            "code": self.code,
            "detail": self.message,
        }
