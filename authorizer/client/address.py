"""Address of a sidecar and credentials of the caller, for the library and every command.

A token is sent only over https, over a Unix socket or to this machine. Proxies from the environment are
ignored, because a sidecar is in the caller's network.
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
from authorizer.api.sidecar_url import parse_sidecar_url, unix_address

# A sidecar closes a connection after five seconds without a request.
_KEEP_ALIVE_S: Final = 4.0
_IDLE_CONNECTIONS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Credentials of the caller, and authorities that it trusts.

    Attributes:
        ca_file: PEM file of the authorities trusted to sign the sidecar's certificate; the system's if None.
        certificate_file: PEM file of the caller's certificate and key, for mutual TLS.
    """

    token: str | None = None
    ca_file: Path | None = None
    certificate_file: Path | None = None


def bearer_token(text: str) -> str:
    """Return the token in a file's or a variable's text. Raises ValueError, which does not show the text."""
    token = text.strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ValueError("it is not one bearer token and nothing else")
    return token


class Address:
    """Validated address of a sidecar, with the caller's credentials.

    ``url``: as passed to the constructor.
    """

    def __init__(self, url: str, credentials: Credentials | None = None, cluster: str | None = None) -> None:
        """Validate without connecting; ``cluster``: name of the cluster, for a sidecar of several.

        Raises:
            ValueError: an invalid URL or cluster name, or a token that would cross a network in the clear.
            OSError: a file of the credentials cannot be read; ssl.SSLError: its content is invalid.
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
        """Return a connection pool for threads; ``opened`` closes it."""
        return opened.enter_context(httpcore.ConnectionPool(**self._pool_arguments(opened)))

    def async_pool(self, opened: ExitStack) -> httpcore.AsyncConnectionPool:
        """Return a connection pool for an event loop; close it before ``opened``."""
        return httpcore.AsyncConnectionPool(**self._pool_arguments(opened))

    def request(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        *,
        timeout_s: Mapping[str, float],
        body: bytes | None = None,
    ) -> dict[str, Any]:
        """Return httpcore's arguments of a request; ``timeout_s``: connect, read, write and pool."""
        return {
            "method": method,
            "url": self._base + target,
            "headers": {**self._headers, **headers},
            "content": body,
            "extensions": {"timeout": timeout_s},
        }

    def _pool_arguments(self, opened: ExitStack) -> dict[str, Any]:
        return {
            "uds": None
            if self._socket_path is None
            else opened.enter_context(unix_address(self._socket_path)),
            "ssl_context": self._ssl_context,
            "max_connections": None,
            "max_keepalive_connections": _IDLE_CONNECTIONS_MAX,
            "keepalive_expiry": _KEEP_ALIVE_S,
        }

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._credentials.ca_file)
        if self._credentials.certificate_file is not None:
            context.load_cert_chain(self._credentials.certificate_file)
        return context
