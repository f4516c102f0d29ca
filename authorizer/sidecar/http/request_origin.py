"""Where a request comes from: the listener it came in on, the caller, and the client's address."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from authorizer.api.ip_address import host_address
from authorizer.configuration.listeners import is_loopback
from authorizer.sidecar.http.errors import ErrorCode, HttpError
from authorizer.sidecar.http.host_header import parse_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Scope

    from authorizer.configuration.tls import TlsSettings
    from authorizer.sidecar.http.connection_peer import Peer
    from records.principal import KafkaPrincipal

_HOST: Final = b"host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """What a request's listener means for it.

    Attributes:
        name: as configured.
        url: where it is, without a slash at the end.
        early_start: decides for super users before the node is ready (KIP-801).
        is_local: the socket in the log's directory, where everything is allowed (``binding``).
        tls: None on a listener without.
        unix_principals: callers at a Unix socket, by ``uid:NUMBER`` and ``gid:NUMBER``.
        proxies: peers that may speak for others.
        names: by which clients may know it, in lower case, beside loopback's own.
        checks_names: requests that are addressed to other names are refused.
        public_origin: ``SCHEME://HOST[:PORT]`` of the page as people reach it, where that is configured.
        carries_tokens: others on the network do not see what is sent there.
        requires_authentication: whose callers must not be User:ANONYMOUS.
        has_console: with a page for people (``console``).
    """

    name: str
    url: str
    early_start: bool = False
    is_local: bool = False
    tls: TlsSettings | None = None
    unix_principals: Mapping[str, KafkaPrincipal] = field(default_factory=lambda: MappingProxyType({}))
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    names: frozenset[str] = frozenset()
    checks_names: bool = False
    public_origin: str | None = None
    carries_tokens: bool = True
    requires_authentication: bool = False
    has_console: bool = False

    def is_addressed(self, header: str) -> bool:
        """Whether a Host header names it: by one of its names, or by loopback's."""
        host = parse_host(header)
        return host is not None and (host in self.names or is_loopback(host) or host.endswith(".localhost"))

    def is_proxy(self, address: str | None) -> bool:
        """Whether a peer's IP address is a trusted proxy's."""
        if address is None or not self.proxies:
            return False
        peer = ipaddress.ip_address(address)
        return any(peer in network for network in self.proxies)


@dataclass(frozen=True, slots=True)
class Origin:
    """One request's.

    Attributes:
        listener: where it came in.
        principal: the caller.
        address: the client's as ACL hosts are written; empty when there is none (a UNIX socket).
        request_id: what the client calls the request (X-Request-ID).
    """

    listener: Listener
    principal: KafkaPrincipal
    address: str
    request_id: str | None = None


def find_origin(scope: Scope) -> Origin:
    """The origin of a request in ASGI's terms, whose connection the protocol has put into its state.

    Raises:
        HttpError: 400, a trusted proxy has forwarded what is no address; 403, the peer has no principal;
            421, the request was meant for another host.
    """
    peer: Peer = scope["state"]["peer"]
    if peer.refusal is not None:
        raise HttpError(ErrorCode.NO_PRINCIPAL, peer.refusal)
    listener = peer.listener
    if listener.checks_names and not peer.is_proxy:
        for name, value in scope["headers"]:
            if name == _HOST and not listener.is_addressed(header := value.decode("latin-1")):
                raise misdirected(header, listener)
    client = scope["client"]
    if client is None:
        return Origin(listener, peer.principal, "")
    try:
        return Origin(listener, peer.principal, host_address(client[0]))
    except ValueError as error:
        raise HttpError(ErrorCode.INVALID_HEADER, f"X-Forwarded-For: {error}") from error


def misdirected(header: str, listener: Listener) -> HttpError:
    """421: a web page's own name was made to mean this machine (DNS rebinding); its Host says so."""
    return HttpError(
        ErrorCode.MISDIRECTED_REQUEST,
        f"Host `{header}` is none of this sidecar's names on listener {listener.name}: ask {listener.url}. "
        "If clients know it by another name, set aclog.sidecar.public.url to that; if a proxy sends this, "
        "name the proxy in aclog.trusted.proxies",
    )
