"""Signals of a long-running command.

SIGINT and SIGTERM end it in order: everything is closed, and the exit code is 0. SIGHUP is a call.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

#: What ends a command.
ENDING: Final = (signal.SIGINT, signal.SIGTERM)


class Hangups:
    """SIGHUP, from the making of this on; what comes before ``call`` is kept for it."""

    def __init__(self) -> None:
        # A signal comes between any two steps of the main thread; this queue alone may be put to there.
        self._hangups: SimpleQueue[None] = SimpleQueue()
        signal.signal(signal.SIGHUP, lambda _number, _frame: self._hangups.put(None))

    def call(self, handle: Callable[[], None]) -> None:
        """Call it for each of them, in a thread of its own, one after the other."""

        def run() -> None:
            while True:
                self._hangups.get()
                handle()

        threading.Thread(target=run, name="aclog-hangups", daemon=True).start()


class _EndedBySignal(BaseException):
    """Not an Exception: nothing but what waits for a signal is to catch it."""


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Leave the block at a signal, through every ``with`` and ``finally`` on the way."""
    before = {number: signal.signal(number, _end) for number in ENDING}
    try:
        yield
    except _EndedBySignal:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_beside_parent(lifeline: int, work: Callable[[], None]) -> None:
    """Work until SIGTERM, in a process that another one sees to; it has blocked the signals before.

    - SIGINT comes to both from a terminal, and is the other one's; so is a second SIGTERM, which a service
      manager may send to all processes of a service.
    - Where the other one is gone it ends too, and at once if it was ending already.

    Args:
        lifeline: a descriptor of a pipe whose other end is the other process's alone.
        work: left at the signal, through every ``with`` and ``finally`` on the way.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end_once)
    threading.Thread(target=_follow, args=(lifeline,), name="aclog-lifeline", daemon=True).start()
    with suppress(_EndedBySignal):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        work()


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal ends a closing that hangs.
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    raise _EndedBySignal


def _end_once(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)
    raise _EndedBySignal


def _follow(lifeline: int) -> None:
    os.read(lifeline, 1)  # nothing is ever written there: it ends with the other process
    is_ending = signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGKILL if is_ending else signal.SIGTERM)
