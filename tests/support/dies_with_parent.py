"""Replaces this process by a command that the kernel kills when its parent process ends.

    python dies_with_parent.py PARENT COMMAND...

Linux's parent-death signal (prctl(2)) survives execve. It is sent when the thread ends that started the
command, so the main thread must start it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def dying_with_parent(command: Sequence[str]) -> list[str]:
    """The command of a process that ends when this process ends."""
    return [sys.executable, __file__, str(os.getpid()), *command]


def main(parent: int, command: Sequence[str]) -> None:
    """Execute the command; never returns."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == parent:  # else the parent ended before the call
        os.execvp(command[0], [*command])


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
