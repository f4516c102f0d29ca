"""Stream of changes that keeps a cache up to date, read by a thread or by a task.

A stream that ends, breaks or falls silent is opened again at the offset of its last event. Until then the
cache serves nothing, so every decision is requested from the sidecar. A caller without the right to read the
stream (403) gets one warning in the log and works without the cache.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Final

from authorizer.api.errors import SidecarError
from authorizer.client.exchange import TRANSPORT_ERRORS, error_of_response
from authorizer.client.messages import ChangeEventDecoder

if TYPE_CHECKING:
    import httpcore

    from authorizer.client.address import Address
    from authorizer.client.cache import DecisionCache

log = logging.getLogger(__name__)

_PATH: Final = "/v1/changes"
_OK: Final = 200
#: A quiet stream sends a comment every 15 seconds.
_TIMEOUT_S: Final = {"connect": 5.0, "read": 35.0, "write": 5.0, "pool": 5.0}
#: Pause before a stream is opened again: after one that was open, and the longest.
_RETRY_INTERVAL_S: Final = 0.1
_RETRY_INTERVAL_MAX_S: Final = 5.0
#: What ends a stream other than its own end.
_STREAM_ERRORS: Final = (*TRANSPORT_ERRORS, SidecarError, ValueError, OSError)


class _ChangeStream:
    """The part without I/O: where the stream continues, what it tells the cache, and when it is retried."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self.address = address
        self._cache = cache
        self._decoder = ChangeEventDecoder()
        self._last_reason = ""
        self._pause_s = _RETRY_INTERVAL_S

    def request(self) -> dict[str, Any]:
        offset = self._cache.offset
        headers = {} if offset is None else {"last-event-id": str(offset)}
        return self.address.request("GET", _PATH, headers, timeout_s=_TIMEOUT_S)

    def on_open(self) -> None:
        self._decoder = ChangeEventDecoder()
        self._cache.on_connected()
        self._last_reason, self._pause_s = "", _RETRY_INTERVAL_S

    def on_bytes(self, piece: bytes) -> None:
        for event in self._decoder.feed(piece):
            self._cache.on_event(event)

    def on_closed(self) -> None:
        self._cache.on_disconnected()

    def on_end(self, error: Exception | None) -> float:
        """Return the seconds until the stream is opened again; a new reason is logged."""
        self.on_closed()
        reason = "" if error is None else str(error) or type(error).__name__
        if reason and reason != self._last_reason:
            log.warning(
                "cannot read the changes of %s, so the cache serves nothing: %s", self.address.url, reason
            )
        self._last_reason = reason
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _RETRY_INTERVAL_MAX_S)
        return pause_s


class ChangeStreamThread:
    """The stream of a Client."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self._stream = _ChangeStream(address, cache)
        self._closing = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="aclog-changes", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if (open_socket := self._socket) is not None:
            # Closing the descriptor does not wake a thread that reads from it.
            with suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_TIMEOUT_S["connect"])

    def _run(self) -> None:
        with ExitStack() as opened:
            opened.callback(self._stream.on_closed)
            pool = self._stream.address.pool(opened)
            while not self._closing.is_set():
                error: Exception | None = None
                try:
                    self._read(pool)
                except _STREAM_ERRORS as stream_error:
                    error = stream_error
                self._closing.wait(self._stream.on_end(None if self._closing.is_set() else error))

    def _read(self, pool: httpcore.ConnectionPool) -> None:
        stream = self._stream
        with pool.stream(**stream.request()) as response:
            if response.status != _OK:
                raise error_of_response(stream.address.url, response, response.read())
            self._socket = response.extensions["network_stream"].get_extra_info("socket")
            try:
                stream.on_open()
                pieces = response.iter_stream()
                while not self._closing.is_set() and (piece := next(pieces, None)) is not None:
                    stream.on_bytes(piece)
            finally:
                self._socket = None


class ChangeStreamTask:
    """The stream of an AsyncClient; must be constructed in its event loop."""

    def __init__(self, address: Address, cache: DecisionCache) -> None:
        self._stream = _ChangeStream(address, cache)
        self._task = asyncio.create_task(self._run(), name="aclog-changes")

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        with ExitStack() as opened:
            opened.callback(self._stream.on_closed)
            async with self._stream.address.async_pool(opened) as pool:
                while True:
                    error: Exception | None = None
                    try:
                        await self._read(pool)
                    except _STREAM_ERRORS as stream_error:
                        error = stream_error
                    await asyncio.sleep(self._stream.on_end(error))

    async def _read(self, pool: httpcore.AsyncConnectionPool) -> None:
        stream = self._stream
        async with pool.stream(**stream.request()) as response:
            if response.status != _OK:
                raise error_of_response(stream.address.url, response, await response.aread())
            stream.on_open()
            async for piece in response.aiter_stream():
                stream.on_bytes(piece)
