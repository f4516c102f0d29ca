"""What is said to prove who we are: PLAIN (RFC 4616), SCRAM (RFC 5802, KIP-84), OAUTHBEARER (RFC 7628).

An exchange is a generator of messages to be sent; it is sent the answers, and ends when it is content. It
does no I/O, and reads no random source: the nonce is given.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Generator
from typing import Final

Exchange = Generator[bytes, bytes, None]

#: What a server may make us compute at most; Kafka's own limit is far below.
_ITERATIONS_MAX: Final = 1_000_000
_ITERATIONS_MIN: Final = 4096


class SaslError(Exception):
    """The other side does not prove who it is, or says what makes no sense."""


def exchange(mechanism: str, username: str, password: str, nonce: str) -> Exchange:
    """Our side of ``PLAIN``, ``SCRAM-SHA-256`` or ``SCRAM-SHA-512``; raises SaslError on the way."""
    if mechanism == "PLAIN":
        return _plain(username, password)
    return _scram(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), username, password, nonce)


def oauthbearer(token: str) -> Exchange:
    """Our side of ``OAUTHBEARER``; raises SaslError with what the other side says of the token."""
    problem = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode("ascii", "replace")
    if problem:
        yield b"\x01"  # so that it ends with an error, which mostly says more
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
        raise SaslError("its nonce is not an answer to ours")
    count = fields.get("i", "")
    iterations = int(count) if count.isascii() and count.isdigit() and len(count) <= 7 else 0
    if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
        raise SaslError(f"it asks for {count} iterations, {_ITERATIONS_MIN} to {_ITERATIONS_MAX} are taken")
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", digest)
    final = f"c=biws,r={server_nonce}"
    signed = f"{bare},{first},{final}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), signed, digest)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = (yield f"{final},p={base64.b64encode(proof).decode()}".encode()).decode("utf-8", "replace")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
    if not hmac.compare_digest(_decoded(_fields(answer).get("v", "")), expected):
        raise SaslError("it does not know the password that it asks for")


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise SaslError("it sends no base64 where that must be") from error
