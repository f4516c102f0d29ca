"""What clients may take of a sidecar: each limit refuses what is beyond it, and the others are answered."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from authorizer.listeners.connection_limiter import EXTRA_CONNECTIONS
from authorizer.node.node import Node
from authorizer.sidecar.http import protocol
from authorizer.sidecar.http.limits import Limit, LoadLimiter
from authorizer.sidecar.http.request_metrics import ServerMetrics
from authorizer.sidecar.routes import evaluations
from authorizer.sidecar.server import Sidecar
from records.log.directory.files import SOCKET_FILE
from support.node_acls import topic_acl
from support.nodes import SOON_S, config_of, create, running_node
from support.raw_http import Answer, Wire, connected, request
from support.waiting import wait_until

ONE, MANY, FILTER = "/access/v1/evaluation", "/access/v1/evaluations", "/v1/filter"
QUESTION = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}
ASKING = request("POST", ONE, body=json.dumps(QUESTION).encode())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """With User:a allowed to READ orders; its callers may ask about everyone."""
    log = tmp_path_factory.mktemp("limits") / "log"
    with running_node(log, log_mode="create", describe_principals="User:ANONYMOUS") as node:
        create(node, [topic_acl("orders")])
        yield node


@contextmanager
def limited(node: Node, **limits: object) -> Iterator[tuple[str, LoadLimiter]]:
    """A sidecar with these limits, by their keys without ``aclog.sidecar.``; its address and its load."""
    settings = {f"sidecar_{name}": value for name, value in limits.items()}
    with Sidecar(config_of(listeners="PLAINTEXT://127.0.0.1:0", **settings)) as sidecar:
        sidecar.start(node)
        yield sidecar.urls[0], sidecar._load


def waiting_for(node: Node, changes: int = 1) -> bytes:
    """A request that waits until there were as many more changes."""
    context = {"host": "10.0.0.1", "min_offset": node.status().end_offset + changes}
    return request("POST", ONE, body=json.dumps({**QUESTION, "context": context}).encode())


def grow(node: Node) -> None:
    create(node, [topic_acl(f"more-{node.status().end_offset}")])


def answer_to(wire: Wire, *requests: bytes) -> Answer:
    """The answer to the last of them; those before have had theirs."""
    answers = []
    for each in requests:
        wire.send(each)
        answers.append(wire.answer())
    answer = answers[-1]
    assert answer is not None
    return answer


def is_cut(wire: Wire) -> bool:
    """Wait until the connection has ended, with what the client had sent read or not."""
    try:
        return wire.is_closed()
    except ConnectionResetError:
        return True


def refused_as(answer: Answer | None) -> tuple[int, str]:
    assert answer is not None
    if answer.status in {429, 503}:
        assert int(answer.headers["retry-after"]) > 0
    return answer.status, answer.headers["aclog-error"]


# --- connections ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
def test_a_connection_beyond_the_limit_is_answered_only_for_health(node: Node, limit: str) -> None:
    """And has room again when another one has gone."""
    with limited(node, **{limit: 3}) as (url, load), ExitStack() as stack:
        wires = [stack.enter_context(connected(url)) for _ in range(3)]
        assert [answer_to(wire, ASKING).status for wire in wires] == [200] * 3
        with connected(url) as extra:
            assert answer_to(extra, request("GET", "/livez"), request("GET", "/readyz")).status == 200
            metrics = answer_to(extra, request("GET", "/metrics")).body.decode()
            assert f'aclog_sidecar_refused_total{{limit="{limit.removeprefix("max_")}"}} 1.0' in metrics
            extra.send(ASKING)
            assert refused_as(extra.only_answer()) == (503, "TOO_MANY_CONNECTIONS")
        wires[0].socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: load.connections._connections == 2)
        with connected(url) as another:
            assert answer_to(another, ASKING).status == 200


def test_connections_for_health_are_limited_and_shared_between_addresses(node: Node) -> None:
    with limited(node, max_connections=2) as (url, load), ExitStack() as stack:
        wires = [stack.enter_context(connected(url)) for _ in range(2 + EXTRA_CONNECTIONS // 2)]
        wait_until(lambda: sum(load.connections.by_listener.values()) == len(wires))
        with connected(url) as beyond:
            assert is_cut(beyond)
        with connected(url, source="127.0.0.2") as another:
            assert answer_to(another, request("GET", "/livez")).status == 200
        assert (
            answer_to(wires[0], ASKING).status == answer_to(wires[-1], request("GET", "/livez")).status == 200
        )
    assert (load.connections.by_listener, load.connections._by_address, load.connections._extra.taken) == (
        {"PLAINTEXT": 0, "unix": 0},
        {},
        0,
    )


# --- heads ------------------------------------------------------------------------------------------------

LARGE_HEADS = {
    "headers": request("POST", ONE, *[b"x: y"] * 100),
    "one header": request("POST", ONE, b"x: " + b"y" * 40_000),
    "path": request("POST", f"{ONE}?{'y' * 40_000}"),
    "the application's": request("GET", "/livez", *[b"x-%d: %b" % (at, b"y" * 1000) for at in range(50)]),
}


@pytest.mark.parametrize("pieces", [1, 7])
@pytest.mark.parametrize("head", LARGE_HEADS.values(), ids=LARGE_HEADS)
def test_a_large_head_is_refused(node: Node, head: bytes, pieces: int) -> None:
    """Also by itself, without its end, and behind another request."""
    with limited(node) as (url, load):
        for before in (b"", ASKING):
            with connected(url) as wire:
                if before:
                    assert answer_to(wire, before).status == 200
                size = len(head) // pieces + 1
                for at in range(0, len(head), size):
                    wire.send(head[at : at + size])
                    time.sleep(0.01)  # lets the server read the pieces separately
                assert refused_as(wire.only_answer()) == (431, "HEAD_TOO_LARGE")
        assert load.refused[Limit.HEAD] == 2


def test_an_endless_head_is_refused(node: Node) -> None:
    with limited(node) as (url, _), connected(url) as wire:
        wire.send(f"POST {ONE} HTTP/1.1\r\nx: ".encode())
        time.sleep(0.1)  # lets the server read the two parts separately
        wire.send(b"y" * 50_000)
        assert refused_as(wire.only_answer()) == (431, "HEAD_TOO_LARGE")


#: What a client can send for ever beside a body: what it begins with, and what comes again.
ENDLESS = {
    "head": (b"", b"GET /?", b"y"),
    "header": (b"", b"GET / HTTP/1.1\r\nx: ", b"y"),
    "headers": (b"", b"GET / HTTP/1.1\r\n", b"x: y\r\n"),
    "blank lines": (b"", b"", b"\r\n"),
    "blank lines behind a request": (ASKING, b"", b"\r\n"),
    "trailer": (b"", b"CHUNKED2\r\n{}\r\n0\r\nx: ", b"y"),
    "trailers": (b"", b"CHUNKED2\r\n{}\r\n0\r\n", b"x: y\r\n"),
    "chunk extension": (b"", b"CHUNKED2;x=", b"y"),
    "extension of the last chunk": (b"", b"CHUNKED2\r\n{}\r\n0;x=", b"y"),
    "chunk size": (b"", b"CHUNKED", b"0"),
    "chunks with long extensions": (b"", b"CHUNKED", b"1;x=%b\r\n \r\n" % (b"y" * 1000)),
}
#: Of an evaluation that is answered inline, one that the application reads, and what reads no body.
TARGETS = {"inline": f"POST {ONE}", "application": f"POST {ONE}?x", "early": "GET /livez"}
#: More than a head may have, what a client may send behind an early answer, and the kernel's buffers.
SENT_BYTES_MAX = 24 * 1024 * 1024


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize("endless", ENDLESS.values(), ids=ENDLESS)
@pytest.mark.parametrize("listener", ["TCP", "unix"])
def test_bytes_that_are_no_body_are_limited(
    node: Node, listener: str, endless: tuple[bytes, bytes, bytes], target: str
) -> None:
    """At every moment of a request: it is refused, or was answered, and the connection is cut."""
    before, begin, again = endless
    head = f"{target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    begin = begin.replace(b"CHUNKED", head)
    is_early = head in begin and "livez" in target
    many = again * (64 * 1024 // len(again))
    with limited(node) as (url, load):
        assert node.log.directory is not None
        where = url if listener == "TCP" else f"unix:{node.log.directory / SOCKET_FILE}"
        with connected(where) as wire:
            if before:
                assert answer_to(wire, before).status == 200
            wire.send(begin)
            if not is_early:
                wire.send(again * (60_000 // len(again)))
                assert refused_as(wire.answer()) == (431, "HEAD_TOO_LARGE")
            elif answer := wire.answer():
                assert (answer.status, answer.headers["connection"]) == (200, "close")
            sent = 0
            with suppress(ConnectionError):
                while sent < SENT_BYTES_MAX:
                    wire.send(many)
                    sent += len(many)
        assert sent < SENT_BYTES_MAX
        assert load.refused[Limit.HEAD] == (0 if is_early else 1)
        wait_until(lambda: load._bytes == 0)


def test_bytes_after_the_last_request_are_limited(node: Node) -> None:
    """While the answer to that is waited for."""
    last = waiting_for(node).replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
    with limited(node) as (url, load), connected(url) as wire:
        wire.send(last)
        sent = 0
        with suppress(ConnectionError):
            while sent < SENT_BYTES_MAX:
                wire.send(ASKING * 200)
                sent += len(ASKING) * 200
        assert sent < SENT_BYTES_MAX
        wait_until(lambda: load.connections._connections == 0)
        grow(node)  # so that nothing is left to wait for


def test_chunks_of_one_byte_form_a_body(node: Node) -> None:
    """However many: what is between them grows with it."""
    body = json.dumps(QUESTION).encode() + b" " * 50_000
    head = f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with limited(node) as (url, _), connected(url) as wire:
        wire.send(head, *(b"1\r\n%c\r\n" % byte for byte in body), b"0\r\n\r\n")
        answer = wire.answer()
        assert answer is not None
        assert answer.status == 200


def test_waiting_requests_do_not_raise_the_limit_of_bytes(node: Node) -> None:
    """An application that reads its body resumes reading: no more than a read is held beside what waits."""
    held = 0
    received = protocol.SidecarProtocol.data_received

    def noted(connection: protocol.SidecarProtocol, data: bytes) -> None:
        nonlocal held
        received(connection, data)
        held = max(held, len(connection._unparsed))

    live = request("GET", "/livez")
    count, waits = 30_000, 8
    with (
        patch.object(protocol.SidecarProtocol, "data_received", noted),
        limited(node) as (url, _),
        connected(url) as wire,
    ):
        parts = [waiting_for(node, changes) for changes in range(1, waits + 1)] + [live] * count
        sender = threading.Thread(target=wire.send, args=parts)
        sender.start()
        for _ in range(waits):
            wait_until(lambda: held > 0)
            with connected(url) as another:
                assert answer_to(another, ASKING, live, live).status == 200  # time to read more
            grow(node)
            answer = wire.answer()
            assert answer is not None
            assert answer.status == 200
        assert Counter((answer := wire.answer()) and answer.status for _ in range(count)) == {200: count}
        sender.join()
    assert held < len(live) * count / 3


def test_trailers_are_not_headers(node: Node) -> None:
    """A proxy that takes Authorization away, or looks at Host, does not look there."""
    body = json.dumps(QUESTION).encode()
    trailers = b"Authorization: Bearer x\r\nHost: evil.example\r\nX-Request-ID: r\r\n"
    head = f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n".encode()
    with limited(node) as (url, _), connected(url) as wire:
        for way in (b"", b"Connection: close\r\n"):
            wire.send(head, way, b"\r\n%x\r\n%b\r\n0\r\n%b\r\n" % (len(body), body, trailers))
            answer = wire.answer()
            assert answer is not None
            assert (answer.status, "x-request-id" in answer.headers) == (200, False), answer


# --- bodies -----------------------------------------------------------------------------------------------


def test_a_large_body_is_refused_before_its_end(node: Node) -> None:
    with limited(node, max_request_bytes=50_000) as (url, load):
        with connected(url) as wire:
            wire.send(request("POST", ONE, body=b" " * 60_000)[:-1])
            assert refused_as(wire.answer()) == (413, "CONTENT_TOO_LARGE")
        with connected(url) as wire:
            complete = json.dumps(QUESTION).encode()
            assert (
                answer_to(wire, request("POST", ONE, body=complete + b" " * (50_000 - len(complete)))).status
                == 200
            )
        assert load.refused[Limit.REQUEST_BYTES] == 1
        assert load._bytes == 0


def test_all_bodies_share_a_limit(node: Node) -> None:
    """Incomplete bodies take room, which is free again when they are complete or their clients close."""
    body = json.dumps(QUESTION).encode() + b" " * 100_000
    complete = request("POST", ONE, body=body)
    with (
        limited(node, max_request_bytes=150_000, max_bytes_in_flight=250_000) as (url, load),
        ExitStack() as stack,
    ):
        held = [stack.enter_context(connected(url)) for _ in range(2)]
        for wire in held:
            wire.send(complete[:-1])
        wait_until(lambda: load._bytes > 190_000)
        with connected(url) as wire:
            wire.send(complete)
            assert refused_as(wire.answer()) == (503, "OVERLOADED")
        # The refusal may come before the body was read, and then it ends its connection.
        with connected(url) as wire:
            assert answer_to(wire, ASKING).status == 200
        held[0].send(complete[-1:])
        answer = held[0].answer()
        assert answer is not None
        assert answer.status == 200
        held[1].socket.close()
        held[1].reader.close()
        wait_until(lambda: load._bytes == 0)
        with connected(url) as wire:
            assert answer_to(wire, complete, complete).status == 200


def test_the_evaluations_of_a_request_are_limited(node: Node) -> None:
    names = {
        "principal": "User:a",
        "host": "10.0.0.1",
        "operation": "READ",
        "resourceType": "TOPIC",
        "resourceNames": ["orders"] * 8,
    }
    with limited(node, max_questions=8) as (url, _), httpx.Client(base_url=url) as client:
        for count, status in ((8, 200), (9, 413)):
            assert client.post(MANY, json={**QUESTION, "evaluations": [{}] * count}).status_code == status
            assert client.post(FILTER, json={**names, "resourceNames": ["x"] * count}).status_code == status


@pytest.mark.parametrize(
    ("path", "method", "begin", "item", "end"),
    [
        (MANY, "POST", b'{"evaluations":[', b"{}", b"]}"),
        (FILTER, "POST", b'{"resourceNames":[', b'"a"', b"]}"),
        ("/access/v1/search/subject", "POST", b'{"x":[', b"1", b"]}"),
    ],
)
def test_a_body_that_will_be_refused_is_not_decoded(
    node: Node, path: str, method: str, begin: bytes, item: bytes, end: bytes
) -> None:
    """4 MB of nothing: to decode them would hold up the others for a tenth of a second."""
    count = (4 * 1024 * 1024 - 100) // (len(item) + 1)
    body = begin + b",".join([item] * count) + end
    with limited(node) as (url, load), httpx.Client(base_url=url) as client:
        with patch.object(evaluations, "decode_body", side_effect=AssertionError("it was decoded")):
            answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.headers["aclog-error"]) == (413, "CONTENT_TOO_LARGE")
        assert load.refused[Limit.QUESTIONS] == 1


# --- requests ---------------------------------------------------------------------------------------------


def test_a_request_beyond_the_limit_is_refused(node: Node) -> None:
    """Inline decisions and health do not count, because they do not wait."""
    with limited(node, max_requests_in_flight=1) as (url, load), connected(url) as waiting:
        waiting.send(waiting_for(node))
        with connected(url) as another:

            def is_full() -> bool:
                answer = answer_to(another, request("GET", "/v1/state"))
                return answer.status == 503 and refused_as(answer)[1] == "OVERLOADED"

            wait_until(is_full)
            assert (
                answer_to(another, ASKING, request("GET", "/livez"), request("GET", "/metrics")).status == 200
            )
            grow(node)
            answer = waiting.answer()
            assert answer is not None
            assert answer.status == 200
            wait_until(lambda: not is_full())
        assert load.refused[Limit.REQUESTS_IN_FLIGHT] > 0


def test_waiting_requests_leave_room_and_are_shared_between_addresses(node: Node) -> None:
    with limited(node, max_requests_in_flight=8) as (url, load), ExitStack() as stack:

        def connection(source: str = "") -> Wire:
            return stack.enter_context(connected(url, source))

        def answered_to_one_more(source: str) -> tuple[int, str]:
            return refused_as(answer_to(connection(source), waiting_for(node)))

        def take(source: str, taken: int) -> Wire:
            """Wait in one more place; then as many are taken."""
            wire = connection(source)
            wire.send(waiting_for(node))
            wait_until(lambda: len(node.loader._waiting) == taken)
            return wire

        # Of four places: half for one address, half of what is left for the next one.
        wires = [take("127.0.0.1", 1), take("127.0.0.1", 2)]
        assert answered_to_one_more("127.0.0.1") == (503, "OVERLOADED")
        wires += [take("127.0.0.2", 3)]
        assert answered_to_one_more("127.0.0.2") == (503, "OVERLOADED")
        assert load.refused[Limit.OFFSET_WAITS] == 2
        # What does not wait is answered.
        assert answer_to(connection(), request("GET", "/v1/state")).status == 200
        grow(node)
        assert [(answer := wire.answer()) and answer.status for wire in wires] == [200] * 3
        # And then others may.
        wires = [take("127.0.0.2", 1), take("127.0.0.2", 2)]
        grow(node)
        assert [(answer := wire.answer()) and answer.status for wire in wires] == [200] * 2


def test_pipelined_requests_are_limited(node: Node) -> None:
    """Those that wait for the one before are as many; the connection with one more is closed."""
    live = request("GET", "/livez")
    with limited(node, max_requests_in_flight=5) as (url, load):
        with connected(url) as patient, connected(url, source="127.0.0.2") as wire:
            patient.send(waiting_for(node), *[live] * 30)
            wait_until(lambda: load.waiting == 30)
            wire.send(waiting_for(node), *[live] * 21)
            assert is_cut(wire)
            wait_until(lambda: load.waiting == 30)
            grow(node)
            answers = [patient.answer() for _ in range(31)]
            assert [answer.status for answer in answers if answer] == [200] * 31
        wait_until(lambda: load.waiting == 0)


def test_a_late_event_loop_refuses_requests_but_answers_health(node: Node) -> None:
    """By both ways; once it is late again and again, and no longer than that."""
    with limited(node) as (url, load), connected(url) as wire:
        with patch.object(load, "record_delay"):
            for is_late in (True, False):
                load.is_late = is_late
                answers = [answer_to(wire, each) for each in (ASKING, request("GET", "/v1/state"))]
                if is_late:
                    assert [refused_as(answer) for answer in answers] == [(503, "OVERLOADED")] * 2
                else:
                    assert [answer.status for answer in answers] == [200] * 2
                for path in ("/livez", "/readyz", "/metrics"):
                    assert answer_to(wire, request("GET", path)).status == 200
        assert load.refused[Limit.LATE] == 2


def test_the_event_loop_measures_its_lateness() -> None:
    """While something holds it up again and again, by more than it may be."""
    seen: list[bool] = []
    over = asyncio.Event()

    class Seen(LoadLimiter):
        def record_delay(self, late_s: float) -> None:
            super().record_delay(late_s)
            seen.append(self.is_late)
            if True in seen and not self.is_late:
                over.set()

    async def hold_up() -> None:
        load = Seen(config_of(sidecar_overload_late_ms=100))
        load.connections.by_listener["http"] = 1
        watching = asyncio.create_task(load.watch(ServerMetrics({}).loop_delays))
        for _ in range(5):
            asyncio.get_running_loop().call_soon(time.sleep, 0.4)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait_for(over.wait(), SOON_S)
        watching.cancel()

    asyncio.run(hold_up())
    assert seen.index(True) > 0


@pytest.mark.parametrize("connections", [0, 1])
def test_the_event_loop_is_checked_less_often_without_connections(
    connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that an idle node takes less CPU."""
    monkeypatch.setattr("authorizer.sidecar.http.limits._CHECK_INTERVAL_S", 0.001)
    monkeypatch.setattr("authorizer.sidecar.http.limits._IDLE_CHECK_INTERVAL_S", 2 * SOON_S)

    async def has_checked() -> bool:
        load, checked = LoadLimiter(config_of()), asyncio.Event()
        load.connections.by_listener["http"] = connections
        watching = asyncio.create_task(load.watch(ServerMetrics({}).loop_delays, checked.set))
        await asyncio.wait((asyncio.create_task(checked.wait()),), timeout=SOON_S if connections else 0.05)
        watching.cancel()
        return checked.is_set()

    assert asyncio.run(has_checked()) == bool(connections)


