"""PLAIN (RFC 4616), verified with SCRAM's credentials. Source: PlainSaslServer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from authorizer.admin_server.sasl.server import SaslFailedError, SaslStep, different_authorization_id
from records.principal import ANONYMOUS, KafkaPrincipal

_INVALID = "Authentication failed: Invalid username or password"


class PlainServer:
    """One exchange."""

    def __init__(self, verify: Callable[[str, str], Awaitable[bool]]) -> None:
        """Args: verify: whether this is the password of this user."""
        self._verify = verify

    async def evaluate(self, message: bytes) -> SaslStep:
        """Process the only message: ``[authzid] NUL authcid NUL passwd``."""
        # Kafka ignores what follows a third NUL.
        parts = message.decode("utf-8", "replace").split("\0")
        authorization_id, user, password, *_ = *parts, "", ""
        if not user or not password:
            raise SaslFailedError("Authentication failed: username or password not specified")
        if not await self._verify(user, password):
            raise SaslFailedError(_INVALID, _INVALID)
        if authorization_id not in ("", user):
            raise different_authorization_id()
        return SaslStep(b"", KafkaPrincipal(ANONYMOUS.principal_type, user))
