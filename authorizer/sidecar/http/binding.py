"""Where a node listens: the sockets of its listeners, and the one in its log's directory.

The socket in a log's directory, ``aclog.sock``, is how commands beside a running node reach it: a directory
log has one writer, and while a node runs it is the node. Who finds the log finds its writer. Its rules:

- Only the owner may connect (mode 0600), who could write the directory as well. So no ACL is asked for what
  comes in here: it may list, change and ask about everyone.
- The holder of the directory's writer lock owns the name. A socket that a killed node left behind has no
  listener any more, and is replaced.

Any user of this machine may connect to a listener that is a Unix socket, if the directories before it let
them: they are known by what the kernel says of them, or are User:ANONYMOUS, as on loopback.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.errors import ConfigError
from authorizer.configuration.listeners import is_unix
from authorizer.sidecar.http.unix_socket import bind_unix, connect_unix, remove_unix
from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.api.authorizer_api import Endpoint

_PROC: Final = Path("/proc")
_TABLES: Final = ("tcp", "tcp6")
#: Of a line of /proc/net/tcp: which fields are needed, and how a socket's state LISTEN is written.
_LOCAL, _STATE, _INODE = 1, 3, 9
_LISTENING: Final = "0A"


def port_holder(port: int) -> str | None:
    """``process 4711 (java)``; None where it is not known."""
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
    """The socket of the log in ``directory``, bound and not listening yet; the caller holds the writer lock.

    Raises:
        OSError: the file system has no sockets, or refused; or another kind of file has the name.
    """
    path = directory / SOCKET_FILE
    remove_unix(path)
    return bind_unix(path, _OWNER)


def bind_listener(endpoint: Endpoint, key: str) -> socket.socket:
    """The listening socket of a listener; ``key`` is where it was configured.

    Raises:
        ConfigError: it cannot listen there.
    """
    with _as_config_error(endpoint, key):
        bound = _bind(endpoint)
        bound.listen(BACKLOG)
    return bound


def reserve_listener(endpoint: Endpoint, key: str) -> socket.socket:
    """A listener's address, for the processes that listen there (``share_listener``).

    Nothing listens yet. No other program gets the address.

    Raises:
        ConfigError: it cannot listen there.
    """
    with _as_config_error(endpoint, key):
        bound = _bind(endpoint)
        if bound.family != socket.AF_UNIX:
            # Not before it is bound: another one's port would not be in use, then.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return bound


def share_listener(reserved: socket.socket) -> socket.socket:
    """A listening socket at a reserved address, beside those of other processes of this user.

    Over TCP it is one of its own: the kernel spreads connections over all that listen, and none to a process
    that has died. A Unix socket is the same one for all.
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
    """What a killed process left is replaced; what a living one listens on is in use."""
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
            # IPv6 alone where it was named: an IPv4 listener may have the same port.
            bound.setsockopt(*_V6ONLY, not both)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound
