"""AdminServer: Kafka's protocol for a node or a fleet, in a thread and event loop of its own.

One event loop serves all clusters of a fleet: a thread for each would cost memory, and the interpreter runs
one at a time. Limits of connections and memory are the process's; requests in flight, quotas and logins are
each node's (``NodeListeners``).
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
import uvloop

from authorizer.admin_server.limits import AdminLimits
from authorizer.admin_server.node_listeners import NodeListeners
from authorizer.listeners.loop_pulse import LoopPulse

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from mmap import mmap

    from prometheus_client.registry import Collector

    from authorizer.api.authorizer_api import Endpoint
    from authorizer.configuration.load import Config
    from authorizer.listeners.tls import ListenerContext
    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration

log = structlog.get_logger(__name__)

_CERTIFICATE_POLL_INTERVAL_S: Final = 2.0


class AdminServer:
    """Binds its listeners when it is created, and answers in its own thread.

    Attributes:
        addresses: ``HOST:PORT`` of each listener, in the order of the configuration, with the real ports.
        pulse: of its event loop.

    Raises:
        ConfigError: a listener cannot be served safely, or an address cannot be bound.
    """

    def __init__(
        self,
        config: Config,
        reserved: Sequence[socket.socket] | None = None,
        quota_memory: Sequence[mmap] | None = None,
    ) -> None:
        """Bind the listeners; ``reserved``: their sockets, if a supervisor has them."""
        self.pulse = LoopPulse()
        self._limits = AdminLimits(config)
        self._listeners: list[NodeListeners] = []
        self._at_close = ExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        # Held while work is given to the loop: what is given before it stops is completed or cancelled.
        self._lock = threading.Lock()
        remaining = None if reserved is None else iter(reserved)
        try:
            for number, each in enumerate(config.admin_configs()):
                memory = None if quota_memory is None else quota_memory[number]
                self._listeners.append(NodeListeners(each, self._limits, remaining, memory))
        except BaseException:
            self.close()
            raise
        self.addresses = [address for each in self._listeners for address in each.addresses]

    def start(self, node: Node, opening: Mapping[Endpoint, Future[None]] | None = None) -> Self:
        """Start to answer requests for ``node``.

        ``opening``: for each endpoint a future that is done when it may accept (``Node.start``). Without one
        a listener of controllers accepts before this returns, the others when the node is loaded.
        """
        (listeners,) = self._listeners
        collectors: list[Collector] = [self._limits, *listeners.collectors]
        for collector in collectors:
            node.metrics.register(collector)
            self._at_close.callback(node.metrics.unregister, collector)
        self._subscribe(node.reconfiguration, listeners.apply)
        self._start(node.reconfiguration)
        self._run_on_loop(listeners.open(node, opening or {}))
        log.info("admin_listening", addresses=self.addresses)
        return self

    def start_fleet(self, fleet: Fleet) -> Self:
        """Start to answer requests for the nodes of a fleet, each when it has started."""
        of_cluster = {each.cluster: each for each in self._listeners}
        fleet.collector.extra_collectors.append((None, self._limits))
        for each in self._listeners:
            fleet.collector.extra_collectors += [(each.cluster, collector) for collector in each.collectors]
            reconfiguration = fleet.members[each.cluster or ""].reconfiguration
            self._subscribe(reconfiguration, each.apply, each.config)
        self._start(fleet.reconfiguration, clusters=len(fleet.members))

        @contextmanager
        def serve(member: Member, node: Node, opening: Mapping[Endpoint, Future[None]]) -> Iterator[None]:
            listeners = of_cluster.get(member.name)
            if listeners is None:
                yield
                return
            self._run_on_loop(listeners.open(node, opening))
            try:
                yield
            finally:
                self._run_on_loop(listeners.stop())

        fleet.serve_started = serve
        log.info("admin_listening", addresses=self.addresses)
        return self

    def tls_contexts(self) -> list[ListenerContext]:
        return [context for each in self._listeners for context in each.tls_contexts]

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None and self._loop is not None and self._stopping is not None:
                self._loop.call_soon_threadsafe(self._stopping.set)
        if thread is not None:
            thread.join()
        for each in self._listeners:
            each.close()
        self._at_close.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _start(self, reconfiguration: Reconfiguration, clusters: int = 1) -> None:
        self._limits.connections.reserve_files(clusters)
        self._subscribe(reconfiguration, self._limits.apply)
        for each in self._listeners:
            each.start_logins()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="aclog-admin", daemon=True)
        self._thread.start()
        started.wait()

    def _subscribe(
        self, reconfiguration: Reconfiguration, apply: Callable[[Config], None], known: Config | None = None
    ) -> None:
        reconfiguration.subscribe(apply, known)
        self._at_close.callback(reconfiguration.unsubscribe, apply)

    def _run_on_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it on the event loop, unless that ends or has ended."""
        with self._lock:
            if self._thread is None or self._loop is None:
                coroutine.close()
                return
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        with suppress(CancelledError):
            running.result()

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        background = [
            asyncio.create_task(self.pulse.beat()),
            asyncio.create_task(self._reload_certificates()),
        ]
        started.set()
        await self._stopping.wait()
        for task in background:
            task.cancel()
        await asyncio.gather(*(each.stop() for each in self._listeners))

    async def _reload_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_POLL_INTERVAL_S)
            for context in self.tls_contexts():
                # Not on the event loop: a file system may block.
                await asyncio.to_thread(context.reload)
