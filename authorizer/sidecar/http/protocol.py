"""HTTP/1.1 on one connection: uvicorn's protocol, with an inline fast path for evaluations.

Only the parser decides where a request begins and ends. Its state of a request is one ``_Message``, created
when the request begins and dropped when it ends, so that no state of a request reaches the next one. An
evaluation that need not wait is decided and answered in the parser's callback for the end of the message,
without a task and without ASGI. All other requests go to the application, which gives the same answers.
The rules:

- Answers have the order of the requests. An inline answer is written only after all answers before it. If a
  client does not read its answers, or pipelines many requests, tasks answer it.
- Only ordinary requests are answered inline: POST, HTTP/1.1, keep-alive, no ``Expect``, a small body, the
  sidecar's ``Host``, a caller that needs no verification. Behind a trusted proxy none is, because uvicorn's
  middleware determines the client's address there.
- A connection reads no further request after its last one: one that ends it (``Connection: close``,
  HTTP/1.0, CONNECT), one whose answer began before its end was read, or one that was rejected here. Further
  bytes are dropped, and the connection is closed after the answer.
- Bytes outside of bodies are limited at any time (``_framing_bytes``). The application that reads a body
  limits its size (``limits``); until then flow control does.
- The answer is 400 to a request that is not HTTP, 431 to one with too large a head, and 408 to one that is
  not complete in time; after the answers to the requests before it.
- A connection without a request is closed after a timeout, and so is one whose client does not read its
  answers. Each connection checks its timeouts once a second.
- An ``Upgrade`` header is ignored, as RFC 9110 (section 7.8) allows: Java's HttpClient sends ``Upgrade: h2c``
  with all requests without TLS. The parser would end at the upgrade and not parse the body, so such a request
  is parsed again without the header.

A listener is identified by its socket, not by its port: IPv4 and IPv6 on one port are two listeners.
"""

from __future__ import annotations

import asyncio
from array import array
from asyncio import TimerHandle
from collections.abc import Callable, Mapping
from contextlib import suppress
from fcntl import ioctl
from termios import TIOCOUTQ
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url
from starlette.responses import Response
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from authorizer.api.http.error_code import ErrorCode
from authorizer.api.ip_address import host_address
from authorizer.listeners.connection_limiter import Admission
from authorizer.listeners.connection_peer import identify_peer
from authorizer.listeners.listener import Listener
from authorizer.sidecar.http.application import Application, InlineEndpoint
from authorizer.sidecar.http.errors import RETRY, HttpError
from authorizer.sidecar.http.limits import Limit, LoadLimiter, is_health
from authorizer.sidecar.http.request_metrics import OTHER, TIMED_EVERY, RequestMetrics
from authorizer.sidecar.http.request_origin import Origin, find_origin
from authorizer.sidecar.http.request_response import JSON, error_response, is_valid_request_id

#: Between two checks of a connection's timeouts.
_CHECK_INTERVAL_S: Final = 1.0
#: Bytes that a client must read before its timeout, if as many wait.
_MIN_READ_BYTES: Final = 64 * 1024

#: Size of a body, and requests of one chunk, that are answered inline. Beyond these a task answers.
_BODY_BYTES_MAX: Final = 32 * 1024
_REQUESTS_PER_READ_MAX: Final = 16
#: Bytes that are given to the parser in one call.
_CHUNK_BYTES: Final = 16 * 1024
#: Bytes that are allowed for a byte of a body: itself and chunk framing; a chunk of one byte has five of it.
_BYTES_PER_BODY_BYTE: Final = 1 + 8

_JSON: Final = JSON.encode("ascii")
#: Of an inline answer.
_HEADERS: Final = ((b"content-type", _JSON), (b"cache-control", b"no-store"))
_CLOSE: Final = (b"connection", b"close")
_EXPECT: Final = b"expect"
#: Headers that an inline answer depends on.
_INLINE_HEADERS: Final = frozenset((b"host", b"content-type", b"authorization", b"x-request-id"))
_NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})


class _StopParsingError(Exception):
    """Stops the parser: no further request of the connection is read."""


class _Flow(FlowControl):
    """Flow control that keeps reading paused while received bytes wait to be parsed.

    uvicorn resumes reading whenever an application receives; received bytes would accumulate.
    """

    has_unparsed = False

    def resume_reading(self) -> None:
        if not self.has_unparsed:
            super().resume_reading()


