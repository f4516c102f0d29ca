"""Temporary directory of the workers' Unix sockets; the supervisor removes it when it ends.

It also holds each worker's last reported metrics, from which its successor continues (``MetricArchive``).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

_RESTARTS: Final = "restarts"
_CONSOLE: Final = "console"


class ConsoleStatus(NamedTuple):
    """Status of the console's process; ``reason``: why it does not run; None also while it starts."""

    is_up: bool
    restarts: int
    reason: str | None


class SocketDirectory:
    """Paths in the directory. The supervisor creates and removes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def socket(self, number: int) -> Path:
        """The socket of a worker's API."""
        return self.path / f"{number}.sock"

    @property
    def console_socket(self) -> Path:
        """The socket of the console's process."""
        return self.path / "console.sock"

    def counts(self, number: int) -> Path:
        """The file of a worker's counters."""
        return self.path / f"{number}.counts"

    @property
    def output_lock(self) -> Path:
        """The lock of the process that writes to the log output."""
        return self.path / "output.lock"

    @property
    def restarts(self) -> list[int]:
        """Restarts of each worker; the supervisor writes them."""
        return msgspec.msgpack.decode((self.path / _RESTARTS).read_bytes(), type=list[int])

    @restarts.setter
    def restarts(self, counts: list[int]) -> None:
        replace_file(self.path / _RESTARTS, msgspec.msgpack.encode(counts))

    @property
    def console(self) -> ConsoleStatus:
        """Status of the console's process, if there is one; the supervisor writes it."""
        return msgspec.msgpack.decode((self.path / _CONSOLE).read_bytes(), type=ConsoleStatus)

    @console.setter
    def console(self, status: ConsoleStatus) -> None:
        replace_file(self.path / _CONSOLE, msgspec.msgpack.encode(status))

    def remove(self) -> None:
        """Remove the directory and its contents. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file atomically, without fsync: it need not survive a crash of the machine."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
