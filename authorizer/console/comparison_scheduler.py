"""ComparisonScheduler: the threads in which the console compares two sets of ACLs, such as those of a plan.

Most comparisons take milliseconds; after a change for ``User:*`` every principal is compared, which may take
minutes. Every computation begins as a short one. One that uses up a short one's time starts again as a long
one, of which there is one at a time, so that no short one waits for it. A long one ends after a time, too,
and each ends soon after its client has gone.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from authorizer.api.http.error_code import ErrorCode
from authorizer.node.switch_interval import giving_way
from authorizer.sidecar.http.client_presence import while_connected
from authorizer.sidecar.http.errors import HttpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

_T = TypeVar("_T")

#: Short computations at a time, and the CPU time that each has.
_SHORT_COUNT: Final = 2
_SHORT_S: Final = 5.0
#: Of a long one, by the clock: proxies and people do not wait much longer.
_LONG_S: Final = 60.0


class _OutOfTimeError(Exception):
    """A computation has used up its time."""


class _CancelledError(Exception):
    """Nobody waits for the result of a computation."""


class _Budget:
    """The time of one computation, which its own thread checks."""

    def __init__(self, clock: Callable[[], float], limit_s: float) -> None:
        self._clock = clock
        self._limit_s = limit_s
        self._is_cancelled = threading.Event()
        self._give_up_s: float | None = None

    def cancel(self) -> None:
        """Let the computation end. For any thread."""
        self._is_cancelled.set()

    def check(self) -> None:
        """Raise where it is cancelled or its time is over; the time begins with the first call."""
        now_s = self._clock()
        if self._give_up_s is None:
            self._give_up_s = now_s + self._limit_s
        if self._is_cancelled.is_set():
            raise _CancelledError
        if now_s > self._give_up_s:
            raise _OutOfTimeError


class ComparisonScheduler:
    """Of one node."""

    def __init__(self, short_s: float = _SHORT_S, long_s: float = _LONG_S) -> None:
        self._short_s = short_s
        self._long_s = long_s
        self._short = asyncio.Semaphore(_SHORT_COUNT)
        self._long = asyncio.Lock()
        self._threads = ThreadPoolExecutor(_SHORT_COUNT + 1, "aclog-plan")

    async def run(self, request: Request, work: Callable[[Callable[[], None]], _T]) -> _T:
        """The result of ``work``, which calls its argument often; what that raises ends it.

        Raises:
            HttpError: 503, it takes longer than a computation may.
            ConnectionResetError: the client went away.
        """
        return await while_connected(request, self._run(work))

    async def _run(self, work: Callable[[Callable[[], None]], _T]) -> _T:
        try:
            async with self._short:
                return await self._in_thread(work, _Budget(time.thread_time, self._short_s))
        except _OutOfTimeError:
            pass
        async with self._long:
            try:
                return await self._in_thread(work, _Budget(time.monotonic, self._long_s))
            except _OutOfTimeError as error:
                raise HttpError(
                    ErrorCode.OVERLOADED,
                    f"this comparison takes more than {self._long_s:.0f} s: change less at a time, or use "
                    "`aclog plan` or `aclog diff`, which take the time that they need",
                ) from error

    async def _in_thread(self, work: Callable[[Callable[[], None]], _T], budget: _Budget) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._threads, partial(_computed, work, budget)
            )
        finally:
            budget.cancel()


def _computed(work: Callable[[Callable[[], None]], _T], budget: _Budget) -> _T:
    budget.check()
    with giving_way():
        return work(budget.check)
