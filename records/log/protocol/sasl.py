"""Client side of SASL: PLAIN (RFC 4616), SCRAM (RFC 5802, KIP-84), OAUTHBEARER (RFC 7628).

An exchange is a generator: it yields messages to send, receives the responses, and ends on success. It does
no I/O, and reads no random source: the nonce is an argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from typing import Final

Exchange = Generator[bytes, bytes, None]

#: Limit of what a server can make us compute; Kafka's own limit is far below.
_ITERATIONS_MAX: Final = 1_000_000
_ITERATIONS_MIN: Final = 4096


class SaslError(Exception):
    """The server does not authenticate itself, or its message is malformed."""


def exchange(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    """Client side of ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``. Raises SaslError."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), username, password, nonce)


def oauthbearer(token: str) -> Exchange:
    """Client side of ``OAUTHBEARER``. Raises SaslError with the server's reason."""
    problem = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode("ascii", "replace")
    if problem:
        yield b"\x01"  # the server then ends with an error, which mostly has a better reason
        raise SaslError(problem.decode("utf-8", "replace"))


def _plain(username: str, password: str) -> Exchange:
    yield b"\0" + username.encode() + b"\0" + password.encode()


def _scram(digest: str, username: str, password: str, nonce: str) -> Exchange:
    name = username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    fields = _fields(first)
    salt, server_nonce = _decoded(fields.get("s", "")), fields.get("r", "")
    if not server_nonce.startswith(nonce) or server_nonce == nonce:
        raise SaslError("the server's nonce does not extend ours")
    count = fields.get("i", "")
    iterations = int(count) if count.isascii() and count.isdigit() and len(count) <= 7 else 0
    if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
        raise SaslError(
            f"the server requires {count} iterations; accepted are {_ITERATIONS_MIN} to {_ITERATIONS_MAX}"
        )
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={server_nonce}"
    signed = f"{bare},{first},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = (yield f"{final},p={base64.b64encode(proof).decode()}".encode()).decode("utf-8", "replace")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_decoded(_fields(answer).get("v", "")), expected):
        raise SaslError("the server does not prove that it knows the password")


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SaslError("the server's message is not base64") from error
