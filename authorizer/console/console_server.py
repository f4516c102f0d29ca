"""ConsoleServer: the sidecar's application in the console process, on a private socket.

The process is a worker without listeners. It follows the log, writes through the first worker, and queries
the other workers' metrics. It answers the requests that the workers proxy (``console_proxy``).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self

import structlog

from authorizer.api.cluster_name import DEFAULT_CLUSTER
from authorizer.configuration.load import Config
from authorizer.console.console_proxy import ConsoleProxyEndpoint
from authorizer.console.routes.in_process_console import InProcessConsole
from authorizer.listeners.listener import build_listener
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.auth.authenticator import Authenticator
from authorizer.sidecar.fleet_app import FleetApp
from authorizer.sidecar.http.limits import LoadLimiter
from authorizer.sidecar.http.request_metrics import RequestMetrics
from authorizer.sidecar.http.servers import Served, ServerThread, private_server
from authorizer.sidecar.workers.worker import Listening, LogReady
from authorizer.sidecar.workers.worker_api import FleetNodes, SingleNode
from authorizer.sidecar.workers.worker_fanout import WorkerFanout
from records.polling import PeriodicThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration
    from authorizer.sidecar.base_app import BaseApp
    from authorizer.sidecar.workers.worker import Worker

log: Final = structlog.get_logger(__name__)

_HEARTBEAT_INTERVAL_S: Final = 0.1
# Time for a change that the writer is applying.
_GRACE_S: Final = 2
#: Until the node is ready, and from then on: with a million ACLs a prefetch takes a second of CPU time.
_RETRY_INTERVAL_S: Final = 0.1
_REFRESH_INTERVAL_S: Final = 60.0


class ConsoleServer:
    """See the module. Answers in a separate thread."""

    def __init__(self, config: Config, worker: Worker) -> None:
        self._worker = worker
        self._console = InProcessConsole()
        # The workers authenticate callers: no token arrives here.
        self._authenticator = Authenticator(
            config.with_value(Config.auth_tokens_file, None).with_value(Config.auth_oidc_jwks, None)
        )
        self._load = LoadLimiter(config)
        self._listeners = {
            each.name: replace(each, requires_authentication=False)
            for each in map(
                lambda endpoint, bound: build_listener(endpoint, bound, config),
                config.served_listeners(),
                worker.reserved,
            )
        }
        self._servers = ServerThread([self._send_heartbeats])
        self._app: BaseApp | None = None

    def serve(self, node: Node) -> NoReturn:
        """Answer for a started node until a signal. LogError: as of ``Node.connect``."""
        peers = WorkerFanout(self._worker, SingleNode(node))
        app = SidecarApp(
            node, self._authenticator, self._load, RequestMetrics(), peers.of(DEFAULT_CLUSTER), self._console
        )
        with self:
            self._start(app, node.reconfiguration)
            node.connect()
            self._worker.report(LogReady())
            with Prefetcher(partial(self._console.prefetch, DEFAULT_CLUSTER)):
                self._servers.wait()

    def serve_fleet(self, fleet: Fleet) -> NoReturn:
        """Answer for a fleet until a signal; an error of one cluster affects no other."""
        peers = WorkerFanout(self._worker, FleetNodes(fleet))
        app = FleetApp(fleet, self._authenticator, self._load, peers, self._console)

        @contextmanager
        def serve(member: Member, node: Node) -> Iterator[None]:
            app.attach(member, node)
            try:
                with Prefetcher(partial(self._console.prefetch, member.name)):
                    yield
            finally:
                app.detach(member)

        with self:
            self._start(app, fleet.reconfiguration)
            fleet.start(serve)
            self._worker.report(LogReady())
            self._servers.wait()

    def _start(self, app: BaseApp, reconfiguration: Reconfiguration) -> None:
        self._app = app
        reconfiguration.subscribe(self._load.apply)
        endpoint = ConsoleProxyEndpoint(app, self._listeners)
        self._servers.start([Served(self._worker.listen(), private_server(endpoint, _GRACE_S))])
        self._worker.report(Listening([], False, []))

    async def _send_heartbeats(self) -> None:
        while True:
            self._worker.beat()
            await asyncio.sleep(_HEARTBEAT_INTERVAL_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._app is not None:
            self._servers.close(self._app.end_streams)
        self._authenticator.close()


class Prefetcher(PeriodicThread):
    """Prefetches the page's first view in a thread, while the context is open."""

    def __init__(self, prefetch: Callable[[], bool]) -> None:
        """``prefetch``: computes the view unless it is up to date; False while the node is not ready."""

        def work() -> float:
            try:
                is_ready = prefetch()
            except Exception:
                # A request for the view gets the same error, and the page shows it.
                log.exception("console_prefetch_failed")
                return _REFRESH_INTERVAL_S
            return _REFRESH_INTERVAL_S if is_ready else _RETRY_INTERVAL_S

        super().__init__("aclog-console-prefetch", work)
