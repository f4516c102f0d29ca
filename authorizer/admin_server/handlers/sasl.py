"""SaslHandshake and SaslAuthenticate (KIP-43, KIP-152, KIP-368).

On a connection without SASL they are illegal, as in KafkaApis.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from authorizer.admin_server.api import Api
from authorizer.admin_server.sasl.session import AFTER_LOGIN, AuthenticateResult, HandshakeResult

if TYPE_CHECKING:
    from authorizer.admin_server.request import AdminRequest
    from authorizer.admin_server.values_encoder import Values


async def _handshake(request: AdminRequest) -> Values:
    sasl = request.session.sasl
    if sasl is None:
        return _handshake_values(HandshakeResult(ErrorCode.illegal_sasl_state, ()))
    return _handshake_values(sasl.handshake(request.header.api_version, request.body.mechanism))


async def _authenticate(request: AdminRequest) -> Values:
    sasl = request.session.sasl
    return _authenticate_values(
        AFTER_LOGIN if sasl is None else await sasl.authenticate(request.body.auth_bytes)
    )


def _handshake_values(result: HandshakeResult) -> Values:
    return {"error_code": ErrorCode(result.error_code), "mechanisms": result.mechanisms}


def _authenticate_values(result: AuthenticateResult) -> Values:
    return {
        "error_code": ErrorCode(result.error_code),
        "error_message": result.error_message,
        "auth_bytes": result.auth_bytes,
        "session_lifetime": dt.timedelta(milliseconds=result.session_lifetime_ms),
    }


def _handshake_error(_body: Any, code: ErrorCode, _message: str | None) -> Values:
    return _handshake_values(HandshakeResult(code, ()))


def _authenticate_error(_body: Any, code: ErrorCode, message: str | None) -> Values:
    return _authenticate_values(AuthenticateResult(code, message))


SASL_APIS: Final = (
    Api(
        key=17,
        schema="sasl_handshake",
        versions=range(2),
        answer=_handshake,
        error=_handshake_error,
    ),
    Api(
        key=36,
        schema="sasl_authenticate",
        versions=range(3),
        answer=_authenticate,
        error=_authenticate_error,
    ),
)
