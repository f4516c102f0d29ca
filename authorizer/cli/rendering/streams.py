"""stdin, stdout and stderr as files that can fail: a full disk, a reader that has gone, one that is closed.

Without this an error of stdout says neither what failed nor that it was an output, and comes a second time
while the interpreter ends, with an exit code of its own. Python sets a stream to None that is closed when it
starts (``<&-``), and the next file that is opened gets its descriptor.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

_STANDARD_INPUT: Final = "standard input"
_STANDARD_OUTPUT: Final = "standard output"
_STDOUT_DESCRIPTOR: Final = 1
_STDERR_DESCRIPTOR: Final = 2


class OutputError(OSError):
    """What a command printed did not get where it was to go; ``filename`` says where that is."""


class OutputClosedError(OutputError):
    """A command had something to print, and stdout is closed."""


class InputClosedError(OSError):
    """A command had something to read, and stdin is closed."""


class _ClosedInput(io.RawIOBase):
    """The stdin of a process that was started without one."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readinto(self, _buffer: Any, /) -> int:
        raise InputClosedError(errno.EBADF, "it is closed, and nothing can be read", _STANDARD_INPUT)


class _ClosedOutput(io.RawIOBase):
    """The stdout or stderr of a process that was started without one; only stdout's use is an error."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._has_failed = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, data: Any, /) -> int:
        size_bytes = memoryview(data).nbytes
        if self._descriptor == _STDERR_DESCRIPTOR or self._has_failed or not size_bytes:
            return size_bytes
        self._has_failed = True
        raise OutputClosedError(errno.EBADF, "it is closed, and nothing can be printed", _STANDARD_OUTPUT)


class _Output(io.FileIO):
    """A descriptor that is written to until it fails; what comes after that is dropped."""

    def __init__(self, descriptor: int, name: str | None) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._name = name
        self._has_failed = False

    def write(self, data: Any, /) -> int:
        size_bytes = memoryview(data).nbytes
        if self._has_failed or not size_bytes:  # click tries what it may write to by writing nothing
            return size_bytes
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self._has_failed = True
            if self._name is None:
                return size_bytes
            raise OutputError(error.errno, f"writing failed: {error.strerror}", self._name) from error


def guard_streams() -> None:
    """From now on stdin and stdout raise an error that names them where they fail; stderr fails in silence.

    What cannot be remarked must not change an answer and its exit code. Names hold any character: one that
    the locale cannot show is escaped.
    """
    _occupy_closed_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = _closed_output(_STDOUT_DESCRIPTOR)
    else:
        sys.stdout = _guarded(sys.stdout, f"{_STANDARD_OUTPUT}{_target(_STDOUT_DESCRIPTOR)}")
    if sys.stderr is None:
        sys.stderr = _closed_output(_STDERR_DESCRIPTOR)
    else:
        sys.stderr = _guarded(sys.stderr, None)


def _occupy_closed_descriptors() -> None:
    """Without this the next file that is opened, perhaps a log, is where a library or a child prints."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR_DESCRIPTOR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _closed_output(descriptor: int) -> io.TextIOWrapper:
    raw = _ClosedOutput(descriptor)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _guarded(stream: Any, name: str | None) -> Any:
    # Where a program has put something else in their place, that is left alone.
    if not isinstance(stream, io.TextIOWrapper) or not isinstance(
        stream.buffer, io.BufferedWriter | io.FileIO
    ):
        return stream
    stream.flush()
    output = _Output(stream.fileno(), name)
    return io.TextIOWrapper(
        io.BufferedWriter(output) if isinstance(stream.buffer, io.BufferedWriter) else output,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _target(descriptor: int) -> str:
    """Where a redirection leads, if the system shows it."""
    with suppress(OSError):
        return f" ({Path(f'/proc/self/fd/{descriptor}').readlink()})"
    return ""
