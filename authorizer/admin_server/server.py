"""AdminServer: Kafka's protocol for a node, in a thread and event loop of its own.

Addresses are bound when it is created, before a log is opened, as the sidecar's are. As on a broker, a
listener accepts connections when the authorizer permits it (KIP-504): early-start listeners immediately,
others when the node is ready for the first time. Before that the kernel refuses connections, and clients try
their next server.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

import structlog
import uvloop

from authorizer.admin_server.connection import AdminConnection
from authorizer.admin_server.handlers.acls import AclHandlers
from authorizer.admin_server.handlers.api_versions import ApiVersionsHandler
from authorizer.admin_server.handlers.cluster import DescribeClusterHandler
from authorizer.admin_server.handlers.cluster_node import ClusterNode, advertised_addresses
from authorizer.admin_server.handlers.configs import ConfigHandlers
from authorizer.admin_server.handlers.groups import GroupHandlers
from authorizer.admin_server.handlers.metadata import MetadataHandler
from authorizer.admin_server.handlers.sasl import SASL_APIS
from authorizer.admin_server.limits import AdminLimits, RequestReader
from authorizer.admin_server.request import Session
from authorizer.admin_server.request_metrics import AdminRequestMetrics
from authorizer.admin_server.sasl.logins import SaslLogins
from authorizer.admin_server.sasl.session import SaslSession
from authorizer.api.authorizer_api import SecurityProtocol
from authorizer.api.errors import OperationTimedOutError
from authorizer.api.ip_address import host_address
from authorizer.configuration.keys.names import ADMIN_LISTENERS, AUTH_REQUIRED_LISTENERS
from authorizer.configuration.listeners import WITH_TLS
from authorizer.configuration.tls import tls_settings
from authorizer.listeners.acceptor import Acceptor
from authorizer.listeners.binding import reserve_listener, share_listener
from authorizer.listeners.connection_peer import identify_peer
from authorizer.listeners.listener import Listener
from authorizer.listeners.tls import ListenerContext
from records.principal import ANONYMOUS
from replay.clock import SystemClock

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from authorizer.admin_server.api import Api
    from authorizer.api.authorizer_api import Endpoint
    from authorizer.configuration.load import Config
    from authorizer.listeners.connection_limiter import Admission
    from authorizer.node.node import Node

log = structlog.get_logger(__name__)

_CERTIFICATE_POLL_INTERVAL_S: Final = 2.0
_WITH_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class _BoundListener:
    reserved: socket.socket
    endpoint: Endpoint
    listener: Listener
    context: ListenerContext | None


class AdminServer:
    """Binds its listeners when it is created, and answers in its own thread.

    Attributes:
        addresses: ``HOST:PORT`` of each listener, in the order of the configuration, with the real ports.

    Raises:
        ConfigError: a listener cannot be served safely, or an address cannot be bound.
    """

    def __init__(self, config: Config, reserved: Sequence[socket.socket] | None = None) -> None:
        """Bind the listeners.

        Args:
            config: has the listeners and the limits.
            reserved: their sockets (``reserve_listener``), if the supervisor of several processes has them.
        """
        self._config = config
        self._advertised = config.advertised_admin_listeners()
        self._limits = AdminLimits(config)
        self._metrics = AdminRequestMetrics()
        self._bound: list[_BoundListener] = []
        self._apis: dict[int, Api] = {}
        self._registered: tuple[CollectorRegistry, list[Collector]] | None = None
        self._node: Node | None = None
        self._logins: SaslLogins | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._serving: dict[asyncio.Task[None], AdminConnection] = {}
        self._opening: Mapping[Endpoint, Future[None]] = {}
        self._acceptors: list[Acceptor] = []
        self._listening: list[socket.socket] = []
        try:
            for index, endpoint in enumerate(config.served_admin_listeners()):
                if endpoint.security_protocol in _WITH_SASL:
                    self._logins = self._logins or SaslLogins(config, SystemClock())
                    self._logins.mechanisms(endpoint.listener_name or "")
                self._bind(endpoint, None if reserved is None else reserved[index])
        except BaseException:
            self.close()
            raise
        self.addresses = [_address(each.endpoint, each.reserved) for each in self._bound]

    def start(self, node: Node, opening: Mapping[Endpoint, Future[None]] | None = None) -> Self:
        """Start to answer requests for ``node``.

        Args:
            node: decides and writes.
            opening: for each endpoint a future that is done when it may accept (``Node.start``). Without one
                it accepts before this returns.
        """
        self._node, self._opening = node, opening or {}
        self._limits.connections.reserve_files()
        self._apis = self._make_apis(node)
        collectors: list[Collector] = [self._metrics, self._limits]
        for collector in collectors:
            node.metrics.register(collector)
        self._registered = node.metrics, collectors
        node.reconfiguration.subscribe(self._limits.apply)
        if self._logins is not None:
            self._logins.start()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="aclog-admin", daemon=True)
        self._thread.start()
        started.wait()
        log.info("admin_listening", addresses=self.addresses)
        return self

    def tls_contexts(self) -> list[ListenerContext]:
        """Return those of its listeners with TLS."""
        return [each.context for each in self._bound if each.context is not None]

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        if self._thread is not None and self._loop is not None and self._stopping is not None:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
            self._thread = None
        if self._logins is not None:
            self._logins.close()
        if self._node is not None:
            self._node.reconfiguration.unsubscribe(self._limits.apply)
            self._node = None
        if self._registered is not None:
            registry, collectors = self._registered
            for collector in collectors:
                registry.unregister(collector)
            self._registered = None
        for opened in (*self._listening, *(each.reserved for each in self._bound)):
            opened.close()
        self._listening.clear()
        self._bound.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _make_apis(self, node: Node) -> dict[int, Api]:
        """The requests that are answered, by key."""
        bound = {each.listener.name: (each.endpoint, each.reserved.getsockname()[1]) for each in self._bound}
        cluster = ClusterNode(node, advertised_addresses(bound, self._advertised))
        versions = ApiVersionsHandler(cluster)
        apis = [
            versions.api,
            *SASL_APIS,
            MetadataHandler(cluster).api,
            DescribeClusterHandler(cluster).api,
            *AclHandlers(cluster).apis,
            *GroupHandlers(cluster).apis,
            *ConfigHandlers(cluster).apis,
        ]
        versions.served = apis
        return {api.key: api for api in apis}

    def _bind(self, endpoint: Endpoint, reserved: socket.socket | None) -> None:
        config, name = self._config, endpoint.listener_name or ""
        tls = tls_settings(config.properties, name) if endpoint.security_protocol in WITH_TLS else None
        context = None if tls is None else ListenerContext(tls, name)
        bound = reserve_listener(endpoint, ADMIN_LISTENERS) if reserved is None else reserved
        listener = Listener(
            name=name,
            url=f"{name}://{_address(endpoint, bound)}",
            early_start=name in config.early_start_listeners,
            requires_authentication=name in config.auth_required_listeners,
            tls=tls,
        )
        self._bound.append(_BoundListener(bound, endpoint, listener, context))

    def _run(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(started))

    async def _serve(self, started: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        reloading = asyncio.create_task(self._reload_certificates())
        waiting: list[asyncio.Task[None]] = []
        for each in self._bound:
            future = self._opening.get(each.endpoint)
            if future is None or future.done():
                self._accept(each)
            else:
                waiting.append(asyncio.create_task(self._accept_when_ready(each, future)))
        started.set()
        await self._stopping.wait()
        for task in (reloading, *waiting):
            task.cancel()
        for acceptor in self._acceptors:
            acceptor.close()
        if self._serving:
            # Requests in flight get their answers; idle connections are closed immediately.
            for connection in self._serving.values():
                connection.stop()
            _, late = await asyncio.wait(self._serving, timeout=self._config.sidecar_drain_timeout_ms / 1000)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for acceptor in self._acceptors:
            await acceptor.wait_closed()

    def _accept(self, bound: _BoundListener) -> None:
        listening = share_listener(bound.reserved)
        self._listening.append(listening)
        make_protocol = partial(self._make_protocol, bound)
        self._acceptors.append(
            Acceptor(listening, bound.listener, self._limits.connections, make_protocol, bound.context)
        )

    async def _accept_when_ready(self, bound: _BoundListener, ready: Future[None]) -> None:
        # The future is the authorizer's: this task, when it is cancelled, must not cancel it.
        with suppress(OperationTimedOutError):  # the node was closed before it was ready
            await asyncio.shield(asyncio.wrap_future(ready))
            self._accept(bound)

    def _make_protocol(self, bound: _BoundListener, admission: Admission) -> asyncio.Protocol:
        reader = RequestReader(self._limits)
        return _AdminProtocol(reader, admission, partial(self._begin, bound))

    def _begin(self, bound: _BoundListener, reader: RequestReader, writer: asyncio.StreamWriter) -> None:
        address = writer.get_extra_info("peername")
        host = host_address(address[0]) if isinstance(address, tuple) else ""
        principal, sasl = ANONYMOUS, None
        if self._logins is not None and bound.endpoint.security_protocol in _WITH_SASL:
            sasl = SaslSession(self._logins, bound.listener.name, host)
        else:
            peer = identify_peer(writer.transport, host, bound.listener)  # type: ignore[arg-type]
            refusal = peer.refusal
            if peer.principal == ANONYMOUS and bound.listener.requires_authentication:
                refusal = f"{AUTH_REQUIRED_LISTENERS} names the listener, and the client has no certificate"
            if refusal is not None:
                log.info(
                    "admin_connection_closed", listener=bound.listener.name, address=host, reason=refusal
                )
                reader.close()
                writer.close()
                return
            principal = peer.principal
        session = Session(
            listener=bound.listener,
            security_protocol=bound.endpoint.security_protocol,
            address=host,
            principal=principal,
            sasl=sasl,
        )
        connection = AdminConnection(reader, writer, session, self._apis, self._limits, self._metrics)
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._serving[task] = connection
        task.add_done_callback(self._serving.pop)

    async def _reload_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_POLL_INTERVAL_S)
            for each in self._bound:
                if each.context is not None:
                    # Not on the event loop: a file system may block.
                    await asyncio.to_thread(each.context.reload)


class _AdminProtocol(asyncio.StreamReaderProtocol):
    """Counts the connection until it is closed; one beyond the limits is closed immediately."""

    def __init__(self, reader: asyncio.StreamReader, admission: Admission, begin: object) -> None:
        super().__init__(reader, begin)  # type: ignore[arg-type]
        self._admission = admission

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._admission.is_connected = True
        if self._admission.is_extra:
            transport.close()
            return
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._admission.release()
        super().connection_lost(exc)


def _address(endpoint: Endpoint, bound: socket.socket) -> str:
    host, port = endpoint.host or "", bound.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
