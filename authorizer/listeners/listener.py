"""Listener: its configuration, and the check of a request's Host header."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.ip_address import is_loopback
from authorizer.configuration.listeners import is_local, is_unix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from authorizer.configuration.load import Config
    from authorizer.configuration.tls import TlsSettings
    from records.principal import KafkaPrincipal

_HOST: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?)(?::[0-9]{0,5})?",
    re.ASCII | re.IGNORECASE,
)


def parse_host(header: str) -> str | None:
    """Return the name or address of a Host header, in lower case and without a dot at its end.

    None for anything but ``NAME[:PORT]``, ``IPV4[:PORT]`` or ``[IPV6][:PORT]``: ``[::1].evil.example`` is not
    an address. Sources: RFC 9112, section 3.2; RFC 3986, section 3.2.2.
    """
    matched = _HOST.fullmatch(header)
    if matched is None:
        return None
    if matched["name"] is not None:
        return matched["name"].lower()
    try:
        ipaddress.IPv6Address(matched["ipv6"])
    except ValueError:
        return None
    return matched["ipv6"].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """The configuration of a listener, as requests need it.

    Attributes:
        url: without a slash at the end.
        early_start: decides for super users before the node is ready (KIP-801).
        is_local: the socket in the log's directory, where everything is allowed (``binding``).
        unix_principals: callers at a Unix socket, by ``uid:NUMBER`` and ``gid:NUMBER``.
        proxies: addresses of trusted proxies.
        names: allowed names in Host headers, in lower case, in addition to loopback names.
        checks_names: requests with other Host headers are rejected.
        public_origin: ``SCHEME://HOST[:PORT]`` of the public URL, if that is configured.
        carries_tokens: the connection is protected, so that clients may send tokens.
        requires_authentication: User:ANONYMOUS is rejected.
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
        """Whether a Host header has one of the listener's names or a loopback name."""
        host = parse_host(header)
        return host is not None and (host in self.names or is_loopback(host) or host.endswith(".localhost"))

    def is_proxy(self, address: str | None) -> bool:
        """Whether an IP address belongs to a trusted proxy."""
        if address is None or not self.proxies:
            return False
        peer = ipaddress.ip_address(address)
        return any(peer in network for network in self.proxies)


def build_listener(
    endpoint: Endpoint, bound: socket.socket, config: Config, tls: TlsSettings | None = None
) -> Listener:
    """Build the listener of a configured endpoint; ``bound``: its socket."""
    name = endpoint.listener_name or ""
    is_tls = endpoint.security_protocol is SecurityProtocol.SSL
    return Listener(
        name=name,
        url=_url(endpoint, bound),
        early_start=name in config.early_start_listeners,
        carries_tokens=is_tls or is_local(endpoint),
        requires_authentication=name in config.auth_required_listeners,
        has_console=name in config.console_listeners,
        tls=tls,
        unix_principals=config.unix_principals if is_unix(endpoint) else {},
        proxies=tuple(map(ipaddress.ip_network, config.trusted_proxies)),
        names=_names(config),
        checks_names=not is_tls and is_loopback(endpoint.host),
        public_origin=_public_origin(config),
    )


def _url(endpoint: Endpoint, bound: socket.socket) -> str:
    """With the bound port; with the machine's name if the listener has all addresses."""
    if is_unix(endpoint):
        return f"unix:{endpoint.host}"
    scheme = "https" if endpoint.security_protocol is SecurityProtocol.SSL else "http"
    host = endpoint.host or socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


def _names(config: Config) -> frozenset[str]:
    """The configured names of this sidecar, in lower case."""
    names = [endpoint.host for endpoint in config.listeners]
    names.append(urlsplit(config.sidecar_public_url or "").hostname)
    return frozenset(name.lower() for name in names if name)


def _public_origin(config: Config) -> str | None:
    """As browsers write it."""
    public = urlsplit((config.sidecar_public_url or "").lower())
    if not public.hostname:
        return None
    port = {"http": ":80", "https": ":443"}[public.scheme]
    return f"{public.scheme}://{public.netloc.removesuffix(port)}"
