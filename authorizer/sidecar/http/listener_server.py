"""ListenerServer: uvicorn's server of one listener, whose connections an Acceptor takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

from authorizer.sidecar.http.acceptor import Acceptor

if TYPE_CHECKING:
    import asyncio
    import socket
    import ssl

    from authorizer.sidecar.http.limits import Admission, LoadLimiter
    from authorizer.sidecar.http.listener import Listener


class ListenerServer(uvicorn.Server):
    """Makes SidecarProtocols, and closes their connections when it ends."""

    def __init__(
        self, config: uvicorn.Config, listener: Listener, load: LoadLimiter, tls: ssl.SSLContext | None
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._load = load
        self._tls = tls
        self._acceptors: list[Acceptor] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept on ``sockets``."""
        # uvicorn's own servers count no connection before its handshake: it is given no socket.
        await super().startup(sockets=[])
        self._acceptors = [
            Acceptor(each, self._listener, self._load, self._make_protocol, self._tls)
            for each in sockets or ()
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and end the connections that there are."""
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
