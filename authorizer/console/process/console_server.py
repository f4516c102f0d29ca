"""ConsoleServer: what the console's process answers with: the sidecar's application, on a private socket.

It is a worker without listeners: it follows the log itself, its changes go through the first worker, and it
asks the others what they have counted. Its requests are those that the workers pass on (``console_proxy``).
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, Self

from authorizer.console.history.background import Prefetcher
from authorizer.console.process.console_proxy import ConsoleProxyEndpoint
from authorizer.console.routes.in_process_console import InProcessConsole
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.auth.authenticator import Authenticator
from authorizer.sidecar.fleet_app import FleetApp
from authorizer.sidecar.http.limits import Load
from authorizer.sidecar.http.listener_properties import listener_at
from authorizer.sidecar.http.server_thread import Served, ServerThread, private_server
from authorizer.sidecar.telemetry.request_metrics import RequestMetrics
from authorizer.sidecar.workers.hosted_nodes import WHOLE, FleetNodes, OneNode
from authorizer.sidecar.workers.messages import Listening, Reached
from authorizer.sidecar.workers.worker_fanout import Peers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.configuration.load import Config
    from authorizer.node.fleet import Fleet, Member
    from authorizer.node.node import Node
    from authorizer.node.reconfiguration import Reconfiguration
    from authorizer.sidecar.base_app import RoutedApp
    from authorizer.sidecar.workers.worker import Worker

_TURN_S: Final = 0.1
# Nothing of what it does is kept, but a change that is on its way through the writer.
_GRACE_S: Final = 2


class ConsoleServer:
    """See the module. Answers in a thread of its own."""

    def __init__(self, config: Config, worker: Worker) -> None:
        self._worker = worker
        self._console = InProcessConsole()
        # Who asks, the workers have found out: no token comes here.
        self._authenticator = Authenticator(replace(config, auth_tokens_file=None, auth_oidc_jwks=None))
        self._load = Load(config)
        self._listeners = {
            each.name: replace(each, requires_authentication=False)
            for each in map(
                lambda endpoint, bound: listener_at(endpoint, bound, config),
                config.served_listeners(),
                worker.reserved,
            )
        }
        self._servers = ServerThread([self._turn])
        self._app: RoutedApp | None = None

    def serve(self, node: Node) -> NoReturn:
        """Answer for a started node until a signal.

        Raises:
            LogError: the log's cluster has answered, and this is no log for us (Node.reach).
        """
        peers = Peers(self._worker, OneNode(node))
        app = SidecarApp(
            node, self._authenticator, self._load, RequestMetrics(), peers.of(WHOLE), self._console
        )
        with self:
            self._start(app, node.reconfiguration)
            node.reach()
            self._worker.report(Reached())
            with Prefetcher(partial(self._console.prefetch, WHOLE)):
                self._servers.wait()

    def serve_fleet(self, fleet: Fleet) -> NoReturn:
        """The same for a fleet; what is wrong with one cluster ends nothing."""
        peers = Peers(self._worker, FleetNodes(fleet))
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
            self._worker.report(Reached())
            self._servers.wait()

    def _start(self, app: RoutedApp, reconfiguration: Reconfiguration) -> None:
        self._app = app
        reconfiguration.add(self._load.take)
        door = ConsoleProxyEndpoint(app, self._listeners)
        self._servers.start([Served(self._worker.listen(), private_server(door, _GRACE_S))])
        self._worker.report(Listening([], writable=False))

    async def _turn(self) -> None:
        """Let the supervisor know that the event loop turns."""
        while True:
            self._worker.turned()
            await asyncio.sleep(_TURN_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._app is not None:
            self._servers.close(self._app.end_streams)
        self._authenticator.close()
