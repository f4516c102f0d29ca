"""HTTP errors: a status, a code for programs, a message for people.

The body has RFC 9457's form, ``application/problem+json``. Below ``/access/v1/`` it is only the message as a
JSON string (AuthZEN 1.0, section 10.1). The header ``aclog-error`` has the code in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from authorizer.api.http.answers.node import Problem
from authorizer.api.http.error_code import ErrorCode
from records.errors import AclogError

TYPE_PREFIX: Final = "urn:aclog:error:"
#: Headers of an error that may disappear soon.
RETRY: Final = {"retry-after": "1"}


class HttpError(AclogError):
    """A response other than 200.

    Attributes:
        message: for people: what failed, why, and what to do.
        headers: in addition to Content-Type, in lower case.
    """

    def __init__(self, code: ErrorCode, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.headers = headers or {}

    def problem(self) -> Problem:
        """Return the body of the response."""
        return Problem(
            type=TYPE_PREFIX + self.code.lower().replace("_", "-"),
            title=self.code.replace("_", " ").capitalize(),
            status=int(self.code.status),
            code=self.code.value,
            detail=self.message,
        )


def invalid_request(message: str) -> HttpError:
    """400: the request is invalid."""
    return HttpError(ErrorCode.INVALID_REQUEST, message)
