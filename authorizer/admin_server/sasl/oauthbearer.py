"""OAUTHBEARER (RFC 7628). Sources: OAuthBearerSaslServer, OAuthBearerClientInitialResponse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from authorizer.admin_server.sasl.server import SaslFailedError, SaslStep
from authorizer.authentication.rejection import Reason, RejectionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from records.principal import KafkaPrincipal

_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"\w+ +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_INVALID: Final = "Invalid OAUTHBEARER client first message"
#: What Kafka's validator answers (OAuthBearerValidatorCallbackHandler).
_ERROR: Final = '{"status":"invalid_token"}'


class OAuthBearerServer:
    """One exchange."""

    def __init__(self, verify: Callable[[str], Awaitable[tuple[KafkaPrincipal, float]]]) -> None:
        """Args: verify: returns a token's principal and its end (seconds); raises RejectionError."""
        self._verify = verify
        self._has_failed = False

    async def evaluate(self, message: bytes) -> SaslStep:
        """Process the token; after an error the client sends control-A, and the login fails."""
        if self._has_failed:
            # Kafka parses any other message as a first one, for example the text "\x01" of four characters.
            raise SaslFailedError(_ERROR, _ERROR) if message == b"\x01" else SaslFailedError(_INVALID)
        matched = _FIRST.fullmatch(message.decode("utf-8", "replace"))
        if matched is None:
            raise SaslFailedError(_INVALID)
        pairs = dict(pair.split("=", 1) for pair in matched["pairs"].split("\x01") if pair)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None:
            raise SaslFailedError(f"{_INVALID}: invalid 'auth' format")
        if auth[0].partition(" ")[0].lower() != "bearer":
            raise SaslFailedError(f"{_INVALID}: invalid scheme")
        try:
            principal, until_s = await self._verify(auth["token"])
        except RejectionError as rejection:
            if rejection.reason in (Reason.BUSY, Reason.NO_KEYS):
                raise
            self._has_failed = True
            return SaslStep(_ERROR.encode())
        authorization_id = matched["authzid"] or ""
        if authorization_id not in ("", principal.name):
            text = (
                f"Authentication failed: Client requested an authorization id ({authorization_id}) that is "
                f"different from the token's principal name ({principal.name})"
            )
            raise SaslFailedError(text, text)
        return SaslStep(b"", principal, until_s * 1000)
