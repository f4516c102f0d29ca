"""Identifies the peer of a connection once, when it is accepted.

Rules map a client certificate to a principal, as on a broker. A process at a Unix socket is identified by its
user or group. Any other peer is User:ANONYMOUS.

Kafka uses the subject of a certificate as X500Principal.getName() writes it (RFC 2253), so ACLs and
super.users have that form. It is not RFC 4514's and not OpenSSL's: the last part comes first, nine attribute
types have names, every other type is its OID with the value's bytes in hex, and characters that are not ASCII
are not escaped. Source: sun.security.x509.X500Name and AVA.toRFC2253String of OpenJDK 17; X509-SVID,
section 2. The bytes come from a certificate that OpenSSL has parsed and verified.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from authorizer.configuration.keys.names import SPIFFE_REQUIRED, SPIFFE_RULES, SSL_PRINCIPAL_RULES
from authorizer.configuration.principal_rules import mapped_name
from records.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    import asyncio
    import ssl

    from authorizer.configuration.tls import TlsSettings
    from authorizer.listeners.listener import Listener

#: The types that RFC 2253 names, by the bytes of their OIDs.
_KEYWORDS: Final = {
    b"\x55\x04\x03": "CN",
    b"\x55\x04\x06": "C",
    b"\x55\x04\x07": "L",
    b"\x55\x04\x08": "ST",
    b"\x55\x04\x09": "STREET",
    b"\x55\x04\x0a": "O",
    b"\x55\x04\x0b": "OU",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x19": "DC",
    b"\x09\x92\x26\x89\x93\xf2\x2c\x64\x01\x01": "UID",
}
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString; Java leaves UniversalString
# out.
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_VERSION_TAG: Final = 0xA0
_UTC_TIME_TAG: Final = 0x17
_LONG_LENGTH: Final = 0x80
_ESCAPES: Final = {**{ord(character): f"\\{character}" for character in ',=+<>#;"\\'}, 0: "\\00"}
# Java's white space at either end of a value.
_SPACES: Final = " \r"


def certificate_subject(certificate: bytes) -> str:
    """Return the subject of an X.509 certificate in DER."""
    return distinguished_name(_fields(certificate)[4])


def certificate_expiry_s(certificate: bytes) -> int:
    """Return when an X.509 certificate in DER expires, in seconds since the epoch."""
    _, (tag, not_after, _) = _elements(_fields(certificate)[3])
    text = not_after.decode("ascii")
    if tag == _UTC_TIME_TAG:
        text = f"{'19' if text >= '5' else '20'}{text}"  # RFC 5280, section 4.1.2.5.1
    return int(datetime.strptime(f"{text}+0000", "%Y%m%d%H%M%SZ%z").timestamp())


def _fields(certificate: bytes) -> list[bytes]:
    """Contents of serialNumber, signature, issuer, validity, subject, ..."""
    ((_, signed, _),) = _elements(certificate)
    to_be_signed = next(_elements(signed))[1]
    return [content for tag, content, _ in _elements(to_be_signed) if tag != _VERSION_TAG]


def distinguished_name(rdn_sequence: bytes) -> str:
    """Return the text of a name; ``rdn_sequence``: an RDNSequence in DER without tag and length."""
    parts = ["+".join(map(_attribute, _contents(rdn))) for rdn in _contents(rdn_sequence)]
    return ",".join(reversed(parts))


def _attribute(content: bytes) -> str:
    (_, oid, _), (tag, value, encoded) = _elements(content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or tag not in _STRING_TAGS:
        return f"{keyword or _dotted(oid)}=#{encoded.hex()}"
    # Java reads the bytes of every kind of string as UTF-8.
    text = value.decode("utf-8", "replace")
    inner = text.strip(_SPACES)
    before, _, after = text.partition(inner) if inner else (text, "", "")
    escaped = "".join(f"\\{space}" for space in before), "".join(f"\\{space}" for space in after)
    return f"{keyword}={escaped[0]}{inner.translate(_ESCAPES)}{escaped[1]}"


def _contents(content: bytes) -> Iterator[bytes]:
    return (inner for _, inner, _ in _elements(content))


def _elements(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield the tag, the content and the encoding of each DER element."""
    at = 0
    while at < len(content):
        tag, length, begin = content[at], content[at + 1], at + 2
        if length >= _LONG_LENGTH:
            begin += length - _LONG_LENGTH
            length = int.from_bytes(content[at + 2 : begin])
        yield tag, content[begin : begin + length], content[at : begin + length]
        at = begin + length


def _dotted(oid: bytes) -> str:
    numbers, number = [], 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < _LONG_LENGTH:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


