"""SaslServer: the server side of one exchange of PLAIN, SCRAM or OAUTHBEARER.

PLAIN (RFC 4616) is verified with SCRAM's credentials. Sources: PlainSaslServer; ScramSaslServer and
ScramMessages (RFC 5802, RFC 7677); OAuthBearerSaslServer and OAuthBearerClientInitialResponse (RFC 7628).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.authentication.scram import ITERATIONS_MIN, SCRAM_DIGESTS, ScramCredential
from records.errors import AclogError
from records.principal import ANONYMOUS, KafkaPrincipal


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


_INVALID_LOGIN = "Authentication failed: Invalid username or password"


class PlainServer:
    """PLAIN."""

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
            raise SaslFailedError(_INVALID_LOGIN, _INVALID_LOGIN)
        if authorization_id not in ("", user):
            raise different_authorization_id()
        return SaslStep(b"", KafkaPrincipal(ANONYMOUS.principal_type, user))


#: A name as SCRAM and OAUTHBEARER write it.
_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2B\x2D-\x7F]+)*"
_BASE64: Final = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_FIRST_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL_MESSAGE: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ScramServer:
    """An unknown user fails at the end, as a wrong password does."""

    def __init__(
        self, mechanism: str, find: Callable[[str], tuple[ScramCredential, bool]], nonce: str | None = None
    ) -> None:
        """Args: find: returns a user's credential, and whether the user exists."""
        self._mechanism = mechanism
        self._digest = SCRAM_DIGESTS[mechanism]
        self._find = find
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._credential: ScramCredential | None = None
        self._is_known = False
        # The client's first message without its header, and the server's first message.
        self._messages = ""

    async def evaluate(self, message: bytes) -> SaslStep:
        """Process the client's first message, then its final one."""
        text = message.decode("utf-8", "replace")
        if self._credential is None:
            return self._first(text)
        credential, self._credential = self._credential, None
        return self._final(text, credential)

    def _first(self, text: str) -> SaslStep:
        matched = _FIRST_MESSAGE.fullmatch(text)
        if matched is None or self._messages:
            raise SaslFailedError("Invalid SCRAM client first message format")
        if ",tokenauth=true" in matched["extensions"].lower():
            raise SaslFailedError("Token Authentication failed: there are no delegation tokens here")
        user = matched["name"].replace("=2C", ",").replace("=3D", "=")
        # Kafka compares it without replacing =2C and =3D.
        if (matched["authzid"] or user) != user:
            raise different_authorization_id()
        credential, self._is_known = self._find(user)
        if credential.iterations < ITERATIONS_MIN:
            raise SaslFailedError(
                f"Iterations {credential.iterations} is less than the minimum {ITERATIONS_MIN} for "
                f"{self._mechanism}"
            )
        self._credential = credential
        self._nonce = matched["nonce"] + self._nonce
        salt = base64.b64encode(credential.salt).decode()
        response = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._messages = f"{matched['bare']},{response}"
        return SaslStep(response.encode())

    def _final(self, text: str, credential: ScramCredential) -> SaslStep:
        matched = _FINAL_MESSAGE.fullmatch(text)
        if matched is None:
            raise SaslFailedError("Invalid SCRAM client final message format")
        if matched["nonce"] != self._nonce:
            raise SaslFailedError("Invalid client nonce in the final client message.")
        signed = f"{self._messages},{matched['without_proof']}".encode()
        signature = hmac.digest(credential.stored_key, signed, self._digest)
        proof = base64.b64decode(matched["proof"])
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=False))
        is_valid = hmac.compare_digest(hashlib.new(self._digest, client_key).digest(), credential.stored_key)
        if not (is_valid and len(proof) == len(signature) and self._is_known):
            raise SaslFailedError("Invalid client credentials")
        server_signature = hmac.digest(credential.server_key, signed, self._digest)
        response = b"v=" + base64.b64encode(server_signature)
        return SaslStep(response, KafkaPrincipal(ANONYMOUS.principal_type, credential.user))


_TOKEN_MESSAGE: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7E \t\r\n]+\x01)*)\x01"
)
_AUTH: Final = re.compile(r"\w+ +(?P<token>[-_.a-zA-Z0-9]+)", re.ASCII)
_INVALID_FIRST: Final = "Invalid OAUTHBEARER client first message"
#: What Kafka's validator answers (OAuthBearerValidatorCallbackHandler).
_ERROR: Final = '{"status":"invalid_token"}'


class OAuthBearerServer:
    """OAUTHBEARER."""

    def __init__(self, verify: Callable[[str], Awaitable[tuple[KafkaPrincipal, float]]]) -> None:
        """Args: verify: returns a token's principal and its end (seconds); raises RejectionError."""
        self._verify = verify
        self._has_failed = False

    async def evaluate(self, message: bytes) -> SaslStep:
        """Process the token; after an error the client sends control-A, and the login fails."""
        if self._has_failed:
            # Kafka parses any other message as a first one, for example the text "\x01" of four characters.
            raise (SaslFailedError(_ERROR, _ERROR) if message == b"\x01" else SaslFailedError(_INVALID_FIRST))
        matched = _TOKEN_MESSAGE.fullmatch(message.decode("utf-8", "replace"))
        if matched is None:
            raise SaslFailedError(_INVALID_FIRST)
        pairs = dict(pair.split("=", 1) for pair in matched["pairs"].split("\x01") if pair)
        auth = _AUTH.fullmatch(pairs.get("auth", ""))
        if auth is None:
            raise SaslFailedError(f"{_INVALID_FIRST}: invalid 'auth' format")
        if auth[0].partition(" ")[0].lower() != "bearer":
            raise SaslFailedError(f"{_INVALID_FIRST}: invalid scheme")
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
