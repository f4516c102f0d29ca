"""Unix domain sockets, by paths of any length.

The kernel takes 108 bytes; a longer path is named by a descriptor of its directory.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: sockaddr_un.sun_path on Linux, with the zero byte at its end.
_ADDRESS_BYTES_MAX: Final = 108


def bind_unix(path: Path, mode: int) -> socket.socket:
    """A socket bound to ``path`` and not listening yet, with these permissions whatever the umask.

    Raises:
        OSError: the name is taken, the file system has no sockets, or it may not be made there.
    """
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with unix_address(path) as address:
            bound.bind(address)
        # Connections are refused until it listens, so none comes before this.
        path.chmod(mode)
    except BaseException:
        bound.close()
        raise
    return bound


def remove_unix(path: Path) -> None:
    """Remove the socket of that name, if there is one; other files stay. Raises OSError."""
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass


def connect_unix(path: Path, timeout_s: float) -> socket.socket:
    """A connection to what listens at ``path``.

    Raises:
        FileNotFoundError, ConnectionRefusedError: nothing does.
        OSError: not reached, such as PermissionError for another user.
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


@contextmanager
def unix_address(path: Path) -> Iterator[str]:
    """``path`` as the kernel takes it, within the block. OSError: its directory cannot be opened."""
    if len(os.fsencode(path)) < _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
