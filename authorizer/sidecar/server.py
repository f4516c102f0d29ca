"""The sidecar's server: sockets bound first, then a uvicorn for each of them, in one event loop.

Binding comes before a log is opened, so that a port in use, or a certificate that cannot be read, stops the
start at once, not after a long load. A node that writes a directory's log also listens in that directory, for
commands beside it (``binding``).
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn, Self, cast
from urllib.parse import urlsplit

import structlog
import uvicorn

from authorizer.api import SecurityProtocol
from authorizer.configuration.listeners import is_local, is_loopback, is_unix
from authorizer.configuration.tls import tls_settings
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.authentication.authenticator import Authenticator
from authorizer.sidecar.binding import BACKLOG, bind_listener, bind_local
from authorizer.sidecar.origin import Listener
from authorizer.sidecar.protocol import SidecarProtocol
from authorizer.sidecar.tls import ListenerContext, TlsCollector
from authorizer.sidecar.unix_socket import remove_unix
from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry
    from prometheus_client.registry import Collector

    from authorizer.api import Endpoint
    from authorizer.configuration.load import Config
    from authorizer.node import Node

log = structlog.get_logger(__name__)

#: Seconds that open requests get to finish once the server is to stop.
_GRACE_S: Final = 5
_START_TIMEOUT_S: Final = 30.0
#: How often certificate files are looked at.
_CERTIFICATES_EVERY_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class _Bound:
    """A listening socket, and what it is."""

    socket: socket.socket
    listener: Listener
    context: ListenerContext | None = None


class Sidecar:
    """A node's HTTP server: listens from its making on, answers in a thread of its own from ``start`` on.

    Attributes:
        urls: base URL of each listener, in the order of the configuration, with the real ports.

    Raises:
        ConfigError: a listener that cannot be served safely, or whose address cannot be bound; tokens or keys
            that cannot be read.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._authenticator = Authenticator(config)
        self._bound: list[_Bound] = []
        self._socket_files: list[Path] = []
        self._app: SidecarApp | None = None
        self._servers: list[uvicorn.Server] = []
        self._thread: threading.Thread | None = None
        self._metrics: tuple[CollectorRegistry, list[Collector]] | None = None
        try:
            for endpoint in config.served_listeners():
                self._bind(endpoint)
        except BaseException:
            self.close()
            raise
        self.urls = [each.listener.url for each in self._bound]

    def start(self, node: Node) -> None:
        """Begin to answer for ``node``; returns when requests are answered."""
        if node.log.directory is not None and node.status().writable:
            self._listen_locally(node.log.directory)
        app = self._app = SidecarApp(node, self._authenticator)
        self._servers = [uvicorn.Server(self._uvicorn_config(app, each)) for each in self._bound]
        loop_factory = self._servers[0].config.get_loop_factory()
        self._thread = threading.Thread(
            target=self._run, args=(loop_factory,), name="aclog-sidecar", daemon=True
        )
        self._authenticator.start()
        self._thread.start()
        deadline = threading.Event()
        waited = 0.0
        while not all(server.started for server in self._servers):
            if not self._thread.is_alive() or waited > _START_TIMEOUT_S:
                raise RuntimeError("the sidecar's server did not start: see the log")
            deadline.wait(0.01)
            waited += 0.01
        collectors = [TlsCollector(self._contexts()), self._authenticator.collector]
        self._metrics = (node.metrics, collectors)
        for collector in collectors:
            node.metrics.register(collector)
        log.info("listening", urls=self.urls)

    def serve(self, node: Node) -> NoReturn:
        """Answer for a started node until a signal: what ``aclog serve`` does.

        Raises:
            LogError: the log's cluster has answered, and this is no log for us (Node.reach).
        """
        with self:
            self.start(node)
            node.reach()
            self.wait()

    def _bind(self, endpoint: Endpoint) -> None:
        config, name = self._config, endpoint.listener_name or ""
        is_tls = endpoint.security_protocol is SecurityProtocol.SSL
        tls = tls_settings(config.properties, name) if is_tls else None
        context = None if tls is None else ListenerContext(tls, name)
        bound = bind_listener(endpoint, config.listeners_key)
        if is_unix(endpoint):
            self._socket_files.append(Path(endpoint.host or ""))
        listener = Listener(
            name=name,
            url=_url(endpoint, bound),
            early_start=name in config.early_start_listeners,
            carries_tokens=is_tls or is_local(endpoint),
            requires_authentication=name in config.auth_required_listeners,
            tls=tls,
            unix_principals=config.unix_principals if is_unix(endpoint) else {},
            proxies=tuple(map(ipaddress.ip_network, config.trusted_proxies)),
            hosts=None if is_tls or not is_loopback(endpoint.host) else self._hosts(),
        )
        self._bound.append(_Bound(bound, listener, context))

    def _hosts(self) -> frozenset[str]:
        """The names that clients may know this sidecar by, in lower case."""
        names = [endpoint.host for endpoint in self._config.listeners]
        names.append(urlsplit(self._config.sidecar_public_url or "").hostname)
        return frozenset(name.lower() for name in names if name)

    def _listen_locally(self, directory: Path) -> None:
        """Where the file system has no sockets, requests are answered by the listeners only."""
        try:
            bound = bind_local(directory)
        except OSError as error:
            log.warning(
                "no_local_socket",
                directory=str(directory),
                reason=error.strerror or str(error),
                way_out="commands beside this node reach it over HTTP only: aclog acls --sidecar URL",
            )
            return
        path = directory / SOCKET_FILE
        self._socket_files.append(path)
        self._bound.append(_Bound(bound, Listener(name="unix", url=f"unix:{path}", is_local=True)))
        bound.listen(BACKLOG)

    def _uvicorn_config(self, app: SidecarApp, bound: _Bound) -> uvicorn.Config:
        proxies = self._config.trusted_proxies
        made = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", partial(SidecarProtocol, bound.listener)),
            lifespan="off",
            ws="none",
            log_config=None,
            # It says of each listener what "listening" says of all.
            log_level="warning",
            access_log=False,
            server_header=False,
            # uvicorn's defaults trust every peer on this machine.
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            timeout_graceful_shutdown=_GRACE_S,
        )
        made.load()
        made.ssl = bound.context
        return made

    def _run(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(self._answer())

    async def _answer(self) -> None:
        """Until one of the servers ends, which ends the others."""
        async with asyncio.TaskGroup() as group:
            certificates = group.create_task(self._follow_certificates())
            serving = [
                group.create_task(server.serve([each.socket]))
                for server, each in zip(self._servers, self._bound, strict=True)
            ]
            await asyncio.wait(serving, return_when=asyncio.FIRST_COMPLETED)
            for server in self._servers:
                server.should_exit = True
            await asyncio.wait(serving)
            certificates.cancel()
        # What has not ended within the grace: an event loop does not close its connections itself.
        for connection in [each for server in self._servers for each in server.server_state.connections]:
            connection.transport.abort()
        await asyncio.sleep(0)

    async def _follow_certificates(self) -> None:
        while True:
            await asyncio.sleep(_CERTIFICATES_EVERY_S)
            for context in self._contexts():
                # Not on the event loop: a file system may take its time.
                await asyncio.to_thread(context.reload)

    def _contexts(self) -> list[ListenerContext]:
        return [each.context for each in self._bound if each.context is not None]

    def wait(self) -> NoReturn:
        """Block while it serves; whatever ends that, such as a signal, is raised."""
        if self._thread is not None:
            self._thread.join()
        raise RuntimeError("the sidecar's server is not running: see the log")

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        for path in self._socket_files:
            # First of all, while the node still holds the log: the name may be another node's afterwards.
            remove_unix(path)
        self._socket_files.clear()
        if self._metrics is not None:
            registry, collectors = self._metrics
            for collector in collectors:
                registry.unregister(collector)
            self._metrics = None
        if self._thread is not None:
            for server in self._servers:
                server.should_exit = True
            if self._app is not None:
                self._app.end_streams()
            self._thread.join()
            self._thread = None
        self._authenticator.close()
        for each in self._bound:
            each.socket.close()
        self._bound.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def _url(endpoint: Endpoint, bound: socket.socket) -> str:
    """With the real port, and for every address a name that clients elsewhere may know."""
    if is_unix(endpoint):
        return f"unix:{endpoint.host}"
    scheme = "https" if endpoint.security_protocol is SecurityProtocol.SSL else "http"
    host = endpoint.host or socket.gethostname()
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}"