def test_a_single_delay_refuses_nothing() -> None:
    load = LoadLimiter(config_of(sidecar_overload_late_ms=100))
    seen = []
    for late_s in (0.2, 0.05, 0.2, 0.3, 0.1, 0.2):
        load.record_delay(late_s)
        seen.append(load.is_late)
    assert seen == [False, False, False, True, False, False]


# --- clients that do not read -----------------------------------------------------------------------------


#: With an answer of some tens of kilobytes.
MUCH = request("GET", "/openapi.json")


@contextmanager
def soon_cut(node: Node, **limits: object) -> Iterator[tuple[LoadLimiter, Wire]]:
    """A connection whose client has half a second to read."""
    with (
        patch.object(protocol, "_CHECK_INTERVAL_S", 0.05),
        limited(node, unread_timeout_ms=500, **limits) as (url, load),
        connected(url) as wire,
    ):
        yield load, wire


def test_a_client_that_does_not_read_is_disconnected(node: Node) -> None:
    """Once its kernel and ours take no more."""
    with soon_cut(node) as (load, wire):
        wire.send(MUCH * 1000)
        wait_until(lambda: load.refused[Limit.UNREAD_TIMEOUT] == 1)
        wait_until(lambda: load.connections._connections == 0)
        assert load.waiting == 0


