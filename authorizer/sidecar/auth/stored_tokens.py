"""Formats of a token and of its line in the tokens file.

A token is ``aclog_ID_SECRET``. The id selects the hash to compare with; the secret has 256 random bits. A
line of the file is

    PRINCIPAL:ID$sha256$HASH

where HASH is the SHA-256 of the token, in base64 without padding. A slow hash is not needed, because 256
random bits cannot be guessed at any speed; and a fast hash cannot be used for a denial of service.
Principals may hold colons: what follows the last one is the hash. Empty lines and those that begin with ``#``
are comments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from hmac import compare_digest
from typing import Final, Self

from authorizer.authentication.rejection import Reason, RejectionError
from authorizer.authentication.secrets_file import SecretsFile
from authorizer.configuration.keys.names import AUTH_TOKENS_FILE
from records.principal import ANONYMOUS, KafkaPrincipal, parse_kafka_principal

TOKEN_PREFIX: Final = "aclog_"  # noqa: S105 - no password
_TOKEN: Final = re.compile(r"aclog_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_HASH: Final = re.compile(r"([0-9a-f]{16})\$sha256\$([A-Za-z0-9+/]{43})", re.ASCII)
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as its file has it; ``hash`` is that of the complete token."""

    principal: KafkaPrincipal
    id: str
    hash: bytes

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raises ValueError, which does not repeat the line."""
        principal, colon, hash_text = line.rpartition(":")
        matched = _HASH.fullmatch(hash_text)
        if not colon or matched is None:
            raise ValueError("not PRINCIPAL:ID$sha256$HASH; `aclog token create` writes it")
        return cls(token_principal(principal), matched[1], _from_base64(matched[2]))

    def line(self) -> str:
        """As it is in the file, without a line's end."""
        return f"{self.principal}:{self.id}$sha256${_to_base64(self.hash)}"

    def matches(self, token: str) -> bool:
        """Whether it is this token, in a time that does not depend on how alike they are."""
        return compare_digest(_sha256(token), self.hash)


class StoredTokens:
    """All tokens of a file."""

    def __init__(self, tokens: Iterable[StoredToken] = ()) -> None:
        self._by_id = {token.id: token for token in tokens}
        # An unknown id takes as long as a known one.
        self._unmatchable = new_token(ANONYMOUS)[1]

    def contains(self, stored: StoredToken) -> bool:
        return self._by_id.get(stored.id) == stored

    def verify(self, token: str) -> StoredToken:
        """The entry of a token. Raises RejectionError: it is malformed or unknown."""
        matched = _TOKEN.fullmatch(token)
        if matched is None:
            raise RejectionError(Reason.MALFORMED, "this is no token of aclog: it is cut off or changed")
        stored = self._by_id.get(matched[1], self._unmatchable)
        if not stored.matches(token) or stored is self._unmatchable:
            raise RejectionError(Reason.UNKNOWN_TOKEN, "the token is not known here, or was revoked")
        return stored


def new_token(principal: KafkaPrincipal) -> tuple[str, StoredToken]:
    """A token that has never been, and its entry in the file."""
    token_id = secrets.token_hex(8)
    token = f"{TOKEN_PREFIX}{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return token, StoredToken(principal, token_id, _sha256(token))


def _sha256(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def token_principal(text: str) -> KafkaPrincipal:
    """Whom a token may stand for. Raises ValueError: it cannot be one, or cannot be on a line of its own."""
    principal = parse_kafka_principal(text)
    if not (principal.principal_type and principal.name) or not text.isprintable() or text != text.strip():
        raise ValueError("a principal is written Type:name, such as User:gateway")
    if text.startswith("#"):
        raise ValueError("a line that begins with # is a comment")
    if principal == ANONYMOUS:
        raise ValueError(f"{ANONYMOUS} is who has no token")
    return principal


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii").rstrip("=")


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the hash is base64 ({error})") from error


TOKENS_FILE: Final = SecretsFile(AUTH_TOKENS_FILE, "token", "aclog token create --file", StoredToken)
