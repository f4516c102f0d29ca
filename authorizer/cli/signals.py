"""Signals of a long-running command.

SIGINT and SIGTERM end it in order: everything is closed, and the exit code is 0. SIGHUP calls a function.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType
from typing import Final, NoReturn

#: Signals that end a command.
ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Hangups:
    """Queues SIGHUP signals from its creation on, and calls a function for each."""

    def __init__(self) -> None:
        # SimpleQueue.put is reentrant, so a signal handler may call it.
        self._hangups: SimpleQueue[None] = SimpleQueue()
        signal.signal(signal.SIGHUP, lambda _number, _frame: self._hangups.put(None))

    def call(self, handle: Callable[[], None]) -> None:
        """Call ``handle`` for each signal, including earlier ones, in one separate thread."""

        def run() -> None:
            while True:
                self._hangups.get()
                handle()

        threading.Thread(target=run, name="aclog-hangups", daemon=True).start()


class _EndedBySignal(BaseException):
    """Raised by the signal handler; no Exception, so that no handler of errors catches it."""


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Leave the block at a signal, through every ``with`` and ``finally``."""
    before = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield
    except _EndedBySignal:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_as_child(lifeline: int, work: Callable[[], None]) -> None:
    """Work until SIGTERM, in a child process whose signals are blocked so far.

    ``lifeline``: a descriptor of a pipe; only the parent has the other end.

    - SIGINT is ignored, because a terminal sends it to both processes and the parent handles it. So is a
      second SIGTERM, which a service manager may send to all processes of a service.
    - When the parent has ended, the child ends too, immediately if it was already ending.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_once)
    threading.Thread(target=_end_with_parent, args=(lifeline,), name="aclog-lifeline", daemon=True).start()
    with suppress(_EndedBySignal):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        work()


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal ends the process if closing hangs.
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    raise _EndedBySignal


def _end_once(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise _EndedBySignal


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # the parent writes nothing: this returns when it has ended
    is_ending = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGKILL if is_ending else signal.SIGTERM)
