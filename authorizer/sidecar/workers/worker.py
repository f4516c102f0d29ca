"""Worker: what the supervisor gives to one process, and what that says of itself."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from authorizer.sidecar.http.binding import share_listener
from authorizer.sidecar.http.unix_socket import bind_unix, remove_unix

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from mmap import mmap
    from multiprocessing.connection import Connection

    from authorizer.sidecar.workers.messages import Report
    from authorizer.sidecar.workers.socket_directory import SocketDirectory

#: The one that writes the log and keeps the snapshots.
WRITER: Final = 0
_OWNER: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of several; or the console's process, which has none of the listeners.

    Attributes:
        number: from 0 on; ``count`` is the console's.
        count: how many workers there are.
        has_console: whether there is a process for the console.
        place: where they meet.
        reserved: the sockets of the listeners, in the order of the configuration.
        writable: whether the writer can change ACLs; known once it listens.
        pipe: to the supervisor.
        turns: shared with it: a number for each worker, which is another one whenever its event loop turns.
    """

    number: int
    count: int
    has_console: bool
    directory: SocketDirectory
    reserved: Sequence[socket.socket]
    writable: bool
    pipe: Connection
    heartbeats: mmap
    _sending: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_writer(self) -> bool:
        """Whether it is the one that writes the log and keeps the snapshots."""
        return self.number == WRITER

    @property
    def is_console(self) -> bool:
        """Whether it is the console's process."""
        return self.number == self.count

    @property
    def instance_number(self) -> int | None:
        """Its number, where what it writes or sends is to say it; None for the only worker."""
        return None if self.count == 1 and not self.is_console else self.number

    def listener(self, index: int) -> socket.socket:
        """The listening socket of the listener with this index."""
        return share_listener(self.reserved[index])

    def listen(self) -> socket.socket:
        """The socket at which the others ask; bound anew, so that nothing waits at a dead worker's."""
        path = self.directory.console_socket if self.is_console else self.directory.socket(self.number)
        remove_unix(path)
        return bind_unix(path, _OWNER)

    def beat(self) -> None:
        """Let the supervisor know that the event loop turns; never waits."""
        self.heartbeats[self.number] = (self.heartbeats[self.number] + 1) % 256

    def report(self, report: Report) -> None:
        """Let the supervisor know. From any thread."""
        with self._sending, suppress(BrokenPipeError):  # it has gone, and this worker is about to be
            self.pipe.send(report)
