"""Identifies the peer of a connection once, when it is accepted.

Rules map a client certificate to a principal, as on a broker. A process at a Unix socket is identified by its
user or group. Any other peer is User:ANONYMOUS.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from authorizer.configuration.keys.names import SPIFFE_REQUIRED, SPIFFE_RULES, SSL_PRINCIPAL_RULES
from authorizer.configuration.principal_rules import mapped_name
from authorizer.listeners.certificate_names import certificate_subject, find_spiffe_id
from records.principal import ANONYMOUS, KafkaPrincipal

if TYPE_CHECKING:
    import asyncio
    import ssl

    from authorizer.configuration.tls import TlsSettings
    from authorizer.listeners.listener import Listener

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
