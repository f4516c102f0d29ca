"""SCRAM (RFC 5802, RFC 7677). Sources: ScramSaslServer, ScramMessages."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Final

from authorizer.admin_server.sasl.server import SaslFailedError, SaslStep, different_authorization_id
from authorizer.authentication.scram import ITERATIONS_MIN, SCRAM_DIGESTS, ScramCredential
from records.principal import ANONYMOUS, KafkaPrincipal

_NAME: Final = r"(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_EXTENSIONS: Final = r"(?:,[A-Za-z]+=[\x01-\x2B\x2D-\x7F]+)*"
_BASE64: Final = r"(?:[A-Za-z0-9/+]{4})*(?:[A-Za-z0-9/+]{3}=|[A-Za-z0-9/+]{2}==)?"
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_FINAL: Final = re.compile(
    rf"(?P<without_proof>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)


class ScramServer:
    """One exchange. An unknown user fails at the end, as a wrong password does."""

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
        matched = _FIRST.fullmatch(text)
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
        matched = _FINAL.fullmatch(text)
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
