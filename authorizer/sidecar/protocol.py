"""HTTP/1.1 on one listener: uvicorn's protocol, with a short way for evaluations.

Its connections know who is at the other end. A listener is known by the socket that a connection came in on,
not by its port: IPv4 and IPv6 on one port are two listeners.

An evaluation that needs no waiting is decided and answered where its last byte is read: without a task, and
without what ASGI needs to know of a request. Everything else goes uvicorn's way to the application, which
answers the same. The rules:

- A head that was answered at once is known when it comes again (``repeated_head``): its request is not parsed
  if one read has it whole, and nothing else.
- What is answered at once never overtakes: only a request before which everything was answered is, and a
  client that does not read its answers, or sends many requests at once, is served by tasks again.
- Only an ordinary request is: POST, HTTP/1.1, kept alive, no ``Expect``, a small body, a ``Host`` that is the
  sidecar's, a caller who is known without work. Behind a trusted proxy
  none is, because uvicorn's middleware finds the client's address there.
- A connection on which no request begins is closed after a time, a request that is not whole some time after
  its first byte is answered with 408, and a client that does not read its answers is cut off. Each connection
  looks once a second.
- What is beyond a limit (``load``) is refused by the application before it does anything else; a head that is
  too large, and requests that would pile up on a connection, end it.
- What is no HTTP is answered with 400, if nothing is being answered, and the connection closed.
- An offer to go on in another protocol is passed over, as RFC 9110 (section 7.8) allows: Java's HttpClient
  adds ``Upgrade: h2c`` to all it asks in the clear. The parser would take the body for the other protocol's,
  so such a request is read again without the offer.
"""

from __future__ import annotations

from array import array
from fcntl import ioctl
from termios import TIOCOUTQ
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from authorizer.host import host_address
from authorizer.sidecar.errors import RETRY, ErrorCode, HttpError
from authorizer.sidecar.http import JSON, can_be_repeated, error_response
from authorizer.sidecar.load import Limit, is_health
from authorizer.sidecar.origin import Origin, find_origin
from authorizer.sidecar.peer import peer_of
from authorizer.sidecar.repeated_head import RepeatedHead
from authorizer.sidecar.request_metrics import OTHER, TIMED_EVERY
from authorizer.sidecar.routed_app import RoutedApp

if TYPE_CHECKING:
    import asyncio
    from asyncio import TimerHandle
    from collections.abc import Mapping

    from starlette.responses import Response
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

    from authorizer.sidecar.load import Admission, Load
    from authorizer.sidecar.origin import Listener
    from authorizer.sidecar.request_metrics import RequestMetrics
    from authorizer.sidecar.routed_app import AtOnce

#: Between two looks at what a connection waits for.
_LOOK_S: Final = 1.0
#: Bytes that a client is to read in its time, if as many wait.
_READ_BYTES: Final = 64 * 1024

#: Bytes of a body that is answered at once, and requests of one read that are. More goes to a task.
_BODY_BYTES_MAX: Final = 32 * 1024
_REQUESTS_PER_READ_MAX: Final = 16
#: Bytes that are parsed at one go.
_PIECE_BYTES: Final = 16 * 1024
#: Heads of a connection that are kept in turn, to know the next one by: a client that never sends the same
#: one again is not to pay for it.
_HEADS_KEPT_MAX: Final = 16

_JSON: Final = JSON.encode("ascii")
#: Of an answer that is made here.
_HEADERS: Final = ((b"content-type", _JSON), (b"cache-control", b"no-store"))


class _RefusedError(Exception):
    """Ends the parsing of what was read, and the connection with it."""


