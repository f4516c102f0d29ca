"""Worker: the resources that the supervisor gives to one process, and the messages between both."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.listeners.binding import share_listener
from authorizer.listeners.unix_socket import bind_unix, remove_unix

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from mmap import mmap
    from multiprocessing.connection import Connection

    from authorizer.configuration.load import ConfigInputs
    from authorizer.node.reconfiguration import Change
    from authorizer.sidecar.workers.socket_directory import SocketDirectory


class Listening(NamedTuple):
    """The worker accepts requests at these URLs.

    Attributes:
        urls: of HTTP.
        other_urls: of other protocols.
    """

    urls: list[str]
    writable: bool
    other_urls: list[str]


class LogReady(NamedTuple):
    """The worker has opened its log; from now on the supervisor restarts it whenever it ends."""


class WorkerStopping(NamedTuple):
    """The worker cannot continue: the error as the command line reports it."""

    message: str
    code: int
    hint: str


class SettingsChange(NamedTuple):
    """A request to change the process's or a cluster's settings, as ``Reconfiguration.put``."""

    cluster: str
    texts: Mapping[str, str | None]
    by: str
    is_trial: bool


class SettingsResult(NamedTuple):
    """The supervisor's answer: the changes in all workers, or the reason why nothing was changed."""

    changes: list[Change]
    refusal: str | None


class NewSettings(NamedTuple):
    """Validated settings of the process or of a cluster, which the worker must apply."""

    cluster: str
    given: ConfigInputs
    put: Mapping[str, str]


class SettingsApplied(NamedTuple):
    """The worker has applied the new settings."""


Report = Listening | LogReady | WorkerStopping | SettingsChange | SettingsApplied


#: Number of the worker that writes the log and the snapshots.
WRITER: Final = 0
_OWNER: Final = 0o600


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker, or the console's process, which has no listeners.

    Attributes:
        number: from 0; the console's process has the number ``count``.
        reserved: the sockets of the listeners, in the order of the configuration.
        reserved_admin: the same of the listeners of Kafka's protocol.
        quota_memory: memory that the workers share for the quotas of Kafka's protocol, for each cluster.
        writable: whether the writer can change ACLs; known once it listens.
        heartbeats: memory shared with the supervisor: a counter of event loop iterations for each worker.
    """

    number: int
    count: int
    has_console: bool
    directory: SocketDirectory
    reserved: Sequence[socket.socket]
    reserved_admin: Sequence[socket.socket]
    quota_memory: Sequence[mmap]
    writable: bool
    pipe: Connection
    heartbeats: mmap
    _sending: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_writer(self) -> bool:
        """Whether it writes the log and the snapshots."""
        return self.number == WRITER

    @property
    def is_console(self) -> bool:
        return self.number == self.count

    @property
    def instance_number(self) -> int | None:
        """The number for logs and telemetry; None for the only worker."""
        return None if self.count == 1 and not self.is_console else self.number

    def listener(self, index: int) -> socket.socket:
        return share_listener(self.reserved[index])

    def listen(self) -> socket.socket:
        """Bind the socket of the worker API anew, because clients may wait on a dead worker's socket."""
        path = self.directory.console_socket if self.is_console else self.directory.socket(self.number)
        remove_unix(path)
        return bind_unix(path, _OWNER)

    def beat(self) -> None:
        """Report that the event loop runs; never blocks."""
        self.heartbeats[self.number] = (self.heartbeats[self.number] + 1) % 256

    def report(self, report: Report) -> None:
        """Send a report to the supervisor. Thread-safe."""
        with self._sending, suppress(BrokenPipeError):  # the supervisor has died; this worker ends soon
            self.pipe.send(report)
