"""SharedHandler: several processes write their log lines to one stream, and each line stays whole.

A pipe takes no more than 4,096 bytes at once for sure; when it is full, what a process writes is broken off,
and another one may go on in the middle of a line. So they take turns by a file's lock. The kernel gives that
back when a process is killed.
"""

from __future__ import annotations

import fcntl
import logging
import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pathlib import Path


class SharedHandler(logging.StreamHandler[TextIO]):
    """Made by each process for itself: a lock that was open before a fork is one for both."""

    def __init__(self, stream: TextIO, lock: Path) -> None:
        super().__init__(stream)
        # Its process's until that ends: what logs last comes when handlers are closed.
        self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._depth = 0

    def acquire(self) -> None:
        super().acquire()
        self._depth += 1
        if self._depth == 1:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        super().release()
