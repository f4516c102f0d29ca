"""HTTP/1.1 on one listener: uvicorn's protocol, with a short way for evaluations.

Its connections know who is at the other end. A listener is known by the socket that a connection came in on,
not by its port: IPv4 and IPv6 on one port are two listeners.

An evaluation that needs no waiting is decided and answered where its last byte is read: without a task, and
without what ASGI needs to know of a request. Everything else goes uvicorn's way to the application, which
answers the same. The rules:

- What is answered at once never overtakes: only a request before which everything was answered is, and a
  client that does not read its answers, or sends many requests at once, is served by tasks again.
- Only an ordinary request is: POST, HTTP/1.1, kept alive, no ``Expect``, a small body, a ``Host`` that is the
  sidecar's, a caller who is known without work. Behind a trusted proxy
  none is, because uvicorn's middleware finds the client's address there.
- A connection on which no request begins is closed after ``timeout_keep_alive``, and a request that is not
  whole REQUEST_TIMEOUT_S after its first byte is answered with 408. Each connection looks once a second.
- What is no HTTP is answered with 400, if nothing is being answered, and the connection closed.
- An offer to go on in another protocol is passed over, as RFC 9110 (section 7.8) allows: Java's HttpClient
  adds ``Upgrade: h2c`` to all it asks in the clear. The parser would take the body for the other protocol's,
  so such a request is read again without the offer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from authorizer.host import host_address
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.errors import ErrorCode, HttpError
from authorizer.sidecar.evaluations import EVALUATION_PATH, EVALUATIONS_PATH
from authorizer.sidecar.http import JSON, can_be_repeated, error_response
from authorizer.sidecar.origin import find_origin
from authorizer.sidecar.peer import peer_of

if TYPE_CHECKING:
    import asyncio
    from asyncio import TimerHandle

    from starlette.responses import Response

    from authorizer.sidecar.origin import Listener, Origin

#: A request must be whole so long after its first byte.
REQUEST_TIMEOUT_S: Final = 30.0
#: Between two looks at what a connection waits for.
_LOOK_S: Final = 1.0

#: Bytes of a body that is answered at once, and requests of one read that are. More goes to a task.
_BODY_BYTES_MAX: Final = 32 * 1024
_REQUESTS_PER_READ_MAX: Final = 16

_JSON: Final = JSON.encode("ascii")
#: Of an answer that is made here.
_HEADERS: Final = ((b"content-type", _JSON), (b"cache-control", b"no-store"))
_PATHS: Final = {path.encode("ascii"): path for path in (EVALUATION_PATH, EVALUATIONS_PATH)}


class SidecarProtocol(HttpToolsProtocol):
    """One connection; see the module.

    Its peer is in the state of each of its requests: ``scope["state"]["peer"]``.
    """

    def __init__(self, listener: Listener, **of_uvicorn: Any) -> None:
        super().__init__(**of_uvicorn)
        self._listener = listener
        # Not where a middleware stands before the application.
        self._sidecar = self.app if isinstance(self.app, SidecarApp) else None
        # Of requests with this Host; None: they are not to be answered at once.
        self._origin: Origin | None = None
        self._host_of_origin: bytes | None = None
        # What a request's head says.
        self._host = b""
        self._authorization: list[bytes] = []
        self._content_type = _JSON
        self._offers_upgrade = False
        # Of a request that is to be answered at once, while it is received; None: it is the application's.
        self._body: list[bytes] | None = None
        self._body_bytes = 0
        self._left_of_read = 0
        self._request_id: bytes | None = None
        # The head of an answer up to its length; made anew with uvicorn's default headers, once a second.
        self._default_headers: list[tuple[bytes, bytes]] | None = None
        self._head = b""
        # Since when the connection waits for its client: for the rest of a request, or for the next one.
        self._waits_since_s = 0.0
        self._is_receiving = False
        self._look_timer: TimerHandle | None = None

    # --- the connection ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        address = None
        if self.client is not None:
            # On a socket for IPv4 and IPv6 an IPv4 peer has an address of IPv6.
            address = host_address(self.client[0])
            self.client = (address, self.client[1])
        self.app_state = {"peer": peer_of(transport, address, self._listener)}
        self._waits_since_s = self.loop.time()
        self._look_timer = self.loop.call_later(_LOOK_S, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._left_of_read = _REQUESTS_PER_READ_MAX
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._offers_upgrade:
                self._read_without_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            message = "Invalid HTTP request received."
            self.logger.warning(message)
            self._refuse(ErrorCode.INVALID_HTTP, message)

    def shutdown(self) -> None:
        """The server ends: a connection that is idle closes now, another one after its answer."""
        if self._body is not None:
            # The application answers it, as the last one.
            self._hand_over()
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            # TLS would wait for the client to close its side, which an idle client does not.
            self.transport.abort()

    def _look(self) -> None:
        """Close it if the client has had its time."""
        if self.transport.is_closing():
            return
        waited_s = self.loop.time() - self._waits_since_s
        patience_s = REQUEST_TIMEOUT_S if self._is_receiving else self.timeout_keep_alive
        if waited_s < patience_s or self._is_answering():
            self._look_timer = self.loop.call_later(_LOOK_S, self._look)
        elif self._is_receiving:
            self._refuse(
                ErrorCode.REQUEST_TIMEOUT, f"the request was not complete after {REQUEST_TIMEOUT_S:g} s"
            )
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        """Whether an answer is under way, or a whole request with the application."""
        cycle = self.cycle
        return bool(self.pipeline) or (
            cycle is not None  # type: ignore[redundant-expr]  # as it is before the first request
            and not cycle.response_complete
            and (cycle.response_started or not cycle.more_body)
        )

    # --- the parser's calls ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        # What ASGI needs is made when it is known that it is needed (`_begin`).
        self.url = b""
        self.headers = []
        self.expect_100_continue = False
        self._request_id = None
        self._host = b""
        self._authorization = []
        self._content_type = _JSON
        self._waits_since_s = self.loop.time()
        self._is_receiving = True

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"host":
            self._host += b"%b\n" % value  # of two, both
        elif name == b"content-type":
            self._content_type = value
        elif name == b"authorization":
            self._authorization.append(value)
        elif name == b"x-request-id":
            self._request_id = self._request_id or value
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._offers_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._offers_upgrade:
            return
        if self.url in _PATHS and self._sidecar is not None and self._can_answer_at_once():
            self._body = []
            self._body_bytes = 0
        else:
            self._begin()

    def on_body(self, body: bytes) -> None:
        if self._body is None:
            super().on_body(body)
            return
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > _BODY_BYTES_MAX:
            self._hand_over()

    def on_message_complete(self) -> None:
        if self._offers_upgrade:
            return
        self._waits_since_s = self.loop.time()
        self._is_receiving = False
        if self._body is None or self._sidecar is None or self._origin is None:
            super().on_message_complete()
        else:
            self._answer(b"".join(self._body), self._sidecar, self._origin)

    def on_response_complete(self) -> None:
        self._waits_since_s = self.loop.time()
        if self.cycle.response_complete and self.cycle.more_body:
            # Answered before it was whole: what is left of it is not waited for.
            self._is_receiving = False
        super().on_response_complete()

    # --- the short way -----------------------------------------------------------------------------------

    def _can_answer_at_once(self) -> bool:
        parser, cycle = self.parser, self.cycle
        self._left_of_read -= 1
        if self._host != self._host_of_origin:
            self._find_origin()
        return (
            self._origin is not None
            and self._left_of_read >= 0
            and (cycle is None or cycle.response_complete)  # type: ignore[redundant-expr]
            and not self.pipeline
            and not self.flow.write_paused
            and not self.expect_100_continue
            and self._content_type == _JSON
            and (self._request_id is None or can_be_repeated(self._request_id.decode("latin-1")))
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
        )

    def _find_origin(self) -> None:
        """Once for a connection, for clients do not change the Host."""
        self._host_of_origin = self._host
        try:
            self._origin = find_origin(
                {"state": self.app_state, "headers": self.headers, "client": self.client}
            )
        except HttpError:
            self._origin = None  # the application says why

    def _answer(self, body: bytes, sidecar: SidecarApp, origin: Origin) -> None:
        caller = None
        if len(self._authorization) <= 1:
            header = self._authorization[0] if self._authorization else None
            caller = sidecar.authenticator.known(header, origin.principal, origin.listener)
        answer = None
        if caller is not None:
            if caller != origin.principal:
                origin = replace(origin, principal=caller)
            answer = sidecar.answer_at_once(_PATHS[self.url], body, origin)
        if answer is None:
            self._hand_over()
            super().on_message_complete()
            return
        self._body = None
        if not isinstance(answer, bytes):
            self._write(answer)
            return
        if self._default_headers is not self.server_state.default_headers:
            self._default_headers = self.server_state.default_headers
            lines = (b"%b: %b\r\n" % header for header in (*self._default_headers, *_HEADERS))
            self._head = b"%b%bcontent-length: " % (STATUS_LINE[200], b"".join(lines))
        if self._request_id is None:
            head = b"%b%d\r\n\r\n" % (self._head, len(answer))
        else:
            head = b"%b%d\r\nx-request-id: %b\r\n\r\n" % (self._head, len(answer), self._request_id)
        self.transport.write(head + answer)

    def _write(self, response: Response, *extra: tuple[bytes, bytes]) -> None:
        """An answer of the application's own, without it."""
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            (b"cache-control", b"no-store"),
            *extra,
        ]
        if self._request_id is not None:
            headers.append((b"x-request-id", self._request_id))
        lines = (b"%b: %b\r\n" % header for header in headers)
        self.transport.write(
            b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", bytes(response.body)])
        )

    # --- uvicorn's way -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Give the request to the application, once its head has come."""
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.headers, self.expect_100_continue = url, headers, expects
        self.scope["headers"] = headers
        super().on_headers_complete()

    def _hand_over(self) -> None:
        """Give it what was to be answered at once, with what has come of its body."""
        body, self._body = b"".join(self._body or ()), None
        self._begin()
        super().on_body(body)

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Read the request again whose head has come, and then ``rest``: its body and what follows."""
        version = self.parser.get_http_version().encode("ascii")
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self.data_received(b"\r\n".join([*lines, b"", rest]))

    def _refuse(self, code: ErrorCode, message: str) -> None:
        """The last answer, to what is no whole request; none if it would be taken for another one's."""
        if not self._is_answering():
            self._request_id = None
            self._write(error_response(HttpError(code, message), ""), (b"connection", b"close"))
        self.transport.close()
