"""URLs of a sidecar, checked without connecting; addresses of Unix sockets.

    http://HOST:PORT, https://HOST:PORT     over TCP
    unix:PATH                               a Unix domain socket, by a path of any length

A sidecar of several clusters has ``/clusters/NAME`` after the port; the name may also be given separately.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from authorizer.api.cluster_name import CLUSTERS_PATH, is_cluster_name

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIX: Final = "unix:"


class SidecarUrl(NamedTuple):
    """The parts of a URL; ``base``: what a path is appended to; without a slash at the end."""

    base: str
    host: str | None = None
    is_https: bool = False
    socket_path: Path | None = None


def parse_sidecar_url(url: str, cluster: str | None = None) -> SidecarUrl:
    """Parse and check a URL; ``cluster`` is the cluster to ask, where the sidecar serves several.

    Raises:
        ValueError: ``url`` is not a sidecar's URL, or ``cluster`` is not a cluster's name.
    """
    if url.startswith(_UNIX):
        base = f"http://localhost{_cluster_path(cluster)}"
        return SidecarUrl(base, socket_path=Path(url.removeprefix(_UNIX)))
    parts = urlsplit(url)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or not _has_valid_port(parts.netloc)
        or not _is_base_path(parts.path)
        or parts.query
    ):
        raise ValueError(
            f"`{url}` is no sidecar's address: http(s)://HOST:PORT, where it follows several clusters "
            "with /clusters/NAME behind it, or unix:PATH"
        )
    if cluster is not None and parts.path not in ("", "/"):
        raise ValueError(f"{url} names a cluster, so `{cluster}` is one too many")
    base = url.rstrip("/") + _cluster_path(cluster)
    return SidecarUrl(base, parts.hostname, is_https=parts.scheme == "https")


def _cluster_path(cluster: str | None) -> str:
    if cluster is None:
        return ""
    if not is_cluster_name(cluster):
        raise ValueError(f"`{cluster}` is no cluster's name: up to 64 letters, digits, `-` and `_`")
    return CLUSTERS_PATH + cluster


def _is_base_path(path: str) -> bool:
    """Whether the path of a URL is empty or names a cluster."""
    return path in ("", "/") or (
        path.startswith(CLUSTERS_PATH) and is_cluster_name(path.removeprefix(CLUSTERS_PATH).removesuffix("/"))
    )


def _has_valid_port(netloc: str) -> bool:
    try:
        urlsplit(f"//{netloc}").port  # noqa: B018 - reading the attribute checks the port
    except ValueError:
        return False
    return True


#: sockaddr_un.sun_path on Linux, with the zero byte at its end.
_ADDRESS_BYTES_MAX: Final = 108


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """The address of a path of any length, valid in the ``with`` block.

    The kernel accepts 108 bytes; a longer path is addressed through a descriptor of its directory.
    OSError: its directory cannot be opened.
    """
    if len(os.fsencode(path)) < _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
