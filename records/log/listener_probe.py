"""Finds out whether a port speaks TLS or not, to explain why a connection to it failed.

Asked after a failure only: a wrong security.protocol shows as a connection that is closed.
"""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from records.log.bootstrap_servers import Address

#: A TLS record begins with its type, a handshake or an alert, and the major version.
_TLS_RECORDS: Final = (b"\x16\x03", b"\x15\x03")
_CORRELATION_ID: Final = b"aclg"
#: ApiVersions in version 0, which every broker and controller answers before it knows who asks.
_API_VERSIONS: Final = b"\0\x12\0\0" + _CORRELATION_ID + b"\xff\xff"
_LENGTH_BYTES: Final = 4
_TIMEOUT_S: Final = 3.0


def tls_mismatch(address: Address, *, has_tls: bool, setting: str) -> str | None:
    """What to say where one side has TLS and the other has not; None where they agree, or do not answer.

    Args:
        address: of the port.
        has_tls: whether it was spoken to with TLS.
        setting: the key that says so.
    """
    if has_tls and speaks_kafka_unencrypted(address):
        return (
            f"{address} is a port without TLS, and {setting} asks for it: name a port with TLS, or set it to "
            "PLAINTEXT or SASL_PLAINTEXT"
        )
    if not has_tls and speaks_tls(address):
        return f"{address} is a TLS port, and {setting} is without TLS: set it to SSL, or to SASL_SSL"
    return None


def speaks_tls(address: Address) -> bool:
    """Whether the other side answers the beginning of a TLS handshake; nothing secret is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):  # the other side's turn
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return _answer(address, outgoing.read(), len(_TLS_RECORDS[0])).startswith(_TLS_RECORDS)


def speaks_kafka_unencrypted(address: Address) -> bool:
    """Whether the other side answers a request of Kafka's protocol without TLS."""
    request = len(_API_VERSIONS).to_bytes(_LENGTH_BYTES, "big") + _API_VERSIONS
    return _answer(address, request, _LENGTH_BYTES + len(_CORRELATION_ID))[_LENGTH_BYTES:] == _CORRELATION_ID


def _answer(address: Address, sent: bytes, size_bytes: int) -> bytes:
    """The first bytes of the answer; fewer where there are no more."""
    received = b""
    with (
        suppress(OSError, ValueError),  # what came before is the answer
        socket.create_connection((address.host, address.port), _TIMEOUT_S) as connection,
    ):
        connection.sendall(sent)
        while len(received) < size_bytes and (piece := connection.recv(size_bytes - len(received))):
            received += piece
    return received
