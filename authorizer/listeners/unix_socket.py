"""Unix domain sockets with paths of any length, and blocking HTTP over them."""

from __future__ import annotations

import http.client
import socket
import stat
from pathlib import Path

from authorizer.api.sidecar_url import unix_address


def bind_unix(path: Path, mode: int) -> socket.socket:
    """Bind a socket to ``path``, not listening yet, with these permissions whatever the umask.

    OSError: the name exists, the file system has no sockets, or the permission is missing.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with unix_address(path) as address:
            bound.bind(address)
        # The kernel rejects connections until the socket listens, so the mode is set before the first one.
        path.chmod(mode)
    except BaseException:
        bound.close()
        raise
    return bound


def remove_unix(path: Path) -> None:
    """Remove a socket, if there is one of that name, but no other kind of file. Raises OSError."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass


def connect_unix(path: Path, timeout_s: float) -> socket.socket:
    """Connect to the server that listens at ``path``.

    FileNotFoundError, ConnectionRefusedError: there is none. OSError: such as of another user.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with unix_address(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


class UnixConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket, for clients that block."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._timeout_s = timeout_s

    def connect(self) -> None:
        self.sock = connect_unix(self._path, self._timeout_s)