def test_a_slow_reader_is_not_disconnected(node: Node) -> None:
    """As long as it reads at all: what waits for it becomes less, here or in the kernel."""
    with soon_cut(node) as (load, wire):
        wire.send(MUCH * 500)
        for _ in range(500):
            answer = wire.answer()
            assert answer is not None
            assert answer.status == 200
            time.sleep(0.01)  # the subject is a slow reader
        assert load.refused[Limit.UNREAD_TIMEOUT] == 0


def test_an_idle_client_with_unread_answers_is_disconnected(node: Node) -> None:
    """Its connection is closed, and closing would wait until what is left has been read."""
    with soon_cut(node, connections_max_idle_ms=100) as (load, wire):
        size = len(answer_to(wire, MUCH).body)
        wire.send(MUCH * (5_000_000 // size))
        wait_until(lambda: load.connections._connections == 0)


# --- settings ---------------------------------------------------------------------------------------------


def test_limits_change_while_it_runs(tmp_path: Path) -> None:
    with running_node(tmp_path / "log", log_mode="create") as node, limited(node) as (url, load):
        with httpx.Client(base_url=url) as client:
            batch: dict[str, Any] = {"evaluations": [{}, {}]}
            assert client.post(MANY, json=batch).status_code == 200
            node.reconfiguration.put({"aclog.sidecar.max.questions": "1"}, "me")
            assert client.post(MANY, json=batch).status_code == 413
        taken = load.config
    node.reconfiguration.put({"aclog.sidecar.max.questions": "2"}, "me")
    assert load.config is taken  # it has been closed
