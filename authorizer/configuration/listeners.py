"""Listeners as Kafka writes them: ``NAME://HOST:PORT,...`` and ``NAME:PROTOCOL,...``.

In addition to Kafka's there are Unix sockets, ``NAME:///path``: an Endpoint whose host is the path.

Source: SocketServerConfigs.listenerListToEndPoints, CoreUtils.listenerListToEndPoints (names and ports are
distinct), KafkaConfig.effectiveListenerSecurityProtocolMap and earlyStartListeners. Parsing accepts every
protocol, as in Kafka, because a broker's own file must be readable; ``require_served`` checks what aclog can
serve, before a port is bound.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.errors import ConfigError
from authorizer.api.ip_address import is_loopback

LISTENERS_ALLOWED: Final = (
    "NAME://HOST:PORT or, for a Unix socket, NAME:///path, separated by commas, such as "
    "PLAINTEXT://127.0.0.1:8180"
)
ADMIN_LISTENERS_ALLOWED: Final = "NAME://HOST:PORT, separated by commas, such as PLAINTEXT://127.0.0.1:9192"
PROTOCOL_MAP_ALLOWED: Final = (
    f"NAME:PROTOCOL, separated by commas; protocols are {', '.join(each.name for each in SecurityProtocol)}"
)
#: The name of a protocol is also the name of a listener with that protocol.
DEFAULT_PROTOCOL_MAP: Final = {each.name: each for each in SecurityProtocol}

#: Protocols with encryption.
WITH_TLS: Final = (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)
#: In place of names in ``aclog.console.listeners``.
EVERY_LISTENER: Final = "*"

_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_UNIX_LISTENER: Final = re.compile(r"([^:/]+)://(/.*[^/])")
_PORT_MAX: Final = 65535


def split_list(text: str) -> list[str]:
    """Split a comma-separated list into trimmed parts, without empty ones."""
    return [part for part in (part.strip() for part in text.split(",")) if part]


def parse_protocol_map(text: str, *, key: str) -> dict[str, SecurityProtocol]:
    """Parse protocols by listener name (upper case, as Kafka normalises them)."""
    protocols: dict[str, SecurityProtocol] = {}
    for part in split_list(text):
        name, colon, protocol = part.rpartition(":")
        if not colon or protocol.strip().upper() not in SecurityProtocol.__members__:
            raise ConfigError(key, text, PROTOCOL_MAP_ALLOWED)
        protocols[name.strip().upper()] = SecurityProtocol[protocol.strip().upper()]
    return protocols


def with_controller_listeners(
    protocols: Mapping[str, SecurityProtocol], controller_names: Iterable[str], listeners: str
) -> dict[str, SecurityProtocol]:
    """Add PLAINTEXT for controller listeners to the default map, as a KRaft broker does.

    Nothing is added if any listener is named SSL or SASL: then a missing entry is a mistake.
    """
    listener_names = [
        *controller_names,
        *(part.partition("://")[0].upper() for part in split_list(listeners)),
    ]
    secured = {each.name for each in SecurityProtocol} - {SecurityProtocol.PLAINTEXT.name}
    if secured.intersection(listener_names):
        return dict(protocols)
    return {**protocols, **dict.fromkeys(controller_names, SecurityProtocol.PLAINTEXT)}


def parse_listeners(
    text: str,
    *,
    key: str,
    protocols: Mapping[str, SecurityProtocol],
    allowed: str = LISTENERS_ALLOWED,
    distinct_ports: bool = True,
) -> tuple[Endpoint, ...]:
    """Parse listeners, in order; an empty host (every interface) is None, port 0 is any free port."""
    endpoints = tuple(_endpoint(part, text, key, protocols, allowed) for part in split_list(text))
    if not endpoints:
        raise ConfigError(key, text, f"at least one of {allowed}")
    require_distinct(endpoints, text, key, distinct_ports=distinct_ports)
    return endpoints


def _endpoint(
    part: str, text: str, key: str, protocols: Mapping[str, SecurityProtocol], allowed: str
) -> Endpoint:
    if matched := _UNIX_LISTENER.fullmatch(part):
        # A Unix socket needs no encryption.
        return Endpoint(matched[1].upper(), SecurityProtocol.PLAINTEXT, matched[2], 0)
    matched = _LISTENER.fullmatch(part)
    if matched is None:
        raise ConfigError(key, text, f"{allowed}; `{part}` is none")
    name, host, port = matched[1].upper(), matched[2] or None, int(matched[3])
    if not 0 <= port <= _PORT_MAX:
        raise ConfigError(key, text, f"ports are 0 to {_PORT_MAX}; `{part}` has {port}")
    if name not in protocols:
        raise ConfigError(
            key,
            text,
            f"no security protocol is defined for listener {name}; "
            f"name it in listener.security.protocol.map, such as {name}:PLAINTEXT",
        )
    return Endpoint(name, protocols[name], host, port)


def require_distinct(
    endpoints: Sequence[Endpoint], text: str, key: str, *, distinct_ports: bool = True
) -> None:
    """Raise ConfigError if two listeners have the same name, or the same port."""
    names = [endpoint.listener_name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigError(key, text, "each listener must have a different name")
    if not distinct_ports:
        return
    ports = [(endpoint.port, _ip_version(endpoint.host)) for endpoint in endpoints if endpoint.port]
    # One IPv4 and one IPv6 address may share a port; a host name may resolve to either.
    for index, (port, version) in enumerate(ports):
        for other_port, other_version in ports[:index]:
            if port == other_port and (version is None or other_version is None or version == other_version):
                raise ConfigError(key, text, "each listener must have a different port")


def require_served(endpoints: Sequence[Endpoint], *, key: str, allow_plaintext: bool) -> None:
    """Refuse listeners that the sidecar cannot serve (SASL), or not safely (PLAINTEXT beyond loopback)."""
    for endpoint in endpoints:
        shown = f"{endpoint.listener_name}://{endpoint.host or ''}:{endpoint.port}"
        if endpoint.security_protocol not in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL):
            raise ConfigError(
                key, shown, f"PLAINTEXT and SSL are served over HTTP, not {endpoint.security_protocol.name}"
            )
        if not (allow_plaintext or endpoint.security_protocol is SecurityProtocol.SSL or is_local(endpoint)):
            raise ConfigError(
                key,
                shown,
                "PLAINTEXT is served on loopback addresses and Unix sockets, because every client of such a "
                "listener is User:ANONYMOUS and nothing is encrypted. Give it TLS (SSL://HOST:PORT and "
                "ssl.keystore.location), put it behind a proxy with TLS (PLAINTEXT://127.0.0.1:8180), or set "
                "aclog.allow.plaintext.beyond.loopback=true if the network itself is trusted",
            )


def require_admin_served(
    endpoints: Sequence[Endpoint], *, http_names: Container[str], key: str, allow_plaintext: bool
) -> None:
    """Refuse a Unix socket, a name twice, or no encryption beyond loopback, for Kafka's protocol."""
    for endpoint in endpoints:
        shown = f"{endpoint.listener_name}://{endpoint.host or ''}:{endpoint.port}"
        if is_unix(endpoint):
            raise ConfigError(key, shown, "clients of Kafka's protocol cannot connect to Unix sockets")
        # By default both have a listener PLAINTEXT, which has no settings and no metrics of TLS.
        may_share = endpoint.security_protocol is SecurityProtocol.PLAINTEXT
        if endpoint.listener_name in http_names and not may_share:
            raise ConfigError(key, shown, "an HTTP listener has the same name: give each its own")
        if not (allow_plaintext or endpoint.security_protocol in WITH_TLS or is_local(endpoint)):
            raise ConfigError(
                key,
                shown,
                f"{endpoint.security_protocol.name} is served on loopback addresses only, because nothing is "
                "encrypted. Use SSL or SASL_SSL, or set aclog.allow.plaintext.beyond.loopback=true",
            )


def console_listeners(names: Sequence[str], listeners: Sequence[Endpoint], *, key: str) -> tuple[str, ...]:
    """Return the listeners' names that ``aclog.console.listeners`` selects; ConfigError: not one exists."""
    known = [endpoint.listener_name or "" for endpoint in listeners]
    if tuple(names) == (EVERY_LISTENER,):
        return tuple(known)
    for name in names:
        if name not in known:
            allowed = f"{EVERY_LISTENER}, or names out of {', '.join(known)}"
            raise ConfigError(key, name, allowed)
    return tuple(names)


def is_unix(endpoint: Endpoint) -> bool:
    """Whether the listener is a Unix socket, whose path is in ``host``."""
    return endpoint.host is not None and endpoint.host.startswith("/")


def is_local(endpoint: Endpoint) -> bool:
    """Whether only this machine can reach the listener."""
    return is_unix(endpoint) or is_loopback(endpoint.host)


def _ip_version(host: str | None) -> int | None:
    try:
        return None if host is None else ipaddress.ip_address(host).version
    except ValueError:
        return None
