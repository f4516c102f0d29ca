"""Atomic file writes: write to a temporary name, sync, rename, sync the directory.

After a crash at any point the target is the old file, no file, or the new file, never a part of it. A file
with TEMPORARY_PREFIX may remain; nothing reads it, and the next write into the same directory removes those
older than STALE_S.

A symbolic link is followed: its target is replaced, the link stays. A device, a FIFO or an open descriptor
(``/dev/stdout``, ``/dev/fd/N``) is not replaced but receives the complete content in one copy. A directory or
a socket is refused.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final
from uuid import uuid4

from records.log.directory.files import sync_directory

TEMPORARY_PREFIX: Final = ".aclog-writing-"
#: A file that is being written changes every few seconds; after this time its writer is dead.
STALE_S: Final = 60 * 60

_PROC: Final = Path("/proc")
#: Errors of link() on file systems without hard links.
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@contextmanager
def atomic_write(path: Path, *, only_new: bool = False) -> Iterator[IO[bytes]]:
    """A file to write to, which replaces ``path`` when the block ends without an exception.

    ``path`` may be anything else that can be written to. ``only_new``: never replace an existing file,
    including one created in the meantime: FileExistsError. Any other OSError names ``path``.
    """
    with _named(path):
        target = _target(path)
    if target is None:
        with tempfile.TemporaryFile() as staged:
            yield staged
            staged.seek(0)
            with _named(path), _opened(path) as stream:
                shutil.copyfileobj(staged, stream)
        return
    temporary = target.with_name(f"{TEMPORARY_PREFIX}{uuid4().hex}")
    try:
        with _named(path):
            file = temporary.open("xb")
        with file:
            yield file
            with _named(path):
                file.flush()
                os.fsync(file.fileno())
        with _named(path):
            if only_new:
                _link(temporary, target)
            else:
                temporary.replace(target)
    finally:
        with suppress(OSError):
            temporary.unlink()
    with _named(path):
        sync_directory(target.parent)
        _sweep(target.parent)


def make_directories(path: Path) -> None:
    """``mkdir -p`` with every new entry synced: a crash must not lose the directory of a synced file."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
    # The innermost first: a journaling file system then writes the entries of all of them together.
    for directory in missing:
        sync_directory(directory.parent)


def _target(path: Path) -> Path | None:
    """The file to replace or create, links resolved; None if the path must be written to in place."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path))
    if _descriptor(path) is not None or stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode):
        return None
    if stat.S_ISREG(mode):
        return Path(os.path.realpath(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    raise OSError(errno.EINVAL, "neither a file nor a device")


def _descriptor(path: Path) -> Path | None:
    """``/proc/PID/fd/N`` if the path leads to an open descriptor, else None."""
    while path.is_symlink():
        directory = path.parent.resolve()
        if directory.is_relative_to(_PROC):
            return directory / path.name
        path = directory / path.readlink()
    return None


def _opened(path: Path) -> IO[bytes]:
    link = _descriptor(path)
    if link is not None and link.parent == Path(f"/proc/{os.getpid()}/fd"):
        # Opening it again would start at offset 0 and truncate the file.
        return os.fdopen(os.dup(int(link.name)), "wb")
    return path.open("wb")


def _link(temporary: Path, target: Path) -> None:
    """Give the file its name unless the name exists."""
    try:
        target.hardlink_to(temporary)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        temporary.replace(target)


def _sweep(directory: Path) -> None:
    """Remove temporary files of killed writers."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith(TEMPORARY_PREFIX):
                with suppress(OSError):  # just renamed, or another user's
                    if time.time() - entry.stat().st_mtime > STALE_S:
                        Path(entry.path).unlink()


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make errors name ``path``, not the temporary file."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
