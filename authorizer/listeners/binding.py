"""Sockets of a node: those of its listeners, and the local socket in its log's directory.

Commands on the same machine reach a running node by ``aclog.sock`` in the log's directory: the node is the
directory log's only writer. Its rules:

- Only the owner may connect (mode 0600), who can write the directory, too. So connections have full access,
  without an ACL.
- The process with the directory's writer lock owns the name. It replaces a socket of a killed node.

Any user of this machine may connect to a listener that is a Unix socket, if its directories permit that. The
kernel reports the peer's user and group; a peer without a principal is User:ANONYMOUS, as on loopback.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from authorizer.api.authorizer_api import Endpoint
from authorizer.api.errors import ConfigError
from authorizer.configuration.listeners import is_unix
from authorizer.listeners.unix_socket import bind_unix, connect_unix, remove_unix
from records.log.directory.files import SOCKET_FILE

_PROC: Final = Path("/proc")
_TABLES: Final = ("tcp", "tcp6")
#: Of a line of /proc/net/tcp: which fields are needed, and how a socket's state LISTEN is written.
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENING: Final = "0A"


def port_holder(port: int) -> str | None:
    """Return which process listens on a TCP port, as ``process 4711 (java)``; None if unknown."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not sockets:
        return None
    for process in _PROC.iterdir():
        if process.name.isdigit():
            # Another user's process, or one that has just ended.
            with suppress(OSError):
                if any(_target(each) in sockets for each in (process / "fd").iterdir()):
                    name = (process / "comm").read_text("utf-8", "replace").strip()
                    return f"process {process.name} ({name})"
    return None


def _listening_inodes(port: int) -> list[str]:
    found: list[str] = []
    for table in _TABLES:
        with suppress(OSError):
            for line in (_PROC / "net" / table).read_text("ascii").splitlines()[1:]:
                fields = line.split()
                if fields[_STATE] == _LISTENING and int(fields[_LOCAL].rpartition(":")[2], 16) == port:
                    found.append(fields[_INODE])
    return found


def _target(descriptor: Path) -> str | None:
    with suppress(OSError):
        return str(descriptor.readlink())
    return None


BACKLOG: Final = 2048
_OWNER: Final = stat.S_IRUSR | stat.S_IWUSR
_EVERYONE: Final = _OWNER | stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
_CONNECT_TIMEOUT_S: Final = 5.0
_V6ONLY: Final = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)


def bind_local(directory: Path) -> socket.socket:
    """Bind the local socket of a log, not listening yet; the caller has the writer lock.

    OSError: the file system has no sockets, the permission is missing, or another kind of file exists.
    """
    path = directory / SOCKET_FILE
    remove_unix(path)
    return bind_unix(path, _OWNER)


def bind_listener(endpoint: Endpoint, key: str) -> socket.socket:
    """Open the listening socket of a listener. A ConfigError names its ``key``."""
    with _as_config_error(endpoint, key):
        bound = _bind(endpoint)
        bound.listen(BACKLOG)
    return bound


def reserve_listener(endpoint: Endpoint, key: str) -> socket.socket:
    """Bind a listener's address for several processes (``share_listener``), without listening."""
    with _as_config_error(endpoint, key):
        bound = _bind(endpoint)
        if bound.family != socket.AF_UNIX:
            # After bind: with the option set before, bind would succeed on another sidecar's port.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return bound


def share_listener(reserved: socket.socket) -> socket.socket:
    """Open a listening socket at a reserved address, which other processes of this user share.

    TCP: each process has its own socket; the kernel distributes connections over all processes that listen.
    A Unix socket is the same one for all.
    """
    if reserved.family == socket.AF_UNIX:
        shared = reserved.dup()
        shared.listen(BACKLOG)
        return shared
    return socket.create_server(
        reserved.getsockname(),
        family=reserved.family,
        backlog=BACKLOG,
        reuse_port=True,
        dualstack_ipv6=reserved.family == socket.AF_INET6 and not reserved.getsockopt(*_V6ONLY),
    )


@contextmanager
def _as_config_error(endpoint: Endpoint, key: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = endpoint.host if is_unix(endpoint) else f"{endpoint.host or ''}:{endpoint.port}"
        holder = port_holder(endpoint.port) if error.errno == errno.EADDRINUSE else None
        by = "" if holder is None else f", by {holder}"
        raise ConfigError(
            key,
            where,
            f"cannot listen there: {error.strerror or error}{by}. Name a free address, "
            "such as PLAINTEXT://127.0.0.1:0 for any free port",
        ) from error


def _bind(endpoint: Endpoint) -> socket.socket:
    return _bind_unix(Path(endpoint.host or "")) if is_unix(endpoint) else _bind_tcp(endpoint)


def _bind_unix(path: Path) -> socket.socket:
    """Replace the socket of a killed process; if a server answers, the address is in use."""
    try:
        connect_unix(path, _CONNECT_TIMEOUT_S).close()
    except FileNotFoundError:
        pass
    except ConnectionRefusedError:
        remove_unix(path)
    else:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    return bind_unix(path, _EVERYONE)


def _bind_tcp(endpoint: Endpoint) -> socket.socket:
    host, port = endpoint.host, endpoint.port
    both = host is None and socket.has_dualstack_ipv6()
    if host is None:
        family = socket.AF_INET6 if both else socket.AF_INET
        address: Any = ("", port)
    else:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # A named IPv6 address is not dual-stack: an IPv4 listener may have the same port.
            bound.setsockopt(*_V6ONLY, not both)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
