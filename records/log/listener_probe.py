"""Detects whether a port uses TLS, to explain why a connection failed.

Used after a failure only: with a wrong security.protocol the server just closes the connection.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from records.log.url import Address

#: A TLS record begins with its type, a handshake or an alert, and the major version.
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")
_CORRELATION_ID: Final = b"aclg"
#: ApiVersions in version 0, which every broker and controller answers without authentication.
_API_VERSIONS: Final = b"\0\x12\0\0" + _CORRELATION_ID + b"\xff\xff"
_LENGTH_BYTES: Final = 4
_TIMEOUT_S: Final = 3.0


def tls_mismatch(address: Address, *, has_tls: bool, setting: str) -> str | None:
    """Explain that only one side uses TLS; None: both do or do not, or the port does not answer."""
    if has_tls and speaks_kafka_unencrypted(address):
        return (
            f"{address} is a port without TLS: name a port with TLS, or set {setting} to PLAINTEXT or "
            "SASL_PLAINTEXT"
        )
    if not has_tls and speaks_tls(address):
        return f"{address} is a TLS port: set {setting} to SSL or SASL_SSL"
    return None


def speaks_tls(address: Address) -> bool:
    """Whether the port answers a TLS ClientHello; no secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):  # waits for the server's answer
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return _answer(address, outgoing.read(), len(_TLS_RECORDS[0])).startswith(_TLS_RECORDS)


def speaks_kafka_unencrypted(address: Address) -> bool:
    """Whether the port answers a request of Kafka's protocol without TLS."""
    request = len(_API_VERSIONS).to_bytes(_LENGTH_BYTES, "big") + _API_VERSIONS
    return _answer(address, request, _LENGTH_BYTES + len(_CORRELATION_ID))[_LENGTH_BYTES:] == _CORRELATION_ID


def _answer(address: Address, sent: bytes, size_bytes: int) -> bytes:
    """The first bytes of the answer; fewer if the server sends fewer."""
    received = b""
    with (
        suppress(OSError, ValueError),  # the bytes received before are the answer
        socket.create_connection((address.host, address.port), _TIMEOUT_S) as connection,
    ):
        connection.sendall(sent)
        while len(received) < size_bytes and (piece := connection.recv(size_bytes - len(received))):
            received += piece
    return received
