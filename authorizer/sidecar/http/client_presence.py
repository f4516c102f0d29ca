"""Work that is cancelled when the client that asked for it closes its connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from starlette.requests import Request

_T = TypeVar("_T")


async def while_connected(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of ``work``; the request's body must have been read.

    Raises:
        ConnectionResetError: the client went away first, and the work was cancelled.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_wait_for_leave(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ConnectionResetError("the client closed the connection before its answer was ready")
    finally:
        for task in (working, leaving):
            task.cancel()
        # What was cancelled has ended when this returns: nothing of it outlives its request.
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _wait_for_leave(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
