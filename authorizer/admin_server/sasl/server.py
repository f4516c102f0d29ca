"""The server side of one SASL exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from records.errors import AclogError

if TYPE_CHECKING:
    from records.principal import KafkaPrincipal


class SaslStep(NamedTuple):
    """What one message of a client leads to.

    Attributes:
        principal: of the client, once the exchange is complete.
        expires_at_ms: when its token expires, since the epoch; None if it has none.
    """

    response: bytes
    principal: KafkaPrincipal | None = None
    expires_at_ms: float | None = None


class SaslFailedError(AclogError):
    """A login failed.

    Attributes:
        reason: for the log.
        message: for the client, which may see it (SaslAuthenticationException); None: the client learns only
            that its credentials are invalid (SaslException).
    """

    def __init__(self, reason: str, message: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


class SaslServer(Protocol):
    """One exchange with one client."""

    async def evaluate(self, message: bytes) -> SaslStep:
        """Process a client's message.

        Raises:
            SaslFailedError: the login failed.
            RejectionError: it cannot be verified now.
        """
        ...


def different_authorization_id() -> SaslFailedError:
    """The client requests to act as another principal than the one that it logged in as."""
    message = "Authentication failed: Client requested an authorization id that is different from username"
    return SaslFailedError(message, message)
