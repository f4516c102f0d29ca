"""Sidecar: the HTTP server of a node or a fleet, with one uvicorn server for each listener in one event loop.

Listeners are bound before a log is opened, so that a port in use or an unreadable certificate fails
immediately, not after a long load. A node that writes a directory log also listens in that directory, for
commands on the same machine (``binding``).
"""

from __future__ import annotations

import asyncio
import math
import socket
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Protocol, Self, cast

import structlog
import uvicorn

from authorizer.api.authorizer_api import Endpoint, SecurityProtocol
from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.configuration.listeners import is_unix
from authorizer.configuration.tls import tls_settings
from authorizer.listeners.binding import BACKLOG, bind_listener, bind_local
from authorizer.listeners.listener import Listener, build_listener
from authorizer.listeners.tls import ListenerContext, TlsCollector
from authorizer.listeners.unix_socket import remove_unix
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.auth.authenticator import Authenticator
from authorizer.sidecar.fleet_app import FleetApp
from authorizer.sidecar.http.limits import LoadLimiter
from authorizer.sidecar.http.protocol import SidecarProtocol
from authorizer.sidecar.http.request_metrics import RequestMetrics, ServerMetrics
from authorizer.sidecar.http.servers import ListenerServer, Served, ServerThread
from authorizer.sidecar.http.systemd import KAFKA_SCHEME, STOPPING, notify, notify_alive, notify_listening
from authorizer.sidecar.telemetry.telemetry import Telemetry
from authorizer.sidecar.workers.worker import Listening, LogReady
from authorizer.sidecar.workers.worker_api import FleetNodes, HostedNodes, SingleNode, WorkerApi
from authorizer.sidecar.workers.worker_fanout import WorkerFanout
from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from authorizer.configuration.load import Config
    from authorizer.listeners.loop_pulse import LoopPulse
    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration
    from authorizer.sidecar.base_app import BaseApp
    from authorizer.sidecar.route_group import RouteGroupFactory
    from authorizer.sidecar.workers.worker import Worker

log = structlog.get_logger(__name__)

_CERTIFICATE_POLL_INTERVAL_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _BoundListener:
    socket: socket.socket
    listener: Listener
    context: ListenerContext | None = None


class Companion(Protocol):
    """Another server of the same process, with an event loop of its own."""

    addresses: list[str]
    pulse: LoopPulse

    def tls_contexts(self) -> list[ListenerContext]: ...


