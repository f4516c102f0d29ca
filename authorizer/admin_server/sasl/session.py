"""SaslSession: the states of one connection, from its first request to its last re-authentication.

Sources: SaslServerAuthenticator, KafkaChannel.maybeBeginServerReauthentication, KafkaApis (KIP-152, KIP-368).
"""

from __future__ import annotations

import asyncio
import re
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.admin_server.sasl.mechanisms import SaslFailedError
from authorizer.authentication.rejection import RejectionError
from records.errors import AclogError

if TYPE_CHECKING:
    from authorizer.admin_server.sasl.logins import SaslLogins
    from authorizer.admin_server.sasl.mechanisms import SaslServer, SaslStep
    from records.principal import KafkaPrincipal

UNSUPPORTED_SASL_MECHANISM: Final = 33
ILLEGAL_SASL_STATE: Final = 34
SASL_AUTHENTICATION_FAILED: Final = 58

_SASL_HANDSHAKE: Final = 17
_API_VERSIONS: Final = 18
_SASL_AUTHENTICATE: Final = 36
_REAUTHENTICATION_INTERVAL_S: Final = 1.0
_WORD_START: Final = re.compile("(?<=[a-z])(?=[A-Z])")


class SaslStateError(AclogError):
    """The request is not allowed in this state; the connection is closed."""


class HandshakeResult(NamedTuple):
    """A SaslHandshakeResponse."""

    error_code: int
    mechanisms: tuple[str, ...]


class AuthenticateResult(NamedTuple):
    """A SaslAuthenticateResponse."""

    error_code: int
    error_message: str | None = None
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0


#: The answer to SaslAuthenticate on a connection that needs none.
AFTER_LOGIN: Final = AuthenticateResult(
    ILLEGAL_SASL_STATE, "SaslAuthenticate request received after successful authentication"
)


class _State(Enum):
    HANDSHAKE_OR_VERSIONS = auto()
    HANDSHAKE = auto()
    AUTHENTICATE = auto()
    COMPLETE = auto()
    BAD_MECHANISM = auto()
    FAILED = auto()


