"""Proxies console requests from a worker to the console process.

The worker checks limits and host names and authenticates the caller, as for every request. It sends the
request as one message over a private Unix socket. The caller is a field of that message, not a header, so a
client cannot forge it. ``ConsoleProxyEndpoint`` rebuilds the request in the console process.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import httpcore
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from authorizer.api.http.error_code import ErrorCode
from authorizer.api.sidecar_url import unix_address
from authorizer.console.routes.access import require_console
from authorizer.console.routes.route_group import APPLY_PATH, ConsoleRouteGroup, fleet_group, node_group
from authorizer.listeners.connection_peer import Peer
from authorizer.sidecar.http.errors import RETRY, HttpError
from authorizer.sidecar.http.request_response import origin_of, read_body, while_connected
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from authorizer.listeners.listener import Listener
    from authorizer.node.fleet import Fleet
    from authorizer.sidecar.base_app import BaseApp
    from authorizer.sidecar.route_group import NodeContext
    from authorizer.sidecar.workers.socket_directory import SocketDirectory

#: Maximum number of concurrent requests of one worker, and how long one more waits for a connection.
_CONNECTIONS_MAXIMUM: Final = 64
_QUEUE_TIMEOUT_S: Final = 1.0
_CONNECT_TIMEOUT_S: Final = 5.0
# A plan may take more than a minute; the supervisor kills a hanging process earlier.
_ANSWER_TIMEOUT_S: Final = 600.0
# Shorter than the five seconds after which the server closes an idle connection.
_IDLE_TTL_S: Final = 4.0
_TIMEOUTS: Final = {
    "connect": _CONNECT_TIMEOUT_S,
    "read": _ANSWER_TIMEOUT_S,
    "write": _ANSWER_TIMEOUT_S,
    "pool": _QUEUE_TIMEOUT_S,
}
_NOT_SENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
_FAULTS: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
#: Headers that the worker's own server sets.
_SERVER_HEADERS: Final = (b"date", b"server", b"connection", b"content-length", b"transfer-encoding")
#: The worker has checked it; the console process does not get the secret.
_SECRET: Final = b"authorization"


class ProxiedRequest(msgspec.Struct, frozen=True, array_like=True):
    """One request, as the worker sends it.

    Attributes:
        path: in a fleet with the prefix ``/clusters/NAME``.
        address: the client's address; None for a Unix socket.
        is_proxy: whether the peer is a trusted proxy.
    """

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    listener: str
    principal: KafkaPrincipal
    address: str | None
    is_proxy: bool


_decode: Final = msgspec.msgpack.Decoder(ProxiedRequest).decode


class ConsoleProxy:
    """Creates routes that the console process answers (``sidecar.route_group.RouteGroupFactory``)."""

    def __init__(self, sockets: SocketDirectory) -> None:
        self._sockets = sockets
        # Open while the process runs.
        self._address = ExitStack()
        self._pool = httpcore.AsyncConnectionPool(
            uds=self._address.enter_context(unix_address(sockets.console_socket)),
            max_connections=_CONNECTIONS_MAXIMUM,
            keepalive_expiry=_IDLE_TTL_S,
        )

    def for_node(self, _context: NodeContext) -> ConsoleRouteGroup:
        return node_group(lambda _: self.answer)

    def for_fleet(self, _fleet: Fleet) -> ConsoleRouteGroup:
        return fleet_group(self.answer)

    async def answer(self, request: Request) -> Response:
        """Send a request to the console process and return its response.

        HttpError: 404, the listener has no console; 503, the console process does not answer.
        """
        require_console(request)
        body = await read_body(request)
        try:
            exchange = self._pool.request(
                "POST",
                "http://console/",
                content=msgspec.msgpack.encode(_proxied_request(request, body)),
                extensions={"timeout": _TIMEOUTS},
            )
            # If the client disconnects, this closes the connection, and the console process ends the work.
            answer = await while_connected(request, exchange)
        except _FAULTS as error:
            raise self._unavailable(request, error) from error
        if request.scope["path"] == APPLY_PATH:
            request.state.has_changed = True
        response = Response(answer.content, answer.status)
        headers = [(name, value) for name, value in answer.headers if name.lower() not in _SERVER_HEADERS]
        response.raw_headers = [*headers, *response.raw_headers]
        return response

    def _unavailable(self, request: Request, error: Exception) -> HttpError:
        if isinstance(error, httpcore.PoolTimeout):
            problem = "the console has too many requests"
        else:
            problem = f"the console is not available: {self._sockets.console.reason or 'it is starting'}"
        if request.scope["path"] == APPLY_PATH and not isinstance(error, _NOT_SENT):
            problem += ". It is unknown whether the change was applied: check the ACLs"
        return HttpError(ErrorCode.CONSOLE_AWAY, f"{problem}. Decisions are not affected", RETRY)


def _proxied_request(request: Request, body: bytes) -> ProxiedRequest:
    scope, origin = request.scope, origin_of(request)
    peer: Peer = scope["state"]["peer"]
    client = scope["client"]
    return ProxiedRequest(
        method=scope["method"],
        path=scope["state"].get("prefix", "") + scope["path"],
        query=scope["query_string"],
        headers=[(name, value) for name, value in scope["headers"] if name != _SECRET],
        body=body,
        listener=origin.listener.name,
        principal=origin.principal,
        address=None if client is None else client[0],
        is_proxy=peer.is_proxy,
    )


class ConsoleProxyEndpoint:
    """ASGI application of the console process that unpacks proxied requests for the sidecar's application."""

    def __init__(self, app: BaseApp, listeners: Mapping[str, Listener]) -> None:
        """``listeners``: the workers' listeners by name."""
        self._app = app
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        proxied = _decode(await Request(scope, receive).body())
        is_read = False

        async def body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": proxied.body, "more_body": False}

        peer = Peer(self._listeners[proxied.listener], proxied.principal, proxied.is_proxy)
        unpacked: dict[str, Any] = {
            **scope,
            "method": proxied.method,
            "path": proxied.path,
            "raw_path": proxied.path.encode(),
            "query_string": proxied.query,
            "headers": proxied.headers,
            "client": None if proxied.address is None else (proxied.address, 0),
            "state": {"peer": peer},
        }
        await self._app(unpacked, body, send)