class _Cycle(RequestResponseCycle):
    """A request that the application handles, and its answer.

    If an answer begins before its request was read to the end, it is the last one of its connection:
    ``on_early`` is called before it is written.
    """

    def __init__(self, on_early: Callable[[], None], **uvicorn_arguments: Any) -> None:
        super().__init__(**uvicorn_arguments)
        self._on_early = on_early

    async def send(self, message: Any) -> None:
        is_early = self.more_body and not self.response_started and not self.disconnected
        if is_early:
            self._on_early()
            self.keep_alive = False  # so that the answer says "connection: close"
        await super().send(message)
        if is_early:
            # uvicorn would close the connection immediately; a client that still sends would miss the answer.
            self.keep_alive = True


class _Message:
    """The parsed part of one request.

    Attributes:
        url: as the request line has it.
        headers: of the head, with names in lower case; without trailers.
        offers_upgrade: whether it is parsed again without its ``Upgrade`` header.
        endpoint: the inline endpoint of its path, if its head allows an inline answer.
        inline: its headers by name, if it has an inline endpoint; none of _INLINE_HEADERS is repeated.
        body: the received part, until the application has the request.
        cycle: the request in the application; None before that.
    """

    __slots__ = ("body", "cycle", "endpoint", "has_head", "headers", "inline", "offers_upgrade", "url")

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self.offers_upgrade = False
        self.endpoint: InlineEndpoint | None = None
        self.inline = _NO_HEADERS
        self.body = b""
        self.cycle: _Cycle | None = None


