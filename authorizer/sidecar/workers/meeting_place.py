"""The directory in which the workers of one sidecar meet: theirs alone, and gone when they are.

Each listens on a socket of its own there. What a worker has counted is in a file beside it, as it was last
shown, for the process that comes after it (``metrics``).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import msgspec

_RESTARTS: Final = "restarts"


class MeetingPlace:
    """See the module. Its path is made and removed by the supervisor."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def socket(self, number: int) -> Path:
        """Where a worker answers the others."""
        return self.path / f"{number}.sock"

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

    def remove(self) -> None:
        """With all that is in it. Idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that a reader never sees half of. It need not outlive the machine."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    new.replace(path)
