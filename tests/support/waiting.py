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
    condition: Callable[[], _T | None], what: str = "the state", *, timeout_s: float = TIMEOUT_S
) -> _T:
    """Poll the condition until its result is true, and return that result.

    Raises:
        TimeoutError: with ``what``, and the last result.
    """
    deadline_s = time.monotonic() + timeout_s
    while not (found := condition()):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:g} s for {what}, and have {found!r}")
        time.sleep(_INTERVAL_S)
    return found