class Sidecar:
    """Binds its listeners when it is created, and answers in its own thread.

    Attributes:
        urls: base URL of each listener, in the order of the configuration, with the real ports.

    Raises:
        ConfigError: a listener cannot be served safely, an address cannot be bound, or tokens or keys cannot
            be read.
    """

    def __init__(
        self, config: Config, worker: Worker | None = None, groups: RouteGroupFactory | None = None
    ) -> None:
        """Bind the listeners; ``worker``: this process, if several processes share them."""
        self._config = config
        self._groups = groups
        self._worker = worker
        self._telemetry = Telemetry(None if worker is None else worker.instance_number)
        self._authenticator = Authenticator(config)
        self._load = LoadLimiter(config)
        self._reconfiguration: Reconfiguration | None = None
        self._bound: list[_BoundListener] = []
        self._socket_files: list[Path] = []
        self._companion: Companion | None = None
        self._app: BaseApp | None = None
        self._server_metrics = ServerMetrics(self._load.connections.by_listener)
        send_heartbeat = notify_alive if worker is None else worker.beat
        watch = partial(self._load.watch, self._server_metrics.loop_delays, send_heartbeat)
        self._servers = ServerThread([self._reload_certificates, watch])
        self._metrics: tuple[CollectorRegistry, list[Collector]] | None = None
        try:
            for index, endpoint in enumerate(config.served_listeners()):
                self._bind(endpoint, None if worker is None else worker.listener(index))
        except BaseException:
            self.close()
            raise
        self.urls = [each.listener.url for each in self._bound]

    def start(self, node: Node) -> None:
        """Start to answer requests for ``node``; returns when the server accepts requests."""
        peers, private = self._connect_workers(SingleNode(node))
        of_node = None if peers is None else peers.of(DEFAULT_CLUSTER)
        app = SidecarApp(node, self._authenticator, self._load, RequestMetrics(), of_node, self._groups)
        self._start(app, node.metrics, node.reconfiguration, private)
        self._register_metrics([app.requests], node.metrics)
        self._open_local_socket(app, node)
        if self._worker is None:
            log.info("listening", urls=self.urls)
        else:
            self._worker.report(Listening(self.urls, node.status().writable, self._other_urls()))

    def start_fleet(self, fleet: Fleet) -> None:
        """Start a fleet and answer requests for it; returns when the server accepts requests."""
        peers, private = self._connect_workers(FleetNodes(fleet))
        app = FleetApp(fleet, self._authenticator, self._load, peers, self._groups)
        self._start(app, fleet.metrics, fleet.reconfiguration, private)
        self._register_metrics([], fleet.metrics)

        @contextmanager
        def serve(member: Member, node: Node) -> Iterator[None]:
            local = self._open_local_socket(app.attach(member, node), node)
            try:
                yield
            finally:
                app.detach(member)
                if local is not None:
                    self._close_local_socket(local, node)

        fleet.start(serve)
        if self._worker is None:
            log.info("listening", urls=self.urls, clusters=list(fleet.members))
        else:
            # Workers query each cluster's writer whether it can change ACLs.
            self._worker.report(Listening(self.urls, False, self._other_urls()))

    def accompany(self, companion: Companion) -> None:
        """Show another server of this process in metrics and addresses, and report when its loop hangs."""
        self._companion = companion
        self._load.other_loop = companion.pulse

    def serve(self, node: Node) -> NoReturn:
        """Answer requests for a started node until a signal. LogError: as of ``Node.connect``."""
        self._load.connections.reserve_files()
        with self:
            self.start(node)
            if self._worker is None:
                notify_listening([*self.urls, *self._other_urls()])
            try:
                node.connect()
                if self._worker is not None:
                    self._worker.report(LogReady())
                self.wait()
            finally:
                if self._worker is None:
                    notify(STOPPING)

    def serve_fleet(self, fleet: Fleet) -> NoReturn:
        """Answer requests for a fleet until a signal; an error of one cluster does not end it."""
        self._load.connections.reserve_files(len(fleet.members))
        with self:
            self.start_fleet(fleet)
            if self._worker is None:
                notify_listening([*self.urls, *self._other_urls()])
            else:
                self._worker.report(LogReady())
            try:
                self.wait()
            finally:
                if self._worker is None:
                    notify(STOPPING)

    def _connect_workers(self, nodes: HostedNodes) -> tuple[WorkerFanout | None, list[Served]]:
        """Return the connections to the other workers, if there are any, and this worker's API."""
        worker = self._worker
        if worker is None:
            return None, []
        peers = WorkerFanout(worker, nodes)
        return peers, [Served(worker.listen(), WorkerApi(nodes, peers.counts).server(self._grace_s()))]

    def _start(
        self,
        app: BaseApp,
        metrics: CollectorRegistry,
        reconfiguration: Reconfiguration,
        private: Sequence[Served] = (),
    ) -> None:
        self._app = app
        self._reconfiguration = reconfiguration
        reconfiguration.subscribe(self._load.apply)
        self._telemetry.start(metrics)
        self._authenticator.start()
        self._servers.start([*(self._make_server(app, each) for each in self._bound), *private])

    def _register_metrics(self, of_app: Sequence[Collector], metrics: CollectorRegistry) -> None:
        """Register this server's collectors in a registry, until ``close``."""
        other_contexts = [] if self._companion is None else self._companion.tls_contexts()
        collectors = [
            TlsCollector([*self._contexts(), *other_contexts]),
            self._authenticator.collector,
            *of_app,
            self._server_metrics,
            self._load,
        ]
        self._metrics = (metrics, collectors)
        for collector in collectors:
            metrics.register(collector)

    def _bind(self, endpoint: Endpoint, shared: socket.socket | None) -> None:
        """``shared``: the listening socket, if the supervisor has reserved the address."""
        config, name = self._config, endpoint.listener_name or ""
        is_tls = endpoint.security_protocol is SecurityProtocol.SSL
        tls = tls_settings(config.properties, name) if is_tls else None
        context = None if tls is None else ListenerContext(tls, name)
        bound = bind_listener(endpoint, config.listeners_key) if shared is None else shared
        if is_unix(endpoint) and shared is None:
            self._socket_files.append(Path(endpoint.host or ""))
        self._bound.append(_BoundListener(bound, build_listener(endpoint, bound, config, tls), context))

    def _open_local_socket(self, app: SidecarApp, node: Node) -> Served | None:
        """Listen in the directory of a log that the node writes, for commands on the same machine.

        A file system without sockets is no error: then only the listeners answer requests.
        """
        directory = node.log.directory
        is_another = self._worker is not None and not self._worker.is_writer
        if directory is None or is_another or not node.status().writable or not self._servers.is_running:
            return None
        try:
            bound = bind_local(directory)
        except OSError as error:
            log.warning(
                "no_local_socket",
                directory=str(directory),
                reason=error.strerror or str(error),
                way_out="commands reach this node over HTTP only: aclog acls --sidecar URL",
            )
            return None
        path = directory / SOCKET_FILE
        self._socket_files.append(path)
        listener = Listener(name="unix", url=f"unix:{path}", is_local=True)
        served = self._make_server(app, _BoundListener(bound, listener))
        bound.listen(BACKLOG)
        self._servers.add(served)
        return served

    def _close_local_socket(self, served: Served, node: Node) -> None:
        """Close the local socket of a node that closes while the server goes on."""
        if not self._servers.is_running or node.log.directory is None:
            return  # `close` removes it
        # While the node still has the log's lock: later another node may own the name.
        path = node.log.directory / SOCKET_FILE
        remove_unix(path)
        self._socket_files.remove(path)
        self._servers.remove(served)

    def _make_server(self, app: BaseApp, bound: _BoundListener) -> Served:
        proxies = self._config.trusted_proxies
        protocol = partial(SidecarProtocol, bound.listener, app.requests, self._load)
        made = uvicorn.Config(
            self._telemetry.traced(app),
            http=cast("type[asyncio.Protocol]", protocol),
            lifespan="off",
            ws="none",
            log_config=None,
            # uvicorn would repeat for each listener what the event "listening" reports.
            log_level="warning",
            access_log=False,
            server_header=False,
            # uvicorn's defaults trust every peer on this machine.
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=self._grace_s(),
        )
        made.load()
        self._load.connections.by_listener.setdefault(bound.listener.name, 0)
        return Served(bound.socket, ListenerServer(made, bound.listener, self._load, bound.context))

    def _grace_s(self) -> int:
        """Seconds for the requests in flight at shutdown."""
        return math.ceil(self._config.sidecar_drain_timeout_ms / 1000)

    async def _reload_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATE_POLL_INTERVAL_S)
            for context in self._contexts():
                # Not on the event loop: a file system may block.
                await asyncio.to_thread(context.reload)

    def _contexts(self) -> list[ListenerContext]:
        return [each.context for each in self._bound if each.context is not None]

    def _other_urls(self) -> list[str]:
        addresses = [] if self._companion is None else self._companion.addresses
        return [f"{KAFKA_SCHEME}{address}" for address in addresses]

    def wait(self) -> NoReturn:
        """Block while the server runs; a signal's exception is raised."""
        self._servers.wait()

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        for path in self._socket_files:
            # First, while the node still has the log's lock: later another node may own the name.
            remove_unix(path)
        self._socket_files.clear()
        self._servers.close(self._end_streams)
        # Sends the last metrics.
        self._telemetry.close()
        if self._metrics is not None:
            registry, collectors = self._metrics
            for collector in collectors:
                registry.unregister(collector)
            self._metrics = None
        if self._reconfiguration is not None:
            self._reconfiguration.unsubscribe(self._load.apply)
            self._reconfiguration = None
        self._authenticator.close()
        for each in self._bound:
            each.socket.close()
        self._bound.clear()

    def _end_streams(self) -> None:
        if self._app is not None:
            self._app.end_streams()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
