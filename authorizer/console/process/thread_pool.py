"""The console's own threads: whatever it reads, and however many look, nothing else waits for one of them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_P = ParamSpec("_P")
_T = TypeVar("_T")

_THREADS: Final = ThreadPoolExecutor(4, "aclog-console")


async def run_in_console_thread(work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """What ``work`` returns, as ``asyncio.to_thread``."""
    run = partial(copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, run)
