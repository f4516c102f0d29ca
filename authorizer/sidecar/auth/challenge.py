"""The HTTP response to a rejected caller: RFC 6750, section 3."""

from __future__ import annotations

from typing import Final

from authorizer.api.http.error_code import ErrorCode
from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.sidecar.http.errors import HttpError

_REALM: Final = 'Bearer realm="aclog"'


def http_error(rejection: RejectionError) -> HttpError:
    """Return the response: 401 with a challenge, 429, or 503 while there are no keys."""
    message, retry = rejection.message, {"retry-after": str(rejection.retry_after_s)}
    match rejection.reason:
        case Reason.TOO_MANY_TRIES | Reason.BUSY:
            return HttpError(ErrorCode.TOO_MANY_REQUESTS, message, retry)
        case Reason.NO_KEYS:
            return HttpError(ErrorCode.NO_TOKEN_KEYS, message, retry)
        case Reason.MISSING:
            return HttpError(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": _REALM})
    challenge = f'{_REALM}, error="invalid_token", error_description="{message}"'
    return HttpError(ErrorCode.UNAUTHENTICATED, message, {"www-authenticate": challenge})
