"""Waits for a state that another thread, process or machine causes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

#: Timeout for a busy machine; a test that passes does not wait for it.
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
        condition: is polled.
        what: name of the state, for the error.
        timeout_s: maximum wait.
        interval_s: time between two polls; longer if each poll counts towards a limit of the server.

    Raises:
        TimeoutError: with ``what``, and the last result.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}, and have {found!r}")
        time.sleep(interval_s)
    return found
