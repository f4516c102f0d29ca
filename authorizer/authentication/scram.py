"""Stored credentials of SASL: hashes from which neither the password nor a login can be made.

A line of the credentials file has the form in which PostgreSQL stores the same values (RFC 5803):

    USER:SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY

Salt and keys are base64. User names may contain colons. PLAIN is verified with the same credentials.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final, Self

from authorizer.authentication.secrets_file import SecretsFile
from authorizer.configuration.keys.names import ADMIN_CREDENTIALS_FILE
from records.principal import ANONYMOUS

#: Names in hashlib, by mechanism (ScramMechanism).
SCRAM_DIGESTS: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
#: Kafka's limits. The highest is the default: a login costs some milliseconds.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
_SALT_BYTES: Final = 16
_LINE: Final = re.compile(
    r"(?P<user>.+):(?P<mechanism>SCRAM-SHA-(?:256|512))\$(?P<iterations>[0-9]{1,6}):(?P<salt>[A-Za-z0-9+/=]+)"
    r"\$(?P<stored_key>[A-Za-z0-9+/=]+):(?P<server_key>[A-Za-z0-9+/=]+)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What Kafka stores of a user's password (ScramCredential).

    Attributes:
        stored_key: verifies the client.
        server_key: proves to the client that the server knows the credential.
    """

    user: str
    mechanism: str
    iterations: int
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    @classmethod
    def create(cls, user: str, mechanism: str, password: str, salt: bytes | None = None) -> Self:
        """Hash a password; slow, without the interpreter's lock."""
        salt = secrets.token_bytes(_SALT_BYTES) if salt is None else salt
        stored_key, server_key = _keys(mechanism, password, salt, ITERATIONS_MAX)
        return cls(user, mechanism, ITERATIONS_MAX, salt, stored_key, server_key)

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raise ValueError, which does not repeat the line."""
        matched = _LINE.fullmatch(line)
        if matched is None:
            raise ValueError(
                "not USER:MECHANISM$ITERATIONS:SALT$STOREDKEY:SERVERKEY; `aclog credentials add` writes it"
            )
        user, mechanism, iterations = matched["user"], matched["mechanism"], int(matched["iterations"])
        require_user(user)
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ValueError(f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        try:
            salt, stored_key, server_key = (
                base64.b64decode(matched[name], validate=True)
                for name in ("salt", "stored_key", "server_key")
            )
        except binascii.Error as error:
            raise ValueError(f"salt and keys are base64 ({error})") from error
        size = hashlib.new(SCRAM_DIGESTS[mechanism]).digest_size
        if len(stored_key) != size or len(server_key) != size:
            raise ValueError(f"keys of {mechanism} have {size} bytes")
        return cls(user, mechanism, iterations, salt, stored_key, server_key)

    @property
    def id(self) -> str:
        """A user has one credential for each mechanism."""
        return credential_id(self.user, self.mechanism)

    def line(self) -> str:
        """Return the credential as it is in the file, without a line's end."""
        salt, stored, server = (
            base64.b64encode(each).decode() for each in (self.salt, self.stored_key, self.server_key)
        )
        return f"{self.user}:{self.mechanism}${self.iterations}:{salt}${stored}:{server}"

    def matches(self, password: str) -> bool:
        """Whether it is the user's password; slow, without the interpreter's lock."""
        stored_key, _ = _keys(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(stored_key, self.stored_key)


def _keys(mechanism: str, password: str, salt: bytes, iterations: int) -> tuple[bytes, bytes]:
    """Return StoredKey and ServerKey (RFC 5802, section 3). Kafka does not normalise passwords."""
    digest = SCRAM_DIGESTS[mechanism]
    salted = hashlib.pbkdf2_hmac(digest, password.encode("utf-8", "replace"), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    return hashlib.new(digest, client_key).digest(), hmac.digest(salted, b"Server Key", digest)


def credential_id(user: str, mechanism: str) -> str:
    """Return the id of a credential in its file."""
    return f"{mechanism} of {user}"


def require_user(user: str) -> str:
    """Return the name of a user. Raises ValueError: it cannot be one, or cannot be on a line of its own."""
    if not user or not user.isprintable() or user != user.strip() or user.startswith("#"):
        raise ValueError("a user name is printable, without spaces around it and without # as its beginning")
    if user == ANONYMOUS.name:
        raise ValueError(f"{ANONYMOUS} is a client without credentials")
    return user


CREDENTIALS_FILE: Final = SecretsFile(
    ADMIN_CREDENTIALS_FILE, "credential", "aclog credentials add", ScramCredential
)
