"""StoppableServer: uvicorn's server, which waits for ``stop`` and does not check ten times a second."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop
from contextlib import suppress
from typing import Final

import uvicorn

#: How often uvicorn's ``on_tick`` renews the Date header.
_TICK_INTERVAL_S: Final = 1.0


class StoppableServer(uvicorn.Server):
    """Begins its shutdown when ``stop`` is called."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._stopping = asyncio.Event()
        self._loop: AbstractEventLoop | None = None

    def stop(self) -> None:
        """Begin the shutdown, or end the start. Thread-safe, idempotent."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop was closed: the server has ended
                self._loop.call_soon_threadsafe(self._stopping.set)

    async def main_loop(self) -> None:
        """Run until ``stop``."""
        # Before the first check of should_exit, which `stop` sets first.
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_INTERVAL_S):
                    await self._stopping.wait()
