"""stdout and stderr as files that can fail: a full disk behind a redirection, a reader that has gone.

Without this an error of stdout says neither what failed nor that it was an output, and comes a second time
while the interpreter ends, with an exit code of its own.
"""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any


class OutputError(OSError):
    """What a command printed did not get where it was to go; ``filename`` says where that is."""


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


def guard_outputs() -> None:
    """From now on stdout raises OutputError where it fails, and stderr fails in silence.

    What cannot be remarked must not change an answer and its exit code. Names hold any character: one that
    the locale cannot show is escaped.
    """
    sys.stdout = _guarded(sys.stdout, f"standard output{_target(1)}")
    sys.stderr = _guarded(sys.stderr, None)


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
