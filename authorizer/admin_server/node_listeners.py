"""NodeListeners: the listeners of one node, and the connections that it answers.

Addresses are bound when it is created, before a log is opened, as the sidecar's are. As on a broker, a
listener accepts connections when the node is ready for the first time; one of controllers when the authorizer
permits it (KIP-504), which is immediately on early-start listeners. Before that the kernel refuses
connections, and clients try their next server.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from authorizer.admin_server.connection import AdminConnection, Controls
from authorizer.admin_server.handlers.acls import AclHandlers
from authorizer.admin_server.handlers.api_versions import ApiVersionsHandler
from authorizer.admin_server.handlers.cluster_node import ClusterNode, advertised_addresses
from authorizer.admin_server.handlers.configs import ConfigHandlers
from authorizer.admin_server.handlers.envelope import EnvelopeHandler
from authorizer.admin_server.handlers.groups import GroupHandlers
from authorizer.admin_server.handlers.metadata import (
    DescribeClusterHandler,
    MetadataHandler,
    TopicPartitionsHandler,
)
from authorizer.admin_server.handlers.sasl import SASL_APIS
from authorizer.admin_server.limits import RequestQuota, RequestReader, RequestSlots
from authorizer.admin_server.metrics import AdminRequestMetrics, LoginMetrics
from authorizer.admin_server.request import Session
from authorizer.admin_server.sasl.logins import SaslLogins
from authorizer.admin_server.sasl.session import SaslSession
from authorizer.api.authorizer_api import SecurityProtocol
from authorizer.api.errors import OperationTimedOutError
from authorizer.api.ip_address import host_address
from authorizer.configuration.keys.names import AUTH_REQUIRED_LISTENERS
from authorizer.configuration.listeners import WITH_TLS
from authorizer.configuration.tls import tls_settings
from authorizer.listeners.acceptor import Acceptor
from authorizer.listeners.binding import reserve_listener, share_listener
from authorizer.listeners.connection_peer import identify_peer
from authorizer.listeners.listener import Listener
from authorizer.listeners.log_throttle import LogThrottle
from authorizer.listeners.tls import ListenerContext
from records.principal import ANONYMOUS
from replay.clock import SystemClock

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Mapping
    from concurrent.futures import Future
    from mmap import mmap

    from prometheus_client.registry import Collector

    from authorizer.admin_server.api import Api
    from authorizer.admin_server.limits import AdminLimits
    from authorizer.api.authorizer_api import Endpoint
    from authorizer.configuration.load import Config
    from authorizer.listeners.connection_limiter import Admission
    from authorizer.node.node import Node

_WITH_SASL: Final = (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class _BoundListener:
    reserved: socket.socket
    endpoint: Endpoint
    listener: Listener
    context: ListenerContext | None


class NodeListeners:
    """Binds its listeners when it is created, and answers between ``open`` and ``stop``."""

    def __init__(
        self,
        config: Config,
        limits: AdminLimits,
        reserved: Iterator[socket.socket] | None = None,
        quota_memory: mmap | None = None,
    ) -> None:
        """Bind the listeners; ``reserved``: their sockets, if a supervisor has them."""
        self.cluster = config.cluster
        self.config = config
        self._advertised = config.advertised_admin_listeners()
        self._limits = limits
        quota = RequestQuota(config, quota_memory)
        metrics = AdminRequestMetrics(limits.connections.by_listener, quota)
        self._controls = Controls(
            limits=limits,
            in_flight=RequestSlots(config),
            quota=quota,
            metrics=metrics,
            closed_lines=LogThrottle(),
        )
        self._login_metrics = LoginMetrics()
        self.collectors: list[Collector] = [metrics, self._login_metrics]
        self._bound: list[_BoundListener] = []
        self._apis: dict[int, Api] = {}
        self._logins: SaslLogins | None = None
        self._serving: dict[asyncio.Task[None], AdminConnection] = {}
        self._waiting: list[asyncio.Task[None]] = []
        self._acceptors: list[Acceptor] = []
        self._listening: list[socket.socket] = []
        try:
            for endpoint in config.served_admin_listeners():
                if endpoint.security_protocol in _WITH_SASL:
                    self._logins = self._logins or SaslLogins(config, SystemClock(), self._login_metrics)
                    self._logins.mechanisms(endpoint.listener_name or "")
                self._bind(endpoint, None if reserved is None else next(reserved))
        except BaseException:
            self.close()
            raise

    @property
    def addresses(self) -> list[str]:
        """``HOST:PORT`` of each listener, with the real ports."""
        return [_address(each.endpoint, each.reserved) for each in self._bound]

    @property
    def tls_contexts(self) -> list[ListenerContext]:
        return [each.context for each in self._bound if each.context is not None]

    def start_logins(self) -> None:
        if self._logins is not None:
            self._logins.start()

    def apply(self, config: Config) -> None:
        self._controls.in_flight.apply(config)
        self._controls.quota.apply(config)

    async def open(self, node: Node, opening: Mapping[Endpoint, Future[None]]) -> None:
        """Answer for ``node``; those of controllers accept when their futures are done, or now."""
        self._apis = self._make_apis(node)
        for each in self._bound:
            # As a broker, which waits for the load even with early-start listeners.
            loaded = node.authorizer.initial_load
            future = opening.get(each.endpoint) if self._is_of_controllers(each) else loaded
            if future is None or future.done():
                self._accept(each)
            else:
                self._waiting.append(asyncio.create_task(self._accept_when_ready(each, future)))

    async def stop(self) -> None:
        """Accept no more connections, and end the present ones. Idempotent."""
        for task in self._waiting:
            task.cancel()
        for acceptor in self._acceptors:
            acceptor.close()
        if self._serving:
            # Requests in flight get their answers; idle connections are closed immediately.
            for connection in self._serving.values():
                connection.stop()
            _, late = await asyncio.wait(self._serving, timeout=self.config.sidecar_drain_timeout_ms / 1000)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for acceptor in self._acceptors:
            await acceptor.wait_closed()
        for opened in self._listening:
            opened.close()
        for stopped in (self._waiting, self._acceptors, self._listening):
            stopped.clear()

    def close(self) -> None:
        """Release the ports. Idempotent."""
        if self._logins is not None:
            self._logins.close()
        for each in self._bound:
            each.reserved.close()
        self._bound.clear()

    def _make_apis(self, node: Node) -> dict[int, Api]:
        """The requests that are answered, by key."""
        bound = {each.listener.name: (each.endpoint, each.reserved.getsockname()[1]) for each in self._bound}
        cluster = ClusterNode(node, advertised_addresses(bound, self._advertised))
        versions, acls = ApiVersionsHandler(cluster), AclHandlers(cluster)
        apis = [
            versions.api,
            *SASL_APIS,
            MetadataHandler(cluster).api,
            TopicPartitionsHandler(cluster).api,
            DescribeClusterHandler(cluster).api,
            *acls.apis,
            EnvelopeHandler(cluster, [api for api in acls.apis if api.is_change]).api,
            *GroupHandlers(cluster).apis,
            *ConfigHandlers(cluster).apis,
        ]
        versions.served = apis
        return {api.key: api for api in apis}

    def _bind(self, endpoint: Endpoint, reserved: socket.socket | None) -> None:
        config, name = self.config, endpoint.listener_name or ""
        tls = tls_settings(config.properties, name) if endpoint.security_protocol in WITH_TLS else None
        context = None if tls is None else ListenerContext(tls, name)
        bound = reserve_listener(endpoint, config.admin_listeners_key) if reserved is None else reserved
        listener = Listener(
            name=name,
            url=f"{name}://{_address(endpoint, bound)}",
            early_start=name in config.early_start_listeners,
            requires_authentication=name in config.auth_required_listeners,
            tls=tls,
        )
        self._controls.metrics.add_listener(name)
        self._login_metrics.add_listener(name)
        self._bound.append(_BoundListener(bound, endpoint, listener, context))

    def _is_of_controllers(self, bound: _BoundListener) -> bool:
        return bound.listener.name in self.config.controller_listener_names

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
                self._login_metrics.count(bound.listener.name, is_successful=False)
                self._controls.log_closed("refused", host, listener=bound.listener.name, reason=refusal)
                reader.close()
                writer.close()
                return
            principal = peer.principal
        session = Session(
            listener=bound.listener,
            security_protocol=bound.endpoint.security_protocol,
            is_of_controllers=self._is_of_controllers(bound),
            address=host,
            principal=principal,
            sasl=sasl,
        )
        connection = AdminConnection(reader, writer, session, self._apis, self._controls)
        task = asyncio.get_running_loop().create_task(connection.serve())
        self._serving[task] = connection
        task.add_done_callback(self._serving.pop)


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
