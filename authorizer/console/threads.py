"""Threads of the console: an executor for requests, and the scheduler of comparisons.

Most comparisons of two sets of ACLs take milliseconds. After a change for ``User:*`` every principal is
compared, which may take minutes. Every comparison starts with a short time limit. One that exceeds it starts
again in the queue of long comparisons, which run one at a time, so short ones never wait for a long one.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

from starlette.requests import Request

from authorizer.api.http.error_code import ErrorCode
from authorizer.node.switch_interval import short_switch_interval
from authorizer.sidecar.http.errors import HttpError
from authorizer.sidecar.http.request_response import while_connected

_P = ParamSpec("_P")
_T = TypeVar("_T")

# Separate from the default executor, so that other parts of the sidecar never wait for the console.
_EXECUTOR: Final = ThreadPoolExecutor(4, "aclog-console")

#: Number of concurrent short comparisons, and the CPU time of each.
_SHORT_COUNT: Final = 2
_SHORT_LIMIT_S: Final = 5.0
#: Wall time of a long comparison: proxies and users do not wait much longer.
_LONG_LIMIT_S: Final = 60.0


async def run_in_console_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a function like ``asyncio.to_thread``, on the console's executor."""
    run = partial(copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_EXECUTOR, run)


class _OutOfTimeError(Exception):
    """A comparison exceeded its time limit."""


class _CancelledError(Exception):
    """The client of a comparison disconnected."""


class _Budget:
    """The time limit of one comparison, checked by its thread."""

    def __init__(self, clock: Callable[[], float], limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._is_cancelled = threading.Event()
        self._deadline_s: float | None = None

    def cancel(self) -> None:
        """End the comparison. From any thread."""
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise if it was cancelled or its time is over; the time starts with the first call."""
        now_s = self._clock()
        if self._deadline_s is None:
            self._deadline_s = now_s + self._limit_s
        if self._is_cancelled.is_set():
            raise _CancelledError
        if now_s > self._deadline_s:
            raise _OutOfTimeError


class ComparisonScheduler:
    """Runs the comparisons of one node."""

    def __init__(self, short_limit_s: float = _SHORT_LIMIT_S, long_limit_s: float = _LONG_LIMIT_S) -> None:
        self._short_limit_s = short_limit_s
        self._long_limit_s = long_limit_s
        self._short = asyncio.Semaphore(_SHORT_COUNT)
        self._long = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_SHORT_COUNT + 1, "aclog-plan")

    async def run(self, request: Request, work: Callable[[Callable[[], None]], _T]) -> _T:
        """Run ``work``, which calls its argument often and ends when that raises.

        HttpError 503: the comparison exceeds the long limit. ConnectionResetError: the client disconnected.
        """
        return await while_connected(request, self._run(work))

    async def _run(self, work: Callable[[Callable[[], None]], _T]) -> _T:
        try:
            async with self._short:
                return await self._in_thread(work, _Budget(time.thread_time, self._short_limit_s))
        except _OutOfTimeError:
            pass
        async with self._long:
            try:
                return await self._in_thread(work, _Budget(time.monotonic, self._long_limit_s))
            except _OutOfTimeError as error:
                raise HttpError(
                    ErrorCode.OVERLOADED,
                    f"this comparison takes more than {self._long_limit_s:.0f} s: change less at a time, or "
                    "use `aclog plan` or `aclog diff`, which have no time limit",
                ) from error

    async def _in_thread(self, work: Callable[[Callable[[], None]], _T], budget: _Budget) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, partial(_compute, work, budget)
            )
        finally:
            budget.cancel()


def _compute(work: Callable[[Callable[[], None]], _T], budget: _Budget) -> _T:
    budget.check()
    with short_switch_interval():
        return work(budget.check)