class SaslSession:
    """The states of one connection; ``principal``: of the client; None before its first login."""

    def __init__(self, logins: SaslLogins, listener: str, address: str) -> None:
        """Args: listener: the name of the connection's listener; address: the client's."""
        self.principal: KafkaPrincipal | None = None
        self._logins = logins
        self._clock = logins.clock
        self._listener = listener
        self._address = address
        self._mechanisms = logins.mechanisms(listener)
        self._state = _State.HANDSHAKE_OR_VERSIONS
        self._server: SaslServer | None = None
        self._mechanism = ""
        self._has_kafka_headers = False
        self._expires_at_s: float | None = None
        self._reauthenticated_at_s = float("-inf")
        self._bad_mechanism_message = ""

    @property
    def expects_raw_token(self) -> bool:
        """Whether the next frame is a token of the mechanism, not a request (SaslHandshake v0)."""
        return self._state is _State.AUTHENTICATE and not self._has_kafka_headers

    @property
    def has_failed(self) -> bool:
        """Whether the connection is closed after the response."""
        return self._state is _State.FAILED

    def check_request(self, api_key: int, name: str) -> None:
        """Check that a request may be processed in this state.

        Raises:
            SaslStateError: close the connection; if the login has failed by this request, after an answer
                with ILLEGAL_SASL_STATE.
        """
        match self._state:
            case _State.HANDSHAKE_OR_VERSIONS | _State.HANDSHAKE:
                if api_key not in (_API_VERSIONS, _SASL_HANDSHAKE):
                    raise SaslStateError(
                        f"Unexpected Kafka request of type {_enum_name(name)} during SASL handshake."
                    )
                if api_key == _API_VERSIONS and self._state is _State.HANDSHAKE:
                    raise SaslStateError(
                        "Unexpected ApiVersions request received during SASL authentication state "
                        "HANDSHAKE_REQUEST"
                    )
            case _State.AUTHENTICATE:
                if api_key != _SASL_AUTHENTICATE:
                    self._state = _State.FAILED
                    reason = (
                        f"Unexpected Kafka request of type {_enum_name(name)} during SASL authentication."
                    )
                    self._add_failure(self._mechanism, reason)
                    raise SaslStateError(reason)
            case _State.BAD_MECHANISM:
                raise SaslStateError(self._bad_mechanism_message)
            case _State.FAILED:
                raise SaslStateError("a login has failed on this connection")
            case _State.COMPLETE:
                now_s, expires_at_s = self._clock.monotonic_s(), self._expires_at_s
                if expires_at_s is not None and now_s > expires_at_s and not self._may_begin_again(api_key):
                    raise SaslStateError("the session has expired: the client did not authenticate again")

    def on_versions_answered(self) -> None:
        """ApiVersions was answered without an error: what follows is the handshake."""
        if self._state is _State.HANDSHAKE_OR_VERSIONS:
            self._state = _State.HANDSHAKE

    def handshake(self, version: int, mechanism: str) -> HandshakeResult:
        """Process a SaslHandshake request; on an authenticated connection it begins a re-authentication."""
        if self._state is _State.COMPLETE:
            if not self._may_begin_again(_SASL_HANDSHAKE):
                return HandshakeResult(ILLEGAL_SASL_STATE, ())
            self._reauthenticated_at_s = self._clock.monotonic_s()
        if version >= 1:
            self._has_kafka_headers = True
        if mechanism not in self._mechanisms:
            self._state = _State.FAILED
            self._add_failure("unknown", "the client's SASL mechanism is not enabled on this listener")
            return HandshakeResult(UNSUPPORTED_SASL_MECHANISM, self._mechanisms)
        if self.principal is not None and mechanism != self._mechanism:
            self._bad_mechanism_message = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._mechanism}'"
            )
            self._state = _State.BAD_MECHANISM
        else:
            self._mechanism = mechanism
            self._server = self._logins.server(mechanism, self._address)
            self._state = _State.AUTHENTICATE
        return HandshakeResult(0, self._mechanisms)

    async def authenticate(self, auth_bytes: bytes) -> AuthenticateResult:
        """Process a SaslAuthenticate request. Raises SaslStateError: close the connection."""
        if self._state is _State.COMPLETE:
            return AFTER_LOGIN
        try:
            step = await self._evaluate(auth_bytes)
        except SaslFailedError as error:
            verb = "authentication" if self.principal is None else "re-authentication"
            generic = (
                f"Authentication failed during {verb} due to invalid credentials with SASL mechanism "
                f"{self._mechanism}"
            )
            return AuthenticateResult(SASL_AUTHENTICATION_FAILED, error.message or generic)
        lifetime_ms = 0 if step.principal is None else self._complete(step, step.principal)
        return AuthenticateResult(0, "", step.response, lifetime_ms)

    async def raw_token(self, token: bytes) -> bytes:
        """Process a token without a request's header; return the frame's content.

        Raises:
            SaslStateError: close the connection.
        """
        try:
            step = await self._evaluate(token)
        except SaslFailedError as error:
            raise SaslStateError(error.reason) from error
        if step.principal is not None:
            self._complete(step, step.principal)
        return step.response

    async def _evaluate(self, message: bytes) -> SaslStep:
        if self._server is None:
            raise SaslStateError("a token without a handshake")
        try:
            step = await self._server.evaluate(message)
            self._require_same_principal(step.principal)
        except RejectionError as error:
            self._state = _State.FAILED
            raise SaslStateError(error.message) from error
        except SaslFailedError as error:
            self._state = _State.FAILED
            await asyncio.sleep(self._add_failure(self._mechanism, error.reason))
            raise
        return step

    def _add_failure(self, mechanism: str, reason: str) -> float:
        """Count a failed login; return the seconds after which it is answered."""
        is_again = self.principal is not None
        self._logins.metrics.count(self._listener, is_successful=False, is_again=is_again)
        return self._logins.add_failure(self._address, mechanism, reason)

    def _require_same_principal(self, principal: KafkaPrincipal | None) -> None:
        if principal is not None and self.principal is not None and principal != self.principal:
            text = (
                "Cannot change principals during re-authentication from "
                f"{_dotted(self.principal)}: {_dotted(principal)}"
            )
            raise SaslFailedError(text, text)

    def _complete(self, step: SaslStep, principal: KafkaPrincipal) -> int:
        """Begin the session; return its lifetime in milliseconds, 0 if it is unlimited."""
        is_again = self.principal is not None
        self._logins.metrics.count(self._listener, is_successful=True, is_again=is_again)
        self.principal, self._server, self._state = principal, None, _State.COMPLETE
        limits = [float(self._logins.max_session_ms(self._listener, self._mechanism))]
        limits = [limit for limit in limits if limit > 0]
        if step.expires_at_ms is not None:
            limits.append(step.expires_at_ms - self._clock.now_ms())
        if not limits:
            self._expires_at_s = None
            return 0
        lifetime_ms = max(0, int(min(limits)))
        self._expires_at_s = self._clock.monotonic_s() + lifetime_ms / 1000
        return lifetime_ms

    def _may_begin_again(self, api_key: int) -> bool:
        """Whether a request begins a re-authentication: at most one a second, if the session has an end."""
        waited_s = self._clock.monotonic_s() - self._reauthenticated_at_s
        is_allowed = self._expires_at_s is not None and waited_s >= _REAUTHENTICATION_INTERVAL_S
        return api_key == _SASL_HANDSHAKE and is_allowed


def _enum_name(api: str) -> str:
    return _WORD_START.sub("_", api).upper()


def _dotted(principal: KafkaPrincipal) -> str:
    return f"{principal.principal_type}.{principal.name}"
