"""Why a caller is rejected."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from records.errors import AclogError


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


class RejectionError(AclogError):
    """A caller is rejected.

    Attributes:
        message: for people; printable ASCII without quotes, and nothing of the request's.
        retry_after_s: when to try again, if that may help.
    """

    def __init__(self, reason: Reason, message: str, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def counts_as_failure(self) -> bool:
        """Whether it counts for the limit on tries."""
        return self.reason not in _NOT_A_FAILURE


def busy_error() -> RejectionError:
    """Too many verifications are queued."""
    return RejectionError(Reason.BUSY, "too many new tokens at a time: try again")
