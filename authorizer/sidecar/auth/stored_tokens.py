"""Formats of a token and of its line in the tokens file.

A token is ``aclog_ID_SECRET``. The id selects the hash to compare with; the secret has 256 random bits. A
line of the file is

    PRINCIPAL:ID$sha256$HASH

where HASH is the SHA-256 of the token, in base64 without padding. A slow hash is not needed, because 256
random bits cannot be guessed at any speed; and a fast hash cannot be used for a denial of service. Lines of
earlier versions are supported:

    PRINCIPAL:ID$scrypt$ln=14,r=8,p=1$SALT$HASH

with scrypt's parameters as in the PHC string format (ln is the logarithm of N). Principals may hold colons:
what follows the last one is the hash. Empty lines and those that begin with ``#`` are comments.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import secrets
from dataclasses import dataclass
from hmac import compare_digest
from typing import TYPE_CHECKING, Final, Self

from authorizer.authentication.rejection import Reason, RejectionError
from records.principal import ANONYMOUS, KafkaPrincipal, parse_kafka_principal

if TYPE_CHECKING:
    from collections.abc import Iterable

TOKEN_PREFIX: Final = "aclog_"  # noqa: S105 - no password
_TOKEN: Final = re.compile(r"aclog_([0-9a-f]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_HASH: Final = re.compile(
    r"([0-9a-f]{16})\$"
    r"(?:sha256|scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{22,86}))"
    r"\$([A-Za-z0-9+/]{43})",
    re.ASCII,
)
_SECRET_BYTES: Final = 32
_HASH_BYTES: Final = 32
#: What a hash may ask for: 128 * N * r bytes of memory, and p times that much work.
_MEMORY_MAX: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ScryptCost:
    """RFC 7914's parameters; N is 2 to the power of ``ln``.

    The default is what earlier versions wrote: 16 MiB and some ten milliseconds for each check.
    """

    ln: int = 14
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        if not (self.ln and self.r and 1 <= self.p <= 4 and 128 * (self.r << self.ln) <= _MEMORY_MAX):
            raise ValueError(
                f"scrypt with ln={self.ln},r={self.r},p={self.p}: 128 * 2^ln * r is at most 64 MiB, p 4"
            )

    def hash(self, token: str, salt: bytes) -> bytes:
        """Hash a token; slow, without the interpreter's lock."""
        return hashlib.scrypt(
            token.encode(),
            salt=salt,
            n=1 << self.ln,
            r=self.r,
            p=self.p,
            maxmem=2 * _MEMORY_MAX,
            dklen=_HASH_BYTES,
        )


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as its file has it.

    Attributes:
        principal: whose token it is.
        id: the part of the token that is no secret.
        scrypt: the cost of its hash; None for SHA-256.
        salt: of scrypt; empty for SHA-256.
        hash: of the whole token.
    """

    principal: KafkaPrincipal
    id: str
    scrypt: ScryptCost | None
    salt: bytes
    hash: bytes

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raises ValueError, which does not repeat the line."""
        principal, colon, hash_text = line.rpartition(":")
        matched = _HASH.fullmatch(hash_text)
        if not colon or matched is None:
            raise ValueError("not PRINCIPAL:ID$sha256$HASH; `aclog token create` writes it")
        token_id, ln, r, p, salt, digest = matched.groups()
        scrypt = None if ln is None else ScryptCost(int(ln), int(r), int(p))
        return cls(
            token_principal(principal), token_id, scrypt, _from_base64(salt or ""), _from_base64(digest)
        )

    def line(self) -> str:
        """As it is in the file, without a line's end."""
        cost = self.scrypt
        kind = (
            "sha256" if cost is None else f"scrypt$ln={cost.ln},r={cost.r},p={cost.p}${_to_base64(self.salt)}"
        )
        return f"{self.principal}:{self.id}${kind}${_to_base64(self.hash)}"

    @property
    def is_slow(self) -> bool:
        """Whether a check of it takes a thread's time."""
        return self.scrypt is not None

    def matches(self, token: str) -> bool:
        """Whether it is this token, in a time that does not depend on how alike they are."""
        found = _sha256(token) if self.scrypt is None else self.scrypt.hash(token, self.salt)
        return compare_digest(found, self.hash)


class StoredTokens:
    """All tokens of a file."""

    def __init__(self, tokens: Iterable[StoredToken] = ()) -> None:
        self._by_id = {token.id: token for token in tokens}
        # An unknown id takes as long as a known one.
        self._unmatchable = new_token(ANONYMOUS)[1]

    def find(self, token: str) -> StoredToken:
        """The entry that a token must match: the one with its id, or one that no token matches.

        Raises:
            RefusalError: this is no token of aclog.
        """
        matched = _TOKEN.fullmatch(token)
        if matched is None:
            raise RejectionError(Reason.MALFORMED, "this is no token of aclog: it is cut off or changed")
        return self._by_id.get(matched[1], self._unmatchable)

    def contains(self, stored: StoredToken) -> bool:
        """Whether the file has this entry, unchanged."""
        return self._by_id.get(stored.id) == stored

    def verify(self, token: str, stored: StoredToken) -> StoredToken:
        """``stored``, which ``find`` returned for ``token``, once the token was found to match it.

        Raises:
            RefusalError: it does not.
        """
        if not stored.matches(token) or stored is self._unmatchable:
            raise RejectionError(Reason.UNKNOWN_TOKEN, "the token is not known here, or was revoked")
        return stored

    def principal_of(self, token: str) -> KafkaPrincipal:
        """Whose token it is. Raises RefusalError: nobody's."""
        return self.verify(token, self.find(token)).principal


def new_token(principal: KafkaPrincipal) -> tuple[str, StoredToken]:
    """A token that has never been, and its entry in the file."""
    token_id = secrets.token_hex(8)
    token = f"{TOKEN_PREFIX}{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    return token, StoredToken(principal, token_id, None, b"", _sha256(token))


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
        raise ValueError(f"salt and hash are base64 ({error})") from error
