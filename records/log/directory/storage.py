"""Files of a log as the operating system gives them: errors that name the path, and small durable files."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from records.errors import LogNotFoundError, LogStorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a LogError that names the file that failed; ``path`` if it is not known."""
    try:
        yield
    except OSError as error:
        failed = error.filename if isinstance(error.filename, str) else str(path)
        reason = f"{failed}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            raise LogNotFoundError(reason) from error
        raise LogStorageError(reason) from error


#: Syncs the content of a file, and of its other attributes only what reading it needs.
sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def sync_directory(directory: Path) -> None:
    """Make the creations and renames in ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, text: str) -> None:
    """Write a small file durably and in one step: a crash leaves the old content or the new one."""
    staging = path.with_name(f"{path.name}.tmp")
    with staging.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staging.replace(path)
    sync_directory(path.parent)


def create_file(path: Path) -> int:
    """Create an empty file, durably; returns its descriptor, open for writing. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        sync_directory(path.parent)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes, position: int) -> None:
    """Write all of ``data`` at ``position``; a full disk may leave a part of it. Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        position += written
        rest = rest[written:]
