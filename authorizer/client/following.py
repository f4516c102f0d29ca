"""What keeps a cache up to date: the stream of changes, read by a thread or by a task.

A stream that ends, breaks or falls silent is opened again behind what was heard last. Until then the cache
serves nothing, so callers ask. Who may not follow (403) is logged once, and goes on asking.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.errors import SidecarError
from authorizer.client.events import EventDecoder
from authorizer.client.exchange import FAULTS, error_of

if TYPE_CHECKING:
    import httpcore

    from authorizer.client.address import Address
    from authorizer.client.cache import DecisionCache

log = logging.getLogger(__name__)

_PATH: Final = "/v1/changes"
_OK: Final = 200
#: A quiet stream says every 15 seconds that it is alive.
_TIMEOUT_S: Final = {"connect": 5.0, "read": 35.0, "write": 5.0, "pool": 5.0}
#: Seconds until a stream is opened again: after one that was open, and at most.
_AGAIN_S: Final = 0.1
_AGAIN_LONGEST_S: Final = 5.0


class _Stream:
    """What both kinds have: where it goes on, what it says to the cache, and when it is opened again."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self.address = address
        self._cache = cache
        self._decoder = EventDecoder()
        self._last_said = ""
        self._pause_s = _AGAIN_S

    def request(self) -> dict[str, Any]:
        offset = self._cache.offset
        behind = {} if offset is None else {"last-event-id": str(offset)}
        return self.address.request("GET", _PATH, behind, timeout_s=_TIMEOUT_S)

    def began(self) -> None:
        self._decoder = EventDecoder()
        self._cache.on_connected()
        self._last_said, self._pause_s = "", _AGAIN_S

    def heard(self, piece: bytes) -> None:
        for event in self._decoder.feed(piece):
            self._cache.on_event(event)

    def silent(self) -> None:
        """Nothing more is heard, for whatever reason."""
        self._cache.on_disconnected()

    def ended(self, error: Exception | None) -> float:
        """Seconds until it is opened again."""
        self.silent()
        said = "" if error is None else str(error) or type(error).__name__
        if said and said != self._last_said:
            log.warning("changes of %s are not heard, so decisions are asked for: %s", self.address.url, said)
        self._last_said = said
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _AGAIN_LONGEST_S)
        return pause_s


#: What ends a stream other than its own end.
_BREAKS: Final = (*FAULTS, SidecarError, ValueError, OSError)


class FollowingThread:
    """For a Client."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self._stream = _Stream(address, cache)
        self._closing = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="aclog-changes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; returns when it has ended."""
        self._closing.set()
        if (open_socket := self._socket) is not None:
            # A thread that waits for a byte is not woken by the end of its socket's descriptor.
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_TIMEOUT_S["connect"])

    def _run(self) -> None:
        with ExitStack() as opened:
            opened.callback(self._stream.silent)
            pool = self._stream.address.pool(opened)
            while not self._closing.is_set():
                error: Exception | None = None
                try:
                    self._follow(pool)
                except _BREAKS as broken:
                    error = broken
                self._closing.wait(self._stream.ended(None if self._closing.is_set() else error))

    def _follow(self, pool: httpcore.ConnectionPool) -> None:
        stream = self._stream
        with pool.stream(**stream.request()) as response:
            if response.status != _OK:
                raise error_of(stream.address.url, response, response.read())
            self._socket = response.extensions["network_stream"].get_extra_info("socket")
            try:
                stream.began()
                pieces = response.iter_stream()
                while not self._closing.is_set() and (piece := next(pieces, None)) is not None:
                    stream.heard(piece)
            finally:
                self._socket = None


class FollowingTask:
    """For an AsyncClient; made within its event loop."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self._stream = _Stream(address, cache)
        self._task = asyncio.create_task(self._run(), name="aclog-changes")

    async def close(self) -> None:
        """End it."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        with ExitStack() as opened:
            opened.callback(self._stream.silent)
            async with self._stream.address.async_pool(opened) as pool:
                while True:
                    error: Exception | None = None
                    try:
                        await self._follow(pool)
                    except _BREAKS as broken:
                        error = broken
                    await asyncio.sleep(self._stream.ended(error))

    async def _follow(self, pool: httpcore.AsyncConnectionPool) -> None:
        stream = self._stream
        async with pool.stream(**stream.request()) as response:
            if response.status != _OK:
                raise error_of(stream.address.url, response, await response.aread())
            stream.began()
            async for piece in response.aiter_stream():
                stream.heard(piece)
