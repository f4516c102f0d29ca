"""The sidecar's errors: an HTTP status, a code for programs, a message for people.

The body is RFC 9457's, ``application/problem+json``; below ``/access/v1/`` it is the message alone, a JSON
string, as AuthZEN 1.0 (section 10.1) has it. The header ``aclog-error`` has the code in both cases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.api.http.answers import Problem
from authorizer.api.http.error_code import ErrorCode
from records.errors import AclogError

if TYPE_CHECKING:
    from collections.abc import Mapping

TYPE_PREFIX: Final = "urn:aclog:error:"
#: For an answer that may be another one soon.
RETRY: Final = {"retry-after": "1"}


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

    def problem(self) -> Problem:
        """The body of the answer."""
        return Problem(
            type=TYPE_PREFIX + self.code.lower().replace("_", "-"),
            title=self.code.replace("_", " ").capitalize(),
            status=int(self.code.status),
            code=self.code.value,
            detail=self.message,
        )


def invalid_request(message: str) -> HttpError:
    """400: what was asked for makes no sense."""
    return HttpError(ErrorCode.INVALID_REQUEST, message)
