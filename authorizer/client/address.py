"""A sidecar's address and the caller's credentials, for the library and every command.

A token is sent over https, over a Unix socket or to this machine only. Proxies from the environment are not
used: a sidecar is in one's own network.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpcore

from authorizer.api.ip_address import is_loopback
from authorizer.api.sidecar_url import parse_sidecar_url
from authorizer.api.unix_address import unix_address

# Alive at the other end; a sidecar closes a connection on which no request begins for five seconds.
_KEPT_S: Final = 4.0
_KEPT_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who asks, and whom to trust.

    Attributes:
        token: bearer token.
        ca_file: PEM, the authorities that may have signed the sidecar's certificate; the system's if None.
        certificate_file: PEM, a certificate of the caller's with its key, for mutual TLS.
    """

    token: str | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None


def bearer_token(text: str) -> str:
    """What a file or a variable holds. Raises ValueError, which does not say it, unless that is one token."""
    token = text.strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ValueError("it is not one bearer token and nothing else")
    return token


class Address:
    """A sidecar's; checked when it is made.

    Attributes:
        url: as it was given.
    """

    def __init__(self, url: str, credentials: Credentials | None = None, cluster: str | None = None) -> None:
        """Check all that can be checked without connecting; ``cluster``: the one that is asked, of several.

        Raises:
            ValueError: ``url`` is no sidecar's address, ``cluster`` no name, or others would see the token on
                its way there.
            OSError: a file of the credentials cannot be read (ssl.SSLError: or is not what it should be).
        """
        self.url = url
        self._credentials = credentials or Credentials()
        parsed = parse_sidecar_url(url, cluster)
        self._base, self._socket_path = parsed.base, parsed.socket_path
        token = self._credentials.token
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._ssl_context = self._tls() if parsed.is_https else None
        is_on_machine = parsed.host is None or is_loopback(parsed.host)
        if token is not None and not parsed.is_https and not is_on_machine:
            raise ValueError(f"{url}: a token is sent over https, or to this machine, only")

    def pool(self, opened: ExitStack) -> httpcore.ConnectionPool:
        """Connections for threads; they end with ``opened``."""
        return opened.enter_context(httpcore.ConnectionPool(**self._connections(opened)))

    def async_pool(self, opened: ExitStack) -> httpcore.AsyncConnectionPool:
        """The same for an event loop; to be closed before ``opened`` is."""
        return httpcore.AsyncConnectionPool(**self._connections(opened))

    def request(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        *,
        timeout_s: Mapping[str, float],
        body: bytes | None = None,
    ) -> dict[str, Any]:
        """A request as httpcore takes it; ``timeout_s``: to connect, read, write, and get a connection."""
        return {
            "method": method,
            "url": self._base + target,
            "headers": {**self._headers, **headers},
            "content": body,
            "extensions": {"timeout": timeout_s},
        }

    def _connections(self, opened: ExitStack) -> dict[str, Any]:
        return {
            "uds": None
            if self._socket_path is None
            else opened.enter_context(unix_address(self._socket_path)),
            "ssl_context": self._ssl_context,
            "max_connections": None,
            "max_keepalive_connections": _KEPT_MAX,
            "keepalive_expiry": _KEPT_S,
        }

    def _tls(self) -> ssl.SSLContext:
        given = self._credentials
        context = ssl.create_default_context(cafile=given.ca_file)
        if given.certificate_file is not None:
            context.load_cert_chain(given.certificate_file)
        return context
