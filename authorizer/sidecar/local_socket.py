"""The socket in a log's directory, by which commands beside a running node reach it.

A directory log has one writer, and while a node runs it is the node. So the node listens on a Unix domain
socket, ``aclog.sock``, in the directory itself: who finds the log finds its writer. Rules:

- Only the owner may connect (mode 0600), who could write the directory as well. So no ACL is asked for what
  comes in here: it may list, change and ask about everyone.
- The holder of the directory's writer lock owns the name. A socket that a killed node left behind has no
  listener any more, and is replaced.
- A path of any length will do, though the kernel takes 108 bytes: a longer one is named by a descriptor.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: sockaddr_un.sun_path on Linux, with the zero byte at its end.
_ADDRESS_BYTES_MAX: Final = 108


def bind_local(directory: Path) -> socket.socket:
    """The socket of the log in ``directory``, bound and not listening yet; the caller holds the writer lock.

    Raises:
        OSError: the file system has no sockets, or refused; or another kind of file has the name.
    """
    remove_local(directory)
    path = directory / SOCKET_FILE
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _address(path) as address:
            bound.bind(address)
        # Connections are refused until it listens, so none comes before this.
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except BaseException:
        bound.close()
        raise
    return bound


def remove_local(directory: Path) -> None:
    """Remove the socket file, if there is one. Raises OSError."""
    path = directory / SOCKET_FILE
    try:
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
    except FileNotFoundError:
        pass


def connect_local(path: Path, timeout_s: float) -> socket.socket:
    """A connection to the node that listens at ``path``.

    Raises:
        FileNotFoundError, ConnectionRefusedError: none does.
        OSError: not reached, such as PermissionError for another user.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        with _address(path) as address:
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _address(path: Path) -> Iterator[str]:
    """``path`` as the kernel takes it, within the block."""
    if len(os.fsencode(path)) < _ADDRESS_BYTES_MAX:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
