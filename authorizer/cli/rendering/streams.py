"""Standard streams that report their failures: a full disk, a closed pipe, a closed stream.

By default an error of stdout does not name the stream, and is raised a second time, with another exit code,
when the interpreter ends. Python sets a stream that is closed at its start (``<&-``) to None, and the next
opened file gets its descriptor.
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
    """Output was not written; ``filename`` names its target."""


class OutputClosedError(OutputError):
    """A command has output, and stdout is closed."""


class InputClosedError(OSError):
    """A command needs input, and stdin is closed."""


class _ClosedInput(io.RawIOBase):
    """The stdin of a process that was started without one."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 0

    def readinto(self, _buffer: Any, /) -> int:
        raise InputClosedError(errno.EBADF, "it is closed, and nothing can be read", _STANDARD_INPUT)


class _ClosedOutput(io.RawIOBase):
    """The stdout or stderr of a process that was started without one; only output to stdout is an error."""

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
    """A descriptor that is written to until it fails; later output is dropped."""

    def __init__(self, descriptor: int, name: str | None) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self._name = name
        self._has_failed = False

    def write(self, data: Any, /) -> int:
        size_bytes = memoryview(data).nbytes
        if self._has_failed or not size_bytes:  # click tests a stream by writing nothing
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
    """Replace the standard streams: stdin and stdout raise errors that name them; stderr fails silently.

    A note that cannot be printed must not change an answer and its exit code. Characters that the locale
    cannot encode are escaped.
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
    """Open /dev/null for closed descriptors, or libraries would print into the next opened file."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STDERR_DESCRIPTOR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _closed_output(descriptor: int) -> io.TextIOWrapper:
    raw = _ClosedOutput(descriptor)
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")


def _guarded(stream: Any, name: str | None) -> Any:
    # A stream that the calling program has replaced is unchanged.
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
    """The file of a redirection, if the system shows it."""
    with suppress(OSError):
        return f" ({Path(f'/proc/self/fd/{descriptor}').readlink()})"
    return ""
