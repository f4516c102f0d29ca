"""HTTP/1.1 on one listener: uvicorn's protocol, whose connections know who is at the other end.

A listener is known by the socket that a connection came in on, not by its port: IPv4 and IPv6 on one port are
two listeners.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from authorizer.host import host_address
from authorizer.sidecar.peer import peer_of

if TYPE_CHECKING:
    import asyncio

    from authorizer.sidecar.origin import Listener


class SidecarProtocol(HttpToolsProtocol):
    """One connection.

    Its peer is in the state of each of its requests: ``scope["state"]["peer"]``.
    """

    def __init__(self, listener: Listener, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._listener = listener

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        address = None
        if self.client is not None:
            # On a socket for IPv4 and IPv6 an IPv4 peer has an address of IPv6.
            address = host_address(self.client[0])
            self.client = (address, self.client[1])
        self.app_state = {"peer": peer_of(transport, address, self._listener)}

    def shutdown(self) -> None:
        """The server ends: a connection that is idle closes now, another one after its answer."""
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            # TLS would wait for the client to close its side, which an idle client does not.
            self.transport.abort()
