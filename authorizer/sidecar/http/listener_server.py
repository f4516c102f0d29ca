"""ListenerServer: uvicorn's server of one listener, whose connections an Acceptor accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from authorizer.listeners.acceptor import Acceptor
from authorizer.sidecar.http.stoppable_server import StoppableServer

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl

    import uvicorn

    from authorizer.listeners.connection_limiter import Admission
    from authorizer.listeners.listener import Listener
    from authorizer.sidecar.http.limits import LoadLimiter


class ListenerServer(StoppableServer):
    """Creates SidecarProtocols, and closes their connections at shutdown."""

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
