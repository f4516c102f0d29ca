"""A server's protocol without a socket: it gets bytes read by read and returns answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from support.raw_http import Answer

_DECIDING: Final = {b"host", b"content-type", b"authorization", b"x-request-id", b"expect"}
_COMPARED_HEADERS: Final[tuple[str, ...]] = ("aclog-error", "connection", "content-type", "x-request-id")


@dataclass(frozen=True, slots=True)
class ConnectionOutcome:
    """The answers on a connection.

    Attributes:
        answers: with the headers that are compared.
        is_closed: whether the server closed it.
    """

    answers: tuple[Answer, ...]
    is_closed: bool


class FakeTransport(asyncio.Transport):
    """Stores what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_paused = self.is_closed = self.has_eof = self.has_late_writes = False

    @property
    def is_ended(self) -> bool:
        """Whether the server will write no more."""
        return self.is_closed or self.has_eof

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("127.0.0.1", 40000), "sockname": ("127.0.0.1", 8181)}.get(name, default)

    def write(self, data: Any) -> None:
        if self.is_closed:
            return
        self.has_late_writes |= self.has_eof
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def write_eof(self) -> None:
        self.has_eof = True

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class StockProtocol(HttpToolsProtocol):
    """uvicorn's protocol, changed where ours differs on purpose:

    - invalid HTTP is answered after the requests before it, not instead of them;
    - a trailer that says "Connection: close" closes the connection after the answer;
    - trailers do not count as headers of the request.
    """

    is_garbage = False
    has_head = False

    def on_message_begin(self) -> None:
        self.has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.has_head = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_keep_alive():
            self.cycle.keep_alive = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self.is_garbage = True
        cycle = self.cycle
        if cycle is not None and cycle.more_body and self.parser is not None:  # type: ignore[redundant-expr]
            # This request is the invalid one.
            cycle.disconnected = True
            cycle.waiting_for_100_continue = False
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()

    def is_early(self) -> bool:
        """Whether the last answer began before its request was complete; ours then ends the connection."""
        cycle = self.cycle
        return cycle is not None and cycle.more_body and cycle.response_started  # type: ignore[redundant-expr]


def when_complete(app: Any, targets: Sequence[str]) -> Any:
    """The application as our protocol calls it: an evaluation starts when its (small) body is complete.

    That excludes clients that wait for 100, and repeated headers that decide how a request is answered.
    """

    async def waiting(scope: Any, receive: Any, send: Any) -> None:
        target = scope["raw_path"].decode() + ("?" if scope["query_string"] else "")
        names = [name for name, _ in scope["headers"] if name in _DECIDING]
        if target not in targets or b"expect" in names or len(set(names)) < len(names):
            await app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body, more = body + message["body"], message["more_body"]
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def received() -> Any:
            return messages.pop() if messages else await receive()

        await app(scope, received, send)

    return waiting


def protocol_settings(app: Any) -> Config:
    """As ``aclog serve`` configures uvicorn."""
    config = Config(app, lifespan="off", ws="none", log_config=None, access_log=False, proxy_headers=False)
    config.load()
    return config


async def run_pending_tasks() -> None:
    """Run all tasks that are ready."""
    ready: Any = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # there is no other way to ask
    while True:
        await asyncio.sleep(0)
        if not ready:
            return


async def run_connection(
    protocol: Any, transport: FakeTransport, reads: Sequence[bytes]
) -> ConnectionOutcome:
    """Give a new protocol these reads until it stops reading."""
    protocol.connection_made(transport)
    is_stock = isinstance(protocol, StockProtocol)
    for read in reads:
        protocol.data_received(read)
        await run_pending_tasks()
        assert transport.is_ended or not transport.is_paused
        if is_stock and (transport.is_ended or protocol.is_garbage or protocol.is_early()):
            break
    outcome = ConnectionOutcome(_answers(bytes(transport.written)), transport.is_ended)
    if is_stock and not transport.is_ended:
        if protocol.is_garbage:
            refusal = Answer(400, {"connection": "close"}, b"")
            outcome = ConnectionOutcome((*outcome.answers, refusal), is_closed=True)
        elif protocol.is_early():
            last = outcome.answers[-1]
            closing = Answer(last.status, {**last.headers, "connection": "close"}, last.body)
            outcome = ConnectionOutcome((*outcome.answers[:-1], closing), is_closed=True)
    protocol.connection_lost(None)
    await run_pending_tasks()
    assert not transport.has_late_writes
    return outcome


def server_state() -> ServerState:
    return ServerState()


def _answers(written: bytes) -> tuple[Answer, ...]:
    answers = []
    while written:
        head, end, written = written.partition(b"\r\n\r\n")
        assert end, head
        line, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        length = int(headers.get("content-length", 0))
        body, written = written[:length], written[length:]
        assert len(body) == length
        compared = {name: headers[name] for name in _COMPARED_HEADERS if name in headers}
        if compared.get("aclog-error") == "INVALID_HTTP":
            # Our protocol's text differs from uvicorn's.
            compared, body = {"connection": compared["connection"]}, b""
        answers.append(Answer(int(line.split()[1]), compared, body))
    return tuple(answers)
