"""ServerThread: the uvicorn servers of a process, one for each listener, in one event loop and one thread."""

from __future__ import annotations

import asyncio
import socket
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

import uvicorn

from authorizer.listeners.acceptor import Acceptor

if TYPE_CHECKING:
    import ssl

    from authorizer.listeners.connection_limiter import Admission
    from authorizer.listeners.listener import Listener
    from authorizer.sidecar.http.limits import LoadLimiter

#: How often uvicorn's ``on_tick`` renews the Date header.
_TICK_INTERVAL_S: Final = 1.0


class StoppableServer(uvicorn.Server):
    """Begins its shutdown when ``stop`` is called; does not check ten times a second, as uvicorn does."""

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


class ListenerServer(StoppableServer):
    """The server of one listener: an Acceptor accepts its connections, and shutdown closes them."""

    def __init__(
        self, config: uvicorn.Config, listener: Listener, load: LoadLimiter, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._load = load
        self._tls = tls
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn gets no socket: its servers do not count a connection before its handshake.
        await super().startup(sockets=[])
        self._acceptors = [
            Acceptor(each, self._listener, self._load.connections, self._make_protocol, self._tls)
            for each in sockets or ()
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for acceptor in self._acceptors:
            acceptor.close()
        await super().shutdown(sockets)
        for acceptor in self._acceptors:
            await acceptor.wait_closed()

    def _make_protocol(self, admission: Admission) -> asyncio.Protocol:
        return self.config.http_protocol_class(  # type: ignore[call-arg]  # SidecarProtocol's own
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            admission=admission,
        )


_START_TIMEOUT_S: Final = 30.0
#: How often the main thread wakes up for signals.
_CHECK_INTERVAL_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Served:
    """A socket and its server."""

    socket: socket.socket
    server: StoppableServer


class ServerThread:
    """Runs servers until ``close``; ``served``: the servers; their sockets are closed with them."""

    def __init__(self, background: Sequence[Callable[[], Coroutine[None, None, None]]]) -> None:
        """``background``: further coroutines of the event loop, cancelled at the end."""
        self.served: list[Served] = []
        self._background = background
        self._serving: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    @property
    def is_running(self) -> bool:
        """Whether it was started and not closed."""
        return self._thread is not None

    def start(self, served: Sequence[Served]) -> None:
        """Start the servers; returns when they accept requests. Raises RuntimeError if they do not start."""
        self.served = list(served)
        loop_factory = self.served[0].server.config.get_loop_factory()
        self._thread = threading.Thread(
            target=self._run, args=(loop_factory,), name="aclog-sidecar", daemon=True
        )
        self._ended.clear()
        self._thread.start()
        deadline = threading.Event()
        waited = 0.0
        while not all(each.server.started for each in self.served):
            if self._ended.is_set() or waited > _START_TIMEOUT_S:
                raise RuntimeError("the sidecar's server did not start: see the log")
            deadline.wait(0.01)
            waited += 0.01

    def add(self, served: Served) -> None:
        """Start one more server. Thread-safe, after ``start``."""
        if self._loop is None:
            raise RuntimeError("the sidecar's server is not running")
        self.served.append(served)
        self._loop.call_soon_threadsafe(self._begin, served)

    def remove(self, served: Served) -> None:
        self.served.remove(served)
        served.server.stop()

    def wait(self) -> NoReturn:
        """Block while the servers run; a signal's exception is raised."""
        # Not by Thread.join: in Python 3.11 and 3.12 an exception from a signal handler there marks the
        # running thread as ended, so that the interpreter exits without waiting for its requests.
        while not self._ended.wait(_CHECK_INTERVAL_S):
            pass  # a signal just before the wait is handled after the next wake-up
        raise RuntimeError("the sidecar's server is not running: see the log")

    def close(self, end_streams: Callable[[], None]) -> None:
        """Stop all servers and close their sockets. Idempotent. ``end_streams``: ends streaming responses."""
        if self._thread is not None:
            for each in tuple(self.served):
                each.server.stop()
            end_streams()
            self._thread.join()
            self._thread = None
        for each in self.served:
            each.socket.close()
        self.served.clear()

    def _run(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                runner.run(self._serve())
        finally:
            self._ended.set()

    def _begin(self, served: Served) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(served.server.serve([served.socket]))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return task

    async def _serve(self) -> None:
        """Run until one of the first servers ends, which ends the others."""
        self._loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            background = [group.create_task(each()) for each in self._background]
            first = [self._begin(each) for each in tuple(self.served)]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            for each in self.served:
                each.server.stop()
            while self._serving:
                await asyncio.wait(self._serving)
            for task in background:
                task.cancel()
        # Connections that did not end in the grace period: the event loop does not close them.
        servers = [each.server for each in self.served]
        for connection in [each for server in servers for each in server.server_state.connections]:
            connection.transport.abort()
        await asyncio.sleep(0)


def private_server(app: object, grace_s: int) -> StoppableServer:
    """Return a server of an ASGI application, for other processes of the same sidecar."""
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]  # by its caller
        lifespan="off",
        ws="none",
        log_config=None,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=grace_s,
    )
    config.load()
    return StoppableServer(config)
