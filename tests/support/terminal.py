"""Commands on a real terminal: a pty of a given size, and its output."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress

_TIMEOUT_S = 60


def on_terminal(
    command: Sequence[str],
    *,
    columns: int = 80,
    env: Mapping[str, str] | None = None,
    prompt: str = "",
    typed: Sequence[str] = (),
) -> tuple[int, str]:
    """Exit code and output of a command whose stdin, stdout and stderr are one terminal.

    Each of ``typed`` is typed when the output ends with ``prompt``.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    surroundings = {name: value for name, value in os.environ.items() if name not in _DECIDING}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings | dict(env or {})
    )
    os.close(theirs)
    written = bytearray()
    keys = iter(typed)
    # Linux returns EIO when the last writer has closed.
    with suppress(OSError):
        while piece := os.read(ours, 65536):
            written += piece
            if written.endswith(prompt.encode()):
                os.write(ours, next(keys, "").encode())
    os.close(ours)
    return process.wait(_TIMEOUT_S), written.decode("utf-8").replace("\r\n", "\n")


#: What the surroundings of the tests must not decide.
_DECIDING = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TERM")
