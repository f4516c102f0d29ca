"""The sidecar's server: sockets bound first, then uvicorn on all of them.

Binding comes before a log is opened, so that a port in use stops the start at once, not after a long load.
One uvicorn serves every listener; a request's local port says which one it came in on. A node that writes a
directory's log also listens in that directory, for commands beside it (``local_socket``).
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Final, NoReturn, Self

import structlog
import uvicorn

from authorizer.errors import ConfigError
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.local_socket import bind_local, remove_local
from authorizer.sidecar.origin import Listener
from records.log.directory.files import SOCKET_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from authorizer.configuration.load import Config
    from authorizer.node import Node

log = structlog.get_logger(__name__)

_BACKLOG: Final = 2048
#: Seconds that open requests get to finish once the server is to stop.
_GRACE_S: Final = 5
_START_TIMEOUT_S: Final = 30.0


class Sidecar:
    """A node's HTTP server: listens from its making on, answers in a thread of its own from ``start`` on.

    Attributes:
        urls: base URL of each listener, in the order of the configuration, with the real ports.

    Raises:
        ConfigError: a listener that cannot be served safely, or whose address cannot be bound.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._sockets: list[socket.socket] = []
        # By port; without one: the socket in the log's directory.
        self._listeners: dict[int | None, Listener] = {}
        self.urls: list[str] = []
        self._local_directory: Path | None = None
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        try:
            for endpoint in config.served_listeners():
                host = endpoint.host or "127.0.0.1"
                bound = _bind(host, endpoint.port, config.listeners_key)
                self._sockets.append(bound)
                port = bound.getsockname()[1]
                name = endpoint.listener_name or ""
                url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
                self._listeners[port] = Listener(name, name in config.early_start_listeners, url)
                self.urls.append(url)
        except BaseException:
            self.close()
            raise

    def start(self, node: Node) -> None:
        """Begin to answer for ``node``; returns when requests are answered."""
        if node.log.directory is not None and node.status().writable:
            self._listen_locally(node.log.directory)
        proxies = self._config.trusted_proxies
        self._server = uvicorn.Server(
            uvicorn.Config(
                SidecarApp(node, self._listeners),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                # uvicorn's defaults trust every peer on this machine.
                proxy_headers=bool(proxies),
                forwarded_allow_ips=list(proxies),
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
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

    def _listen_locally(self, directory: Path) -> None:
        """Where the file system has no sockets, requests are answered over TCP only."""
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
        self._sockets.append(bound)
        self._local_directory = directory
        url = f"unix:{directory / SOCKET_FILE}"
        self._listeners[None] = Listener("unix", early_start=False, url=url, is_local=True)
        bound.listen(_BACKLOG)

    def wait(self) -> NoReturn:
        """Block while it serves; whatever ends that, such as a signal, is raised."""
        if self._thread is not None:
            self._thread.join()
        raise RuntimeError("the sidecar's server is not running: see the log")

    def close(self) -> None:
        """Stop serving and release the ports. Idempotent."""
        if self._local_directory is not None:
            # First of all, while the node still holds the log: the name may be another node's afterwards.
            remove_local(self._local_directory)
            self._local_directory = None
        if self._thread is not None and self._server is not None:
            self._server.should_exit = True
            self._thread.join()
            self._thread = None
        for bound in self._sockets:
            bound.close()
        self._sockets.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


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
