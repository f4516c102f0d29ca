"""The directory in which the workers of one sidecar meet: theirs alone, and gone when they are.

Each listens on a socket of its own there. What a worker has counted is in a file beside it, as it was last
shown, for the process that comes after it (``metrics``).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

_RESTARTS: Final = "restarts"
_CONSOLE: Final = "console"


class ConsoleStatus(NamedTuple):
    """How it is with the console's process.

    Attributes:
        is_up: it answers.
        restarts: how often it was started again.
        reason: why it is not there, if more is known than that it is being started.
    """

    is_up: bool
    restarts: int
    reason: str | None


class SocketDirectory:
    """See the module. Its path is made and removed by the supervisor."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def socket(self, number: int) -> Path:
        """Where a worker answers the others."""
        return self.path / f"{number}.sock"

    @property
    def console_socket(self) -> Path:
        """Where the console's process answers the workers."""
        return self.path / "console.sock"

    def counts(self, number: int) -> Path:
        """What a worker has counted."""
        return self.path / f"{number}.counts"

    @property
    def output_lock(self) -> Path:
        """Held by whichever process writes to the log output."""
        return self.path / "output.lock"

    @property
    def restarts(self) -> list[int]:
        """How often each worker was started again; written by the supervisor."""
        return msgspec.msgpack.decode((self.path / _RESTARTS).read_bytes(), type=list[int])

    @restarts.setter
    def restarts(self, counts: list[int]) -> None:
        replace_file(self.path / _RESTARTS, msgspec.msgpack.encode(counts))

    @property
    def console(self) -> ConsoleStatus:
        """The console's process, where there is one; written by the supervisor."""
        return msgspec.msgpack.decode((self.path / _CONSOLE).read_bytes(), type=ConsoleStatus)

    @console.setter
    def console(self, standing: ConsoleStatus) -> None:
        replace_file(self.path / _CONSOLE, msgspec.msgpack.encode(standing))

    def remove(self) -> None:
        """With all that is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that a reader never sees half of. It need not outlive the machine."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