class SidecarProtocol(HttpToolsProtocol):
    """One connection; see the module.

    Its peer is in the state of each of its requests: ``scope["state"]["peer"]``.
    """

    def __init__(
        self,
        listener: Listener,
        requests: RequestMetrics,
        load: Load,
        admission: Admission,
        **of_uvicorn: Any,
    ) -> None:
        super().__init__(**of_uvicorn)
        self._listener = listener
        self._admission = admission
        self._load = load
        self.timeout_keep_alive = load.config.sidecar_connections_max_idle_ms / 1000  # type: ignore[assignment]
        # What was received, and waits until the requests before it are answered.
        self._rest = b""
        # The last request that the application got.
        self._running: RequestResponseCycle | None = None
        # Of what is being received: whether its head has come, and the bytes of the pieces before its end.
        self._has_head = True
        self._head_bytes = 0
        self._read_bytes = 0
        # Since when the client has read too little, and how much waited for it then.
        self._unread_since_s: float | None = None
        self._unread_bytes = 0
        # What is answered at once, by the path; nothing where a middleware stands before the application.
        self._at_once: Mapping[bytes, AtOnce] = self.app.at_once if isinstance(self.app, RoutedApp) else {}
        self._requests = requests
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
        # Whether it was; and then its head, whose meaning the attributes above still have.
        self._was_answered = False
        self._repeated: RepeatedHead | None = None
        self._left_to_keep = _HEADS_KEPT_MAX
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
        self._admission.is_connected = True
        if self._admission.is_extra:
            self._at_once = {}
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
        self._load.waiting -= len(self.pipeline)
        self.pipeline.clear()
        self._rest = b""
        if self._running is not None:
            # uvicorn tells the last one only, which may wait for this.
            self._running.disconnected = True
            self._running.message_event.set()
        self._admission.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        repeated = self._repeated
        if repeated is not None and not self._is_receiving and self._is_free():
            body = repeated.body_of(data)
            if body is not None and len(body) <= _BODY_BYTES_MAX and self._answer(body):
                self._waits_since_s = self.loop.time()
                return
        if len(data) <= _PIECE_BYTES and not self._rest:
            self._read(data)
        else:
            self._rest += data
            self._read_rest()

    def _read_rest(self) -> None:
        """As far as its requests can begin: those of one read may be thousands."""
        while self._rest and not self.pipeline and not self.transport.is_closing():
            piece, self._rest = self._rest[:_PIECE_BYTES], self._rest[_PIECE_BYTES:]
            self._read(piece)
        if self._rest:
            self.flow.pause_reading()

    def _read(self, data: bytes) -> None:
        is_first = not self._is_receiving
        self._left_of_read = _REQUESTS_PER_READ_MAX
        self._read_bytes = len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            if self._offers_upgrade:
                self._read_without_upgrade(data[upgrade.args[0] :])
        except HttpParserError:
            if not self.transport.is_closing():
                message = "Invalid HTTP request received."
                self.logger.warning(message)
                self._refuse(ErrorCode.INVALID_HTTP, message)
        else:
            if is_first and self._was_answered and self._left_to_keep:
                self._left_to_keep -= 1
                self._repeated = RepeatedHead.of(data)
        if not self._has_head:
            self._head_bytes += len(data)
            # The first piece of it may have been another request's.
            if self._head_bytes > self._load.config.sidecar_max_head_bytes + _PIECE_BYTES:
                self._refuse_head()

    def shutdown(self) -> None:
        """The server ends: a connection that is idle closes now, another one after its answer."""
        if self._body is not None:
            # The application answers it, as the last one.
            self._hand_over()
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            # TLS would wait for the client to close its side, which an idle client does not.
            self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since_s = None

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _look(self) -> None:
        """Close it if the client has had its time."""
        self._look_timer = self.loop.call_later(_LOOK_S, self._look)
        if self._has_read_too_little():
            self._load.refused[Limit.UNREAD_TIMEOUT] += 1
            self.transport.abort()
        if self.transport.is_closing():
            return
        waited_s = self.loop.time() - self._waits_since_s
        request_s = self._load.config.sidecar_request_timeout_ms / 1000
        if self._is_answering() or waited_s < (request_s if self._is_receiving else self.timeout_keep_alive):
            return
        if self._is_receiving:
            self._load.refused[Limit.REQUEST_TIMEOUT] += 1
            self._refuse(ErrorCode.REQUEST_TIMEOUT, f"the request was not complete after {request_s:g} s")
        else:
            self.transport.close()

    def _has_read_too_little(self) -> bool:
        """Whether its client has had its time to read what waits for it, or is left when it is closed."""
        if not (self.flow.write_paused or self.transport.is_closing()):
            return False
        now_s, unread = self.loop.time(), self._unread()
        if self._unread_since_s is None or unread <= self._unread_bytes - _READ_BYTES:
            self._unread_since_s, self._unread_bytes = now_s, unread
        return now_s - self._unread_since_s >= self._load.config.sidecar_unread_timeout_ms / 1000

    def _unread(self) -> int:
        """Bytes that wait for the client, here and in the kernel."""
        waiting = array("i", [0])
        try:
            ioctl(self.transport.get_extra_info("socket"), TIOCOUTQ, waiting)
        except (OSError, ValueError):  # it has gone just now
            return 0
        return self.transport.get_write_buffer_size() + waiting[0]

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
        self._was_answered = False
        self._repeated = None
        self._host = b""
        self._authorization = []
        self._content_type = _JSON
        self._waits_since_s = self.loop.time()
        self._is_receiving = True
        self._has_head = False
        self._head_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head:
            return  # behind the body: nothing that is left out by a proxy comes in here
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
        self._has_head = True
        self._require_small_head()
        self._offers_upgrade = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._offers_upgrade:
            return
        if self.url in self._at_once and self._can_answer_at_once():
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
        if self._body is not None:
            if self._answer(b"".join(self._body)):
                self._was_answered = True
                self._body = None
                return
            self._hand_over()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._waits_since_s = self.loop.time()
        if self.cycle.response_complete and self.cycle.more_body:
            # Answered before it was whole: what is left of it is not waited for.
            self._is_receiving = False
        waiting = len(self.pipeline)
        super().on_response_complete()
        # One clock for a connection is enough (`_look`).
        self._unset_keepalive_if_required()
        self._load.waiting -= waiting - len(self.pipeline)
        if self._rest:
            self._read_rest()

    # --- the short way -----------------------------------------------------------------------------------

    def _is_free(self) -> bool:
        """Whether everything before was answered, and the client reads its answers."""
        cycle = self.cycle
        return (
            (cycle is None or cycle.response_complete)  # type: ignore[redundant-expr]
            and not self.pipeline
            and not self.flow.write_paused
            and not self._load.is_late
        )

    def _can_answer_at_once(self) -> bool:
        parser = self.parser
        self._left_of_read -= 1
        if self._host != self._host_of_origin:
            self._find_origin()
        return (
            self._origin is not None
            and self._left_of_read >= 0
            and self._is_free()
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

    def _answer(self, body: bytes) -> bool:
        """Write the answer to the request whose head was read last; False: the application is to answer."""
        asked, origin = self._at_once.get(self.url), self._origin
        if asked is None or origin is None or len(self._authorization) > 1:
            return False
        counted, app = asked.counted, asked.app
        begun_s = None if counted.count % TIMED_EVERY else perf_counter()
        header = self._authorization[0] if self._authorization else None
        caller = app.authenticator.known(header, origin.principal, origin.listener)
        if caller is None:
            return False
        if caller is not origin.principal or self._request_id is not None:
            request_id = None if self._request_id is None else self._request_id.decode("ascii")
            origin = Origin(origin.listener, caller, origin.address, request_id)
        try:
            answer = asked.answer(asked.path, body, origin)
        except Exception as error:  # noqa: BLE001 - the client gets an error, never a decision
            response = app.error_response_for(error, asked.path, "POST")
            self._write(response)
            app.requests.of("POST", asked.path, response.status_code).count += 1
            return True
        if answer is None:
            return False
        if self._default_headers is not self.server_state.default_headers:
            self._default_headers = self.server_state.default_headers
            lines = (b"%b: %b\r\n" % header for header in (*self._default_headers, *_HEADERS))
            self._head = b"%b%bcontent-length: " % (STATUS_LINE[200], b"".join(lines))
        line = b"" if self._request_id is None else b"\r\nx-request-id: " + self._request_id
        self.transport.write(b"%b%d%b\r\n\r\n%b" % (self._head, len(answer), line, answer))
        counted.count += 1
        if begun_s is not None:
            counted.durations.add(perf_counter() - begun_s)
        return True

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
        self.scope["state"]["refusal"] = self._refusal()
        waiting = len(self.pipeline)
        super().on_headers_complete()
        self._load.waiting += len(self.pipeline) - waiting

    def _refusal(self) -> HttpError | None:
        """What the application is to answer before it does anything else.

        Raises:
            _RefusedError: nothing, and the connection ends: too many wait for the answers before theirs.
        """
        load = self._load
        if self._is_answering() and load.has_many_waiting():
            load.refused[Limit.REQUESTS_IN_FLIGHT] += 1
            self.transport.close()
            raise _RefusedError
        if self._admission.is_extra and not is_health(self.url.decode("latin-1")):
            return HttpError(
                ErrorCode.TOO_MANY_CONNECTIONS,
                "there are as many connections as there may be, in all or from your address: close some",
                {**RETRY, "connection": "close"},
            )
        return None

    def _require_small_head(self) -> None:
        limits = self._load.config
        size_max = limits.sidecar_max_head_bytes
        if len(self.headers) <= limits.sidecar_max_headers:
            if self._read_bytes + self._head_bytes <= size_max:
                return
            if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) <= size_max:
                return
        self._refuse_head()
        raise _RefusedError

    def _refuse_head(self) -> None:
        limits = self._load.config
        self._load.refused[Limit.HEAD] += 1
        self._refuse(
            ErrorCode.HEAD_TOO_LARGE,
            f"the request's first line and headers have more than {limits.sidecar_max_head_bytes} bytes, or "
            f"are more than {limits.sidecar_max_headers} headers",
        )

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
        self._read(b"\r\n".join([*lines, b"", rest]))

    def _refuse(self, code: ErrorCode, message: str) -> None:
        """The last answer, to what is no whole request; none if it would be taken for another one's."""
        if not self._is_answering():
            self._request_id = None
            self._write(error_response(HttpError(code, message), ""), (b"connection", b"close"))
            waited_s = self.loop.time() - self._waits_since_s
            self._requests.add(OTHER, OTHER, code.status, waited_s)
        self.transport.close()
