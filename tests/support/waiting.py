"""Waits for a state that another thread, process or machine brings about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

#: Long enough for a busy machine. A test that passes never waits so long.
TIMEOUT_S = 60.0
_INTERVAL_S = 0.02


def wait_until(
    condition: Callable[[], _T | None],
    what: str = "the state",
    *,
    timeout_s: float = TIMEOUT_S,
    interval_s: float = _INTERVAL_S,
) -> _T:
    """Poll the condition until its result is true, and return that result.

    Args:
        condition: what is polled.
        what: it waits for, in the error.
        timeout_s: how long it waits at most.
        interval_s: between two polls; longer where each one counts towards a limit of the server.

    Raises:
        TimeoutError: with ``what``, and the last result.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}, and have {found!r}")
        time.sleep(interval_s)
    return found
