"""WriterLock: an advisory file lock, so that an aclog-managed log has one writer.

The kernel releases the lock when its holder ends in any way; the process id in the file is for messages only.
Readers take no lock.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from records.errors import LogLockedError
from records.log.directory.files import LOCK_FILE

# `has_writer` shares the lock for an instant, or for longer on a busy machine: a writer retries meanwhile.
_RETRY_INTERVAL_S: Final = 0.002
_SHARED_TIMEOUT_S: Final = 5.0


def has_writer(directory: Path) -> bool:
    """Whether the log is open for writing now, or this user may not test that. Raises OSError."""
    try:
        descriptor = os.open(directory / LOCK_FILE, os.O_RDONLY)
    except FileNotFoundError:
        return False
    except PermissionError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


class WriterLock:
    """Held from construction to ``release``.

    Raises:
        LogLockedError: another opening, in this process or another one, holds it.
        OSError: the lock file cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            self._take(directory)
        except BaseException:
            os.close(self._descriptor)
            raise

    def _take(self, directory: Path) -> None:
        deadline_s = time.monotonic() + _SHARED_TIMEOUT_S
        while not (is_taken := self._try(fcntl.LOCK_EX)) and self._is_shared():
            if time.monotonic() > deadline_s:
                break
            time.sleep(_RETRY_INTERVAL_S)
        if is_taken:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
            return
        holder = os.pread(self._descriptor, 32, 0).decode("ascii", errors="replace").strip()
        by = f"process {holder}" if holder.isdigit() else "another process"
        raise LogLockedError(
            f"{directory}: {by} has this log open for writing, and a log has one writer; "
            f"read it, or stop that process first"
        )

    def _is_shared(self) -> bool:
        is_shared = self._try(fcntl.LOCK_SH)
        if is_shared:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return is_shared

    def _try(self, operation: int) -> bool:
        try:
            fcntl.flock(self._descriptor, operation | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        # Do not remove the file: then two processes could lock two files of the same name.
        os.close(self._descriptor)
