"""Events as lines: on stdout, and in a file that is rotated by its size or by another program.

Written by the system's own calls, without a buffer: what a disk has no room for is known at once, and what
was written of a line is cut off again. The handlers of ``logging`` keep it, and raise when they are closed.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from authorizer.node.decision_log.destination import Destination

if TYPE_CHECKING:
    from collections.abc import Sequence

log = structlog.get_logger(__name__)

_MODE: Final = 0o640
_ROTATE_AGAIN_S: Final = 60.0
_PATIENCE_S: Final = 5.0
#: Bytes that a pipe takes whole, whatever other processes write to it (POSIX has 512, Linux 4096).
_AT_ONCE_BYTES: Final = 4096


class StdoutDestination(Destination):
    """Lines on a file descriptor that others may write to, too: no line is torn by theirs.

    A pipe that is full is waited for, so that a slow reader gets all; what comes while it has been full for
    ``patience_s`` is lost, at once.
    """

    def __init__(self, name: str, descriptor: int = 1, *, patience_s: float = _PATIENCE_S) -> None:
        super().__init__(name)
        self._descriptor = descriptor
        self._patience_s = patience_s
        self._is_read = True
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)

    def put(self, events: Sequence[bytes]) -> None:
        at, end = 0, 0
        while at < len(events):
            size_bytes = 0
            while end < len(events) and (end == at or size_bytes + len(events[end]) < _AT_ONCE_BYTES):
                size_bytes += len(events[end]) + 1
                end += 1
            if not self._has_room():
                self.lose(len(events) - at, "nothing reads it")
                return
            try:
                _write(self._descriptor, b"\n".join([*events[at:end], b""]))
            except OSError as error:
                self.lose(len(events) - at, str(error.strerror))
                return
            self.written += end - at
            at = end

    def close(self) -> None:
        """Nothing waits."""

    def _has_room(self) -> bool:
        """Whether what a pipe takes at once can be written."""
        self._is_read = bool(self._room.poll(self._patience_s * 1000 if self._is_read else 0))
        return self._is_read


class FileDestination(Destination):
    """Lines at the end of a file, which is this process's alone.

    When it would grow beyond ``max_bytes`` it becomes ``PATH.1``, what was that ``PATH.2`` and so on, and a
    new one begins; ``keep`` of them are kept. When it was moved or deleted by another program (logrotate) it
    is made anew. It is readable for owner and group.

    Raises:
        OSError: it cannot be opened, or another process writes it.
    """

    def __init__(self, name: str, path: Path, *, max_bytes: int, keep: int) -> None:
        super().__init__(name)
        self._path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._rotate_from_s = 0.0
        self._descriptor: int | None = _open(path)
        self._is_closed = False

    def put(self, events: Sequence[bytes]) -> None:
        if not events:
            return
        if self._is_closed:
            self.lose(len(events), "it is closed")
            return
        data = b"\n".join([*events, b""])
        try:
            descriptor = self._ready(len(data))
        except OSError as error:
            self.lose(len(events), str(error.strerror))
            return
        before_bytes = os.fstat(descriptor).st_size
        try:
            _write(descriptor, data)
        except OSError as error:
            whole = self._cut(descriptor, before_bytes, data)
            self.written += whole
            self.lose(len(events) - whole, str(error.strerror))
        else:
            self.written += len(events)

    def close(self) -> None:
        self._is_closed = True
        self._release()

    def _ready(self, size_bytes: int) -> int:
        """The file that has room for these bytes, opened or rotated if need be."""
        if self._descriptor is not None and not self._is_in_place(self._descriptor):
            self._release()
        if self._descriptor is None:
            self._descriptor = _open(self._path)
        held_bytes = os.fstat(self._descriptor).st_size
        if self._max_bytes and held_bytes and held_bytes + size_bytes > self._max_bytes:
            self._descriptor = self._rotated(self._descriptor)
        return self._descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            named = self._path.stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(descriptor))

    def _rotated(self, descriptor: int) -> int:
        """The new file; the one that there is, if files cannot be renamed here."""
        if time.monotonic() < self._rotate_from_s:
            return descriptor
        kept = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._keep + 1))]
        try:
            for older, newer in reversed(list(zip(kept[1:], kept[:-1], strict=True))):
                with suppress(FileNotFoundError):
                    newer.replace(older)
            opened = _open(self._path)
        except OSError as error:
            self._rotate_from_s = time.monotonic() + _ROTATE_AGAIN_S
            log.warning(
                "decision_log_not_rotated",
                file=str(self._path),
                reason=error.strerror,
                way_out="this process must be allowed to rename files in that directory; until then it grows",
            )
            return descriptor
        os.close(descriptor)
        return opened

    def _cut(self, descriptor: int, before_bytes: int, data: bytes) -> int:
        """Take away the last line if it is not whole; returns how many were written."""
        try:
            written = data[: max(0, os.fstat(descriptor).st_size - before_bytes)]
            whole_bytes = written.rfind(b"\n") + 1
            if whole_bytes < len(written):
                os.ftruncate(descriptor, before_bytes + whole_bytes)
        except OSError:
            return 0
        return written.count(b"\n")

    def _release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _open(path: Path) -> int:
    """At its end, locked; a line that a crash has torn is ended."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size_bytes = os.fstat(descriptor).st_size
        if size_bytes and os.pread(descriptor, 1, size_bytes - 1) != b"\n":
            _write(descriptor, b"\n")
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise BlockingIOError(error.errno, "another process writes it", str(path)) from None
        raise
    return descriptor


def _write(descriptor: int, data: bytes) -> None:
    """All of it, or OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
