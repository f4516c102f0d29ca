"""Listener: what the listener of a connection means for its requests."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from authorizer.api.ip_address import is_loopback
from authorizer.sidecar.http.host_header import parse_host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.tls import TlsSettings
    from records.principal import KafkaPrincipal


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
