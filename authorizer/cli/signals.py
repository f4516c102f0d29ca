"""SIGINT and SIGTERM end a long-running command in order: everything is closed, and the exit code is 0."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _EndedBySignal(BaseException):
    """Not an Exception: nothing but ``ends_on_signals`` is to catch it."""


@contextmanager
def ends_on_signals() -> Iterator[None]:
    """Leave the block at a signal, through every ``with`` and ``finally`` on the way."""
    before = {number: signal.signal(number, _end) for number in _SIGNALS}
    try:
        yield
    except _EndedBySignal:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    # A second signal ends a closing that hangs.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    raise _EndedBySignal