#: The scheme is case-insensitive (RFC 3986, section 3.1).
_IS_SPIFFE: Final = re.compile(r"spiffe:", re.IGNORECASE)
_SPIFFE_ID: Final = re.compile(r"spiffe://([a-z0-9._-]{1,255})((?:/.*)?)", re.ASCII | re.IGNORECASE)
_LENGTH_MAX: Final = 2048


def find_spiffe_id(uris: Iterable[str]) -> str | None:
    """Return the SPIFFE id among a certificate's URIs (X509-SVID, section 2); None if there is none.

    Scheme and trust domain are case-insensitive; they are returned in lower case, as SPIFFE writes them.
    ValueError: there are several, or one is malformed. Then no other name of the certificate may be used.
    """
    found = [uri for uri in uris if _IS_SPIFFE.match(uri)]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(f"it has {len(found)} SPIFFE ids, but may have only one")
    matched = _SPIFFE_ID.fullmatch(found[0])
    if matched is None or len(found[0]) > _LENGTH_MAX:
        raise ValueError(
            f"`{found[0]:.200}` is not a SPIFFE id: spiffe://TRUST-DOMAIN/PATH with at most "
            f"{_LENGTH_MAX} characters"
        )
    return f"spiffe://{matched[1].lower()}{matched[2]}"


# struct ucred: pid, uid, gid.
_CREDENTIALS: Final = struct.Struct("3i")
#: Characters of a name in an error.
_SHOWN_MAX: Final = 200


class _NoPrincipalError(Exception):
    """A certificate maps to no principal; the message has the reason."""


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of one connection.

    Attributes:
        is_proxy: it is a trusted proxy: it may send other clients' addresses and other Host headers.
        refusal: why all of its requests are rejected; None for most peers.
    """

    listener: Listener
    principal: KafkaPrincipal
    is_proxy: bool
    refusal: str | None = None


def identify_peer(transport: asyncio.Transport, address: str | None, listener: Listener) -> Peer:
    """Return the peer of a new connection; ``address``: its IP address."""
    is_proxy = listener.is_proxy(address)
    try:
        return Peer(listener, _principal(transport, listener), is_proxy)
    except _NoPrincipalError as error:
        return Peer(listener, ANONYMOUS, is_proxy, str(error))


def _principal(transport: asyncio.Transport, listener: Listener) -> KafkaPrincipal:
    """Raises _NoPrincipalError if a certificate maps to none."""
    secured: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if secured is not None and listener.tls is not None:
        return _certificate_principal(secured, listener.tls)
    if listener.unix_principals:
        return _unix_principal(transport, listener)
    return ANONYMOUS


def _certificate_principal(secured: ssl.SSLObject, settings: TlsSettings) -> KafkaPrincipal:
    certificate = secured.getpeercert(binary_form=True)
    if certificate is None:
        return ANONYMOUS
    name, rules = certificate_subject(certificate), settings.name_rules
    if settings.spiffe_rules:
        spiffe_id = _spiffe_id(secured)
        if spiffe_id is not None:
            name, rules = spiffe_id, settings.spiffe_rules
        elif settings.spiffe_required:
            raise _NoPrincipalError(
                f"your certificate, whose subject is `{name:.{_SHOWN_MAX}}`, has no SPIFFE id, and "
                f"{SPIFFE_REQUIRED} is set: send a certificate that has one"
            )
    mapped = mapped_name(rules, name)
    if mapped is None:
        raise _NoPrincipalError(
            f"no rule makes a principal of your certificate's name `{name:.{_SHOWN_MAX}}`: add one, or "
            f"DEFAULT, to {SSL_PRINCIPAL_RULES} ({SPIFFE_RULES} for a SPIFFE id)",
        )
    return KafkaPrincipal(ANONYMOUS.principal_type, mapped)


def _spiffe_id(secured: ssl.SSLObject) -> str | None:
    """Return the certificate's SPIFFE id, if it has one. Raises _NoPrincipalError if it is invalid."""
    try:
        names: Any = (secured.getpeercert() or {}).get("subjectAltName", ())
        return find_spiffe_id(name for kind, name in names if kind == "URI")
    except ValueError as error:
        raise _NoPrincipalError(f"your certificate has no valid SPIFFE id: {error}") from error


def _unix_principal(transport: asyncio.Transport, listener: Listener) -> KafkaPrincipal:
    connected: socket.socket = transport.get_extra_info("socket")
    credentials = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, uid, gid = _CREDENTIALS.unpack(credentials)
    principals = listener.unix_principals
    return principals.get(f"uid:{uid}") or principals.get(f"gid:{gid}") or ANONYMOUS