def _has_no_repeated_header(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether no header that an inline answer depends on is repeated."""
    names = [name for name, _ in headers if name in _INLINE_HEADERS]
    return len(names) == len(set(names))


class SidecarProtocol(HttpToolsProtocol):
    """One connection. Its peer is in the state of its requests: ``scope["state"]["peer"]``."""

    flow: _Flow

    def __init__(
        self,
        listener: Listener,
        requests: RequestMetrics,
        load: LoadLimiter,
        admission: Admission,
        **uvicorn_arguments: Any,
    ) -> None:
        super().__init__(**uvicorn_arguments)
        self._listener = listener
        self._admission = admission
        self._load = load
        self.timeout_keep_alive = load.config.sidecar_connections_max_idle_ms / 1000  # type: ignore[assignment]
        # Received and not parsed yet: waits until the requests before it are answered.
        self._unparsed = b""
        # The request that is being received, and the last one that the application got.
        self._message: _Message | None = None
        self._last_cycle: RequestResponseCycle | None = None
        # Since the last request began, beyond the allowance of its body; without the chunk in which it began.
        self._framing_bytes = 0
        # Bytes that may still arrive and are dropped; None while requests are read.
        self._discardable_bytes: int | None = None
        # The answer to an invalid request, after those to the requests before it.
        self._last_error: HttpError | None = None
        # Since when the client has read too little, and how many bytes waited for it then.
        self._stalled_since_s: float | None = None
        self._stalled_bytes = 0
        # By path; empty if a middleware wraps the application.
        self._inline_endpoints: Mapping[bytes, InlineEndpoint] = (
            self.app.inline_endpoints if isinstance(self.app, Application) else {}
        )
        self._inline_budget = 0
        self._requests = requests
        # The origin of requests with this Host and without a token; None: they are not answered inline.
        self._host: bytes | None = None
        self._origin: Origin | None = None
        # The head of an inline answer up to its length; uvicorn's default headers change once a second.
        self._default_headers: list[tuple[bytes, bytes]] | None = None
        self._head = b""
        # Since when the connection waits for the rest of a request, or for the next one.
        self._waiting_since_s = 0.0
        self._timeout_timer: TimerHandle | None = None

    # --- the connection ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn's
        super().connection_made(transport)
        self.flow = _Flow(transport)
        self._admission.is_connected = True
        if self._admission.is_extra:
            self._inline_endpoints = {}
        address = None
        if self.client is not None:
            # A dual-stack socket reports an IPv4 peer with an IPv6 address.
            address = host_address(self.client[0])
            self.client = (address, self.client[1])
        self.app_state = {"peer": identify_peer(transport, address, self._listener)}
        self._waiting_since_s = self.loop.time()
        self._timeout_timer = self.loop.call_later(_CHECK_INTERVAL_S, self._check_timeouts)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timeout_timer is not None:
            self._timeout_timer.cancel()
        self._load.waiting -= len(self.pipeline)
        self.pipeline.clear()
        self._unparsed = b""
        self._message = None
        if self._last_cycle is not None:
            # uvicorn notifies only the last cycle, which may wait for this one.
            self._last_cycle.disconnected = True
            self._last_cycle.message_event.set()
        self._admission.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._discardable_bytes is None:
            if self._unparsed or self.pipeline or len(data) > _CHUNK_BYTES:
                self._unparsed += data
                self._parse_received()
            else:
                self._parse(data)
            return
        self._discardable_bytes -= len(data)
        if self._discardable_bytes < 0:
            self.transport.abort()

    def _parse_received(self) -> None:
        """Parse received bytes while no request is queued: one read may contain thousands of requests."""
        while self._unparsed and not self.pipeline:
            chunk, self._unparsed = self._unparsed[:_CHUNK_BYTES], self._unparsed[_CHUNK_BYTES:]
            self._parse(chunk)
        self.flow.has_unparsed = bool(self._unparsed)
        if self._unparsed:
            self.flow.pause_reading()

    def _parse(self, chunk: bytes) -> None:
        self._inline_budget = _REQUESTS_PER_READ_MAX
        self._framing_bytes += len(chunk)
        try:
            while chunk:
                try:
                    self.parser.feed_data(chunk)
                except HttpParserUpgrade as upgrade:
                    chunk = self._without_upgrade(chunk[upgrade.args[0] :])
                else:
                    break
        except HttpParserError:
            if self._discardable_bytes is None:
                message = "Invalid HTTP request received."
                self.logger.warning(message)
                self._stop_reading(HttpError(ErrorCode.INVALID_HTTP, message))
            return
        if self._framing_bytes > self._load.config.sidecar_max_head_bytes and self._discardable_bytes is None:
            self._reject_head()

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Return the bytes to parse again: the last parsed head without ``Upgrade``, and ``rest``."""
        message = self._message
        if message is None:
            return b""  # after CONNECT no request is read
        version = self.parser.get_http_version().encode("ascii")
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), message.url, version)]
        lines += [b"%b: %b" % header for header in message.headers if header[0] != b"upgrade"]
        self.parser = HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", rest])

    def _stop_reading(self, error: HttpError | None = None) -> None:
        """Read no further request; ``error`` answers an incomplete one, after the answers before it."""
        config = self._load.config
        is_complete = self._message is None and error is None
        self._discardable_bytes = (
            config.sidecar_max_head_bytes if is_complete else config.sidecar_max_request_bytes
        )
        self._unparsed = b""
        self.flow.has_unparsed = False
        message, self._message = self._message, None
        if error is None:
            return  # its own answer ends the connection
        self._last_error = error
        if message is not None and message.cycle is not None:
            self._abort_request(message.cycle)
        if not self._is_answering():
            self._close()

    def _abort_request(self, cycle: _Cycle) -> None:
        """Withdraw a request that will not be complete from the application."""
        cycle.disconnected = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
            self._load.waiting -= 1

    def _close(self) -> None:
        """Close the connection so that a client that still sends can read the last answer."""
        if self.transport.is_closing():
            return
        if self._last_error is not None:
            response = error_response(self._last_error, "")
            self._write(response, [_CLOSE])
            waited_s = self.loop.time() - self._waiting_since_s
            self._requests.add(OTHER, OTHER, response.status_code, waited_s)
        self._waiting_since_s = self.loop.time()
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self.flow.resume_reading()
        else:
            # TLS waits until the client has closed its side.
            self.transport.close()

    def shutdown(self) -> None:
        """Close an idle connection now, another one after its answer."""
        message = self._message
        if message is not None and message.has_head and message.cycle is None:
            # The application answers it, as the last one.
            with suppress(_StopParsingError):
                self._start_application(message)
        if self._discardable_bytes is not None and not self._is_answering():
            self.transport.close()
        super().shutdown()
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            # TLS would wait for the client to close its side, but an idle client does not.
            self.transport.abort()

    # --- time --------------------------------------------------------------------------------------------

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_since_s = None

    def _check_timeouts(self) -> None:
        self._timeout_timer = self.loop.call_later(_CHECK_INTERVAL_S, self._check_timeouts)
        if self._is_client_stalled():
            self._load.refused[Limit.UNREAD_TIMEOUT] += 1
            self.transport.abort()
        if self.transport.is_closing() or self._is_answering():
            return
        waited_s = self.loop.time() - self._waiting_since_s
        request_s = self._load.config.sidecar_request_timeout_ms / 1000
        if self._message is None:
            if waited_s >= self.timeout_keep_alive:
                self.transport.close()
        elif waited_s >= request_s:
            self._load.refused[Limit.REQUEST_TIMEOUT] += 1
            message = f"the request was not complete after {request_s:g} s"
            self._stop_reading(HttpError(ErrorCode.REQUEST_TIMEOUT, message))

    def _is_client_stalled(self) -> bool:
        """Whether the client did not read its answers in time, also those that remain after the close."""
        if not (self.flow.write_paused or self.transport.is_closing()):
            return False
        now_s, unread = self.loop.time(), self._count_unread()
        if self._stalled_since_s is None or unread <= self._stalled_bytes - _MIN_READ_BYTES:
            self._stalled_since_s, self._stalled_bytes = now_s, unread
        return now_s - self._stalled_since_s >= self._load.config.sidecar_unread_timeout_ms / 1000

    def _count_unread(self) -> int:
        waiting = array("i", [0])
        try:
            ioctl(self.transport.get_extra_info("socket"), TIOCOUTQ, waiting)
        except (OSError, ValueError):  # the socket was closed
            return 0
        return self.transport.get_write_buffer_size() + waiting[0]

    # --- the parser's calls ------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._discardable_bytes is not None:
            raise _StopParsingError
        self._message = _Message()
        self._framing_bytes = 0
        self._waiting_since_s = self.loop.time()

    def on_url(self, url: bytes) -> None:
        if self._message is not None:
            self._message.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        message = self._message
        if message is None or message.has_head:
            return  # trailers could bypass the checks of a proxy
        message.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        message = self._message
        if message is None:
            return
        message.has_head = True
        limits, headers = self._load.config, message.headers
        # An upper bound: the message began somewhere in a chunk that is not counted.
        size = _CHUNK_BYTES + self._framing_bytes
        if size > limits.sidecar_max_head_bytes or len(headers) > limits.sidecar_max_headers:
            self._check_head_size(message)
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            message.offers_upgrade = True
            return
        endpoint = self._inline_endpoints.get(message.url)
        if endpoint is not None:
            inline = dict(headers)
            if _EXPECT not in inline and (len(inline) == len(headers) or _has_no_repeated_header(headers)):
                message.endpoint, message.inline = endpoint, inline
                return
        self._start_application(message)

    def on_body(self, body: bytes) -> None:
        message = self._message
        if message is None:
            return
        self._framing_bytes = max(0, self._framing_bytes - _BYTES_PER_BODY_BYTE * len(body))
        cycle = message.cycle
        if cycle is None:
            received = message.body = message.body + body
            if len(received) > _BODY_BYTES_MAX:
                self._start_application(message)
            return
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        message = self._message
        if message is None or message.offers_upgrade:
            return
        self._waiting_since_s = self.loop.time()
        cycle = message.cycle
        if cycle is None:
            if self._answer_inline(message):
                self._message = None
                return
            cycle = self._start_application(message)
        self._message = None
        cycle.more_body = False
        cycle.message_event.set()
        if not self.parser.should_keep_alive():
            cycle.keep_alive = False  # trailers may ask for it
        if not cycle.keep_alive:
            self._stop_reading()

    # --- the fast path -----------------------------------------------------------------------------------

    def _answer_inline(self, message: _Message) -> bool:
        """Answer the request that the parser has just completed; False: the application must answer."""
        parser, running = self.parser, self._last_cycle
        self._inline_budget -= 1
        if (
            self._inline_budget < 0
            # Answers keep their order, and the client reads them.
            or not (running is None or running.response_complete)
            or self.pipeline
            or self.flow.write_paused
            or self._load.is_late
            or parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
        ):
            return False
        endpoint, headers = message.endpoint, message.inline
        host = headers.get(b"host")
        origin = self._origin if host == self._host else self._origin_by_host(host)
        if endpoint is None or origin is None or headers.get(b"content-type", _JSON) != _JSON:
            return False
        caller = endpoint.app.authenticator.cached_caller(
            headers.get(b"authorization"), origin.principal, origin.listener
        )
        if caller is None:
            return False
        request_id = headers.get(b"x-request-id")
        if caller is not origin.principal or request_id is not None:
            shown = None if request_id is None else request_id.decode("latin-1")
            if shown is not None and not is_valid_request_id(shown):
                return False
            origin = Origin(origin.listener, caller, origin.address, shown)
        return self._write_inline_answer(endpoint, message.body, origin, request_id)

    def _write_inline_answer(
        self, endpoint: InlineEndpoint, body: bytes, origin: Origin, request_id: bytes | None
    ) -> bool:
        counted = endpoint.counted
        begun_s = None if counted.count % TIMED_EVERY else perf_counter()
        try:
            answer = endpoint.answer(endpoint.path, body, origin)
        except Exception as error:  # noqa: BLE001 - the client gets an error, never a decision
            app = endpoint.app
            response = app.error_response_for(error, endpoint.path, "POST")
            self._write(response, [] if request_id is None else [(b"x-request-id", request_id)])
            app.requests.of("POST", endpoint.path, response.status_code).count += 1
            return True
        if answer is None:
            return False
        default_headers = self.server_state.default_headers
        if self._default_headers is not default_headers:
            self._default_headers = default_headers
            lines = (b"%b: %b\r\n" % header for header in (*default_headers, *_HEADERS))
            self._head = b"%b%bcontent-length: " % (STATUS_LINE[200], b"".join(lines))
        line = b"" if request_id is None else b"\r\nx-request-id: " + request_id
        self.transport.write(b"%b%d%b\r\n\r\n%b" % (self._head, len(answer), line, answer))
        counted.count += 1
        if begun_s is not None:
            counted.durations.add(perf_counter() - begun_s)
        return True

    def _origin_by_host(self, host: bytes | None) -> Origin | None:
        """Compute the origin of this connection's requests with a Host; None: the application rejects them.

        Clients do not change their Host on one connection.
        """
        self._host, self._origin = host, None
        if host is not None:
            with suppress(HttpError):
                self._origin = find_origin(
                    {"state": self.app_state, "headers": [(b"host", host)], "client": self.client}
                )
        return self._origin

    def _write(self, response: Response, extra: list[tuple[bytes, bytes]]) -> None:
        """Write a response without the application."""
        headers = [
            *self.server_state.default_headers,
            *response.raw_headers,
            (b"cache-control", b"no-store"),
            *extra,
        ]
        lines = (b"%b: %b\r\n" % header for header in headers)
        self.transport.write(
            b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", bytes(response.body)])
        )

    # --- the application ---------------------------------------------------------------------------------

    def _start_application(self, message: _Message) -> _Cycle:
        """Start or queue the application for a request with a complete head.

        _StopParsingError: too many requests are queued; the connection ends.
        """
        parser, load = self.parser, self._load
        is_answering = self._is_answering()
        if is_answering and load.has_too_many_waiting():
            load.refused[Limit.REQUESTS_IN_FLIGHT] += 1
            self._stop_reading()
            self.transport.close()
            raise _StopParsingError
        version, method, target = parser.get_http_version(), parser.get_method(), parse_url(message.url)
        raw_path = self.root_path.encode("ascii") + target.path
        scope: Any = {
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "method": method.decode("ascii"),
            "root_path": self.root_path,
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": target.query or b"",
            "headers": message.headers,
            "state": {**self.app_state, "refusal": self._refusal(message)},
        }
        message.cycle = self.cycle = cycle = _Cycle(
            self._stop_reading,
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=self.access_log,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=any(
                name == _EXPECT and value.lower() == b"100-continue" for name, value in message.headers
            ),
            # After CONNECT the client may use another protocol.
            keep_alive=version != "1.0" and method != b"CONNECT" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        cycle.body = bytearray(message.body)
        if is_answering:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
            load.waiting += 1
        else:
            self._start_asgi_task(cycle, self.app)
        return cycle

    def _refusal(self, message: _Message) -> HttpError | None:
        """Return the error with which the application must answer."""
        if not self._admission.is_extra or is_health(message.url.decode("latin-1")):
            return None
        return HttpError(
            ErrorCode.TOO_MANY_CONNECTIONS,
            "the limit of connections is reached, in total or for your address: close some",
            {**RETRY, "connection": "close"},
        )

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._last_cycle = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self._waiting_since_s = self.loop.time()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._load.waiting -= 1
            self._start_asgi_task(cycle, app)
        elif self._discardable_bytes is not None:
            self._close()
        self._parse_received()
        if not self.pipeline:
            self.flow.resume_reading()

    def _is_answering(self) -> bool:
        """Whether an answer is being written, or the application has a complete request."""
        running = self._last_cycle
        return bool(self.pipeline) or (
            running is not None
            and not running.response_complete
            and not running.disconnected
            and (running.response_started or not running.more_body)
        )

    def _check_head_size(self, message: _Message) -> None:
        limits = self._load.config
        size = len(message.url) + sum(len(name) + len(value) for name, value in message.headers)
        if size > limits.sidecar_max_head_bytes or len(message.headers) > limits.sidecar_max_headers:
            self._reject_head()
            raise _StopParsingError

    def _reject_head(self) -> None:
        limits = self._load.config
        self._load.refused[Limit.HEAD] += 1
        self._stop_reading(
            HttpError(
                ErrorCode.HEAD_TOO_LARGE,
                f"more than {limits.sidecar_max_head_bytes} bytes in the first line and headers, or between "
                f"and after the chunks of the body, or more than {limits.sidecar_max_headers} headers",
            )
        )
