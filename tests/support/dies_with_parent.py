"""Runs a command in this process's place that the kernel ends with whoever started it, however that ended.

    python dies_with_parent.py PARENT COMMAND...

Linux' parent-death signal (prctl(2)) lasts over execve. It comes when the thread ends that started the
command, so that must be one that lives as long as the process: the main thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """The command, for a process that ends when this one has ended."""
    return [sys.executable, __file__, str(os.getpid()), *command]


def main(parent: int, command: Sequence[str]) -> None:
    """Never returns."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # or it has ended before the call
        os.execvp(command[0], [*command])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
