"""Local files that appear whole or not at all: written under another name, synced, renamed, directory synced.

After a crash at any point the target is the old file, no file, or the new file: never a part of it. What may
stay behind is a file that starts with TEMPORARY_PREFIX; nothing reads those.
"""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Final
from uuid import uuid4

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TEMPORARY_PREFIX: Final = ".aclog-writing-"


@contextmanager
def atomic_write(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes ``path``'s place when the block ends without an exception.

    Raises:
        OSError: the directory is not there, or cannot be written to.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_directory(path.parent)


def make_directories(path: Path) -> None:
    """``mkdir -p``, with every new entry synced: a file in a directory that a crash forgets is lost too."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(path: Path) -> None:
    """Make creations and renames in this directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
