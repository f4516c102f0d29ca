"""What is known of each listener before a request comes: from the configuration, and the socket it has."""

from __future__ import annotations

import ipaddress
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from authorizer.api.authorizer_api import SecurityProtocol
from authorizer.api.ip_address import is_loopback
from authorizer.configuration.listeners import is_local, is_unix
from authorizer.sidecar.http.listener import Listener

if TYPE_CHECKING:
    from authorizer.api.authorizer_api import Endpoint
    from authorizer.configuration.load import Config
    from authorizer.configuration.tls import TlsSettings


def listener_at(
    endpoint: Endpoint, bound: socket.socket, config: Config, tls: TlsSettings | None = None
) -> Listener:
    """What is configured as ``endpoint`` and has this socket; ``tls``: where connections are taken."""
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
    """With the real port, and for every address a name that clients elsewhere may know."""
    if is_unix(endpoint):
        return f"unix:{endpoint.host}"
    scheme = "https" if endpoint.security_protocol is SecurityProtocol.SSL else "http"
    host = endpoint.host or socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"


def _names(config: Config) -> frozenset[str]:
    """The names that clients may know this sidecar by, in lower case."""
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
