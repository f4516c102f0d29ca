"""Where a sidecar is, how it is reached, and who asks: one place for the library and every command.

    http://HOST:PORT, https://HOST:PORT     over TCP
    unix:PATH                               a Unix domain socket, by a path of any length

Where a sidecar answers for several clusters, ``/clusters/NAME`` behind the port says which one is asked, or a
name beside the address.

A token is sent over https, a Unix socket or to this machine only. No proxy of the environment is asked: a
sidecar is in one's own network.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpcore

from authorizer.api.cluster_name import CLUSTERS_PATH, is_cluster_name
from authorizer.api.unix_address import unix_address
from authorizer.configuration.listeners import is_loopback

_UNIX: Final = "unix:"
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
        self._path = Path(url.removeprefix(_UNIX)) if url.startswith(_UNIX) else None
        self._ssl_context: ssl.SSLContext | None = None
        token = self._credentials.token
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._base = "http://localhost" if self._path is not None else url.rstrip("/")
        if cluster is not None:
            self._base += _cluster_path(cluster, url)
        if self._path is not None:
            return
        parts = urlsplit(url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or not _is_number(parts.netloc)
            or not _is_base(parts.path)
            or parts.query
        ):
            raise ValueError(
                f"`{url}` is no sidecar's address: http(s)://HOST:PORT, where it follows several clusters "
                "with /clusters/NAME behind it, or unix:PATH"
            )
        if parts.scheme == "https":
            self._ssl_context = self._tls()
        elif token is not None and not is_loopback(parts.hostname):
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
            "uds": None if self._path is None else opened.enter_context(unix_address(self._path)),
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


def _is_base(path: str) -> bool:
    """Whether a URL's path may be there: one that names a cluster, or none."""
    return path in ("", "/") or (
        path.startswith(CLUSTERS_PATH) and is_cluster_name(path.removeprefix(CLUSTERS_PATH).removesuffix("/"))
    )


def _cluster_path(cluster: str, url: str) -> str:
    if not is_cluster_name(cluster):
        raise ValueError(f"`{cluster}` is no cluster's name: up to 64 letters, digits, `-` and `_`")
    if not url.startswith(_UNIX) and urlsplit(url).path not in ("", "/"):
        raise ValueError(f"{url} names a cluster, so `{cluster}` is one too many")
    return CLUSTERS_PATH + cluster


def _is_number(netloc: str) -> bool:
    """Whether the port, if there is one, is a port."""
    try:
        urlsplit(f"//{netloc}").port  # noqa: B018 - it is looked at when it is asked for
    except ValueError:
        return False
    return True
