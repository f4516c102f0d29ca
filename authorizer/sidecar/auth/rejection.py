"""Why a request's caller is not believed, and what it is answered: RFC 6750, section 3."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.sidecar.http.errors import HttpError

_REALM: Final = 'Bearer realm="aclog"'


class Reason(StrEnum):
    """As the log and the metric have it."""

    MISSING = "missing"
    MALFORMED = "malformed"
    UNPROTECTED = "unprotected"
    UNKNOWN_TOKEN = "unknown_token"  # noqa: S105 - no password
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    ISSUER = "issuer"
    AUDIENCE = "audience"
    ALGORITHM = "algorithm"
    UNKNOWN_KEY = "unknown_key"
    SIGNATURE = "signature"
    CLAIM = "claim"
    TOO_MANY_TRIES = "too_many_tries"
    BUSY = "busy"
    NO_KEYS = "no_keys"


#: For these no token was compared with anything, so nothing can have been a guess.
_NOT_A_FAILURE: Final = frozenset(
    {
        Reason.MISSING,
        Reason.MALFORMED,
        Reason.UNPROTECTED,
        Reason.TOO_MANY_TRIES,
        Reason.BUSY,
        Reason.NO_KEYS,
    }
)


class RejectionError(HttpError):
    """The answer to a request whose caller is not believed.

    Attributes:
        reason: why.
    """

    def __init__(self, reason: Reason, message: str, retry_after_s: int = 1) -> None:
        """``message`` is in a header, too: printable ASCII without quotes, and nothing of the request's."""
        match reason:
            case Reason.TOO_MANY_TRIES | Reason.BUSY:
                super().__init__(ErrorCode.TOO_MANY_REQUESTS, message, {"retry-after": str(retry_after_s)})
            case Reason.NO_KEYS:
                super().__init__(ErrorCode.NO_TOKEN_KEYS, message, {"retry-after": str(retry_after_s)})
            case Reason.MISSING:
                super().__init__(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": _REALM})
            case _:
                challenge = f'{_REALM}, error="invalid_token", error_description="{message}"'
                super().__init__(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": challenge})
        self.reason = reason

    @property
    def counts_as_failure(self) -> bool:
        """Whether it counts for the limit on tries."""
        return self.reason not in _NOT_A_FAILURE
