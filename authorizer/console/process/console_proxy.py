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
from authorizer.api.unix_address import unix_address
from authorizer.console.routes.access import require_console
from authorizer.console.routes.in_process_console import ConsoleRouteGroup, fleet_group, node_group
from authorizer.console.routes.paths import APPLY_PATH
from authorizer.sidecar.http.client_presence import while_connected
from authorizer.sidecar.http.connection_peer import Peer
from authorizer.sidecar.http.errors import RETRY, HttpError
from authorizer.sidecar.http.request_response import origin_of, read_body
from records.principal import KafkaPrincipal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Message, Receive, Scope, Send

    from authorizer.node.fleet import Fleet
    from authorizer.sidecar.base_app import RoutedApp
    from authorizer.sidecar.http.listener import Listener
    from authorizer.sidecar.route_group import NodeContext
    from authorizer.sidecar.workers.socket_directory import MeetingPlace

#: Requests of one worker that the console answers at a time, and how long one more waits for its turn.
_CONNECTIONS: Final = 64
_TURN_S: Final = 1.0
_CONNECT_S: Final = 5.0
# A plan may take more than a minute; a process that hangs is ended by the supervisor before.
_ANSWER_S: Final = 600.0
# The other end closes a connection on which nothing is asked for five seconds.
_KEPT_S: Final = 4.0
_NOT_SENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout)
_FAULTS: Final = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError)
#: Of an answer: what each server says for itself.
_SERVERS_OWN: Final = (b"date", b"server", b"connection", b"content-length", b"transfer-encoding")
#: It is the client's secret, and was looked at.
_SECRET: Final = b"authorization"


class ProxiedRequest(msgspec.Struct, frozen=True, array_like=True):
    """One request.

    Attributes:
        path: with ``/clusters/NAME`` before it, of a fleet.
        headers: as the client sent them.
        listener: the name of the one where it came in.
        principal: the caller.
        address: the client's, None at a Unix socket.
        is_proxy: the peer is a trusted one.
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
    """Makes routes that the console's process answers (``sidecar.route_group.RouteGroupFactory``)."""

    def __init__(self, place: MeetingPlace) -> None:
        self._place = place
        # The path is needed for as long as the process lives.
        self._address = ExitStack()
        self._pool = httpcore.AsyncConnectionPool(
            uds=self._address.enter_context(unix_address(place.console_socket)),
            max_connections=_CONNECTIONS,
            keepalive_expiry=_KEPT_S,
        )

    def for_node(self, _context: NodeContext) -> ConsoleRouteGroup:
        """The routes of one node."""
        return node_group(lambda _: self.answer)

    def for_fleet(self, _fleet: Fleet) -> ConsoleRouteGroup:
        """The routes of a fleet's front page."""
        return fleet_group(self.answer)

    async def answer(self, request: Request) -> Response:
        """Any of them.

        Raises:
            HttpError: 404, the console is not switched on here; 503, its process does not answer; and those
                of ``read_body``.
            ConnectionResetError: the client went away.
        """
        require_console(request)
        body = await read_body(request)
        try:
            asking = self._pool.request(
                "POST",
                "http://console/",
                content=msgspec.msgpack.encode(_proxied_request(request, body)),
                extensions={
                    "timeout": {"connect": _CONNECT_S, "read": _ANSWER_S, "write": _ANSWER_S, "pool": _TURN_S}
                },
            )
            # The console's process sees that the connection is closed, and ends the work.
            answer = await while_connected(request, asking)
        except _FAULTS as error:
            raise self._away(request, error) from error
        if request.scope["path"] == APPLY_PATH:
            request.state.has_changed = True
        response = Response(answer.content, answer.status)
        own = [(name, value) for name, value in answer.headers if name.lower() not in _SERVERS_OWN]
        response.raw_headers = [*own, *response.raw_headers]
        return response

    def _away(self, request: Request, error: Exception) -> HttpError:
        if isinstance(error, httpcore.PoolTimeout):
            said = "the console has as much to do as it can"
        else:
            said = f"the console is not there: {self._place.console.reason or 'it is being started'}"
        if request.scope["path"] == APPLY_PATH and not isinstance(error, _NOT_SENT):
            said += ". It is not known whether the change was carried out: look at the ACLs"
        return HttpError(ErrorCode.CONSOLE_AWAY, f"{said}. Decisions do not wait for it", RETRY)


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
    """ASGI 3 application on the socket of the console's process, in front of the sidecar's own."""

    def __init__(self, app: RoutedApp, listeners: Mapping[str, Listener]) -> None:
        """``listeners``: of the workers, by name."""
        self._app = app
        self._listeners = listeners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request that a worker has passed on."""
        asked = _decode(await Request(scope, receive).body())
        is_read = False

        async def body() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            is_read = True
            return {"type": "http.request", "body": asked.body, "more_body": False}

        peer = Peer(self._listeners[asked.listener], asked.principal, asked.is_proxy)
        again: dict[str, Any] = {
            **scope,
            "method": asked.method,
            "path": asked.path,
            "raw_path": asked.path.encode(),
            "query_string": asked.query,
            "headers": asked.headers,
            "client": None if asked.address is None else (asked.address, 0),
            "state": {"peer": peer},
        }
        await self._app(again, body, send)
