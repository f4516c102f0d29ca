"""The sidecar's server: sockets bound first, then uvicorn on all of them.

Binding comes before anything else so that a port in use stops the start at once, not after a long load. One
uvicorn serves every listener; a request's local port says which one it came in on.
"""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Final, NoReturn, Self

import structlog
import uvicorn

from authorizer.errors import ConfigError
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.http import Listener

if TYPE_CHECKING:
    from types import TracebackType

    from authorizer.configuration.load import Config
    from authorizer.node import Node

log = structlog.get_logger(__name__)

_BACKLOG: Final = 2048
#: Seconds that open requests get to finish once the server is told to stop.
_GRACE_S: Final = 5
_START_TIMEOUT_S: Final = 30.0


class Sidecar:
    """A node's HTTP server, in a thread of its own from ``start`` to ``close``.

    Attributes:
        urls: base URL of each listener, in the order of the configuration, with the real ports.

    Raises:
        ConfigError: a listener that cannot be served safely, or whose address cannot be bound.
    """

    def __init__(self, node: Node, config: Config) -> None:
        self._sockets: list[socket.socket] = []
        self._thread: threading.Thread | None = None
        self.urls: list[str] = []
        listeners: dict[int, Listener] = {}
        try:
            for endpoint in config.served_listeners():
                host = endpoint.host or "127.0.0.1"
                bound = _bind(host, endpoint.port, config.listeners_key)
                self._sockets.append(bound)
                port = bound.getsockname()[1]
                name = endpoint.listener_name or ""
                listeners[port] = Listener(name, early_start=name in config.early_start_listeners)
                self.urls.append(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        except BaseException:
            self.close()
            raise
        self._server = uvicorn.Server(
            uvicorn.Config(
                SidecarApp(node, listeners),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )

    def start(self) -> None:
        """Begin to serve; returns when connections are answered."""
        log.info("listening", urls=self.urls)
        self._thread = threading.Thread(
            target=self._server.run, args=(self._sockets,), name="aclog-sidecar", daemon=True
        )
        self._thread.start()
        deadline = threading.Event()
        waited = 0.0
        while not self._server.started:
            if not self._thread.is_alive() or waited > _START_TIMEOUT_S:
                raise RuntimeError("the sidecar's server did not start: see the log")
            deadline.wait(0.01)
            waited += 0.01

    def wait(self) -> NoReturn:
        """Block while it serves; whatever ends that, such as a signal, is raised."""
        if self._thread is not None:
            self._thread.join()
        raise RuntimeError("the sidecar's server is not running: see the log")

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        if self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
            self._thread = None
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def run(node: Node, config: Config) -> NoReturn:
    """Serve ``node`` until a signal: what ``aclog serve`` does once the node has started.

    Raises:
        ConfigError: as Sidecar.
        LogError: the log's cluster has answered, and this is no log for us (Node.reach).
    """
    with closing(Sidecar(node, config)) as sidecar:
        sidecar.start()
        node.reach()
        sidecar.wait()


def _bind(host: str, port: int, key: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(_BACKLOG)
        except BaseException:
            bound.close()
            raise
    except OSError as error:
        raise ConfigError(
            key,
            f"{host}:{port}",
            f"cannot listen there: {error.strerror or error}. Set {key} to a free address, "
            f"such as PLAINTEXT://127.0.0.1:0 for any free port",
        ) from error
    return bound
