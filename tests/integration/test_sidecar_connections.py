"""Bytes on the sidecar's connections: answers in order, one meaning for both ways, clients without manners.

An evaluation is answered inline by the protocol, or by the application if it has to wait or is unusual
(`authorizer.sidecar.http.protocol`); the caller cannot see which.
"""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from authorizer.node.node import Node
from authorizer.sidecar.app import SidecarApp
from authorizer.sidecar.auth.stored_tokens import TOKENS_FILE, new_token
from authorizer.sidecar.http import protocol
from records.principal import KafkaPrincipal
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of
from support.raw_http import Answer, Wire, connected, request
from support.serving_process import many_files

ONE, MANY = "/access/v1/evaluation", "/access/v1/evaluations"


def question(topic: str = "orders", **context: object) -> dict[str, Any]:
    return {
        "subject": {"type": "User", "id": "a"},
        "action": {"name": "READ"},
        "resource": {"type": "TOPIC", "id": topic},
        "context": {"host": "10.0.0.1", **context},
    }


def asking(topic: str = "orders", **context: object) -> bytes:
    """A request that is answered inline, if it need not wait."""
    return request("POST", ONE, body=json.dumps(question(topic, **context)).encode())


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """With User:a allowed to READ orders; its callers may ask about everyone."""
    log = tmp_path_factory.mktemp("connections") / "log"
    with running_node(log, log_mode="create", describe_principals="User:ANONYMOUS") as node:
        create(node, [topic_acl("orders")])
        yield node


@pytest.fixture(scope="module")
def url(node: Node) -> Iterator[str]:
    with sidecar_of(node) as url:
        yield url


def grow(node: Node, topic: str = "") -> None:
    """One ACL more: another offset is visible."""
    create(node, [topic_acl(topic or f"more-{node.status().end_offset}")])


class AppRequests:
    """The paths of the requests that went to the application, by the port of their client.

    A connection of an earlier test, which its client has left, may still have one on its way.
    """

    def __init__(self) -> None:
        self.by_port: defaultdict[int, list[str]] = defaultdict(list)

    def of(self, wire: Wire) -> list[str]:
        """Those of an open connection, as they come."""
        return self.by_port[wire.socket.getsockname()[1]]


@pytest.fixture
def app_requests() -> Iterator[AppRequests]:
    requests = AppRequests()
    call = SidecarApp.__call__

    async def noted(app: SidecarApp, scope: Any, receive: Any, send: Any) -> None:
        requests.by_port[scope["client"][1]].append(scope["path"])
        await call(app, scope, receive, send)

    with patch.object(SidecarApp, "__call__", noted):
        yield requests


@contextmanager
def soon_over() -> Iterator[None]:
    """The protocol looks more often at what its connections wait for."""
    with patch.object(protocol, "_CHECK_INTERVAL_S", 0.05):
        yield


def decision(answer: Answer | None) -> bool:
    assert answer is not None
    assert answer.status == 200, answer
    decided: bool = json.loads(answer.body)["decision"]
    return decided


# --- one meaning ------------------------------------------------------------------------------------------

BODIES = [
    (ONE, json.dumps(question())),
    (ONE, json.dumps(question("other"))),
    (ONE, json.dumps({**question(), "subject": None})),
    (ONE, json.dumps({**question(), "action": {"name": "FLY"}})),
    (ONE, json.dumps(question(as_of=3))),
    (ONE, "{"),
    (ONE, ""),
    (ONE, "[" * 10_000),
    (ONE, '{"action":{"name":"READ"},' + json.dumps({**question(), "action": {"name": "WRITE"}})[1:]),
    (MANY, json.dumps({**question(), "evaluations": [{}, {"action": {"name": "FLY"}}, {"resource": None}]})),
    (MANY, json.dumps({**question(), "evaluations": []})),
    (MANY, json.dumps({"evaluations": [{}] * 10_001})),
    (MANY, json.dumps({**question(), "evaluations": 3})),
    (MANY, json.dumps({**question(), "options": {"evaluations_semantic": "no"}})),
]
HEADERS = [(), (b"X-Request-ID: r-1",), (b"x-request-id: r-1", b"X-Request-ID: r-2")]


@pytest.mark.parametrize("headers", HEADERS, ids=["plain", "request id", "two"])
@pytest.mark.parametrize(("path", "body"), BODIES)
def test_protocol_and_application_give_the_same_answer(
    url: str, app_requests: AppRequests, path: str, body: str, headers: tuple[bytes, ...]
) -> None:
    """Status, headers and body, inline or by the application; and when the same comes again."""
    encoded = body.encode()
    with connected(url) as wire:
        paths = app_requests.of(wire)
        wire.send(request("POST", path, *headers, body=encoded))
        inline = wire.answer()
        in_protocol = paths == []
        wire.send(request("POST", path, *headers, body=encoded))
        again = wire.answer()
        assert again is not None
        assert in_protocol is (paths == [])
        wire.send(request("POST", path, b"Connection: close", *headers, body=encoded))
        by_app = wire.only_answer()
    assert paths[-1] == path
    assert inline is not None
    assert by_app.headers.pop("connection") == "close"
    for each in (inline, again):
        assert {**each.headers, "date": ""} == {**by_app.headers, "date": ""}
        assert (each.status, each.body) == (by_app.status, by_app.body)
    # Of two headers that have to be one, the application says which counts.
    assert in_protocol is (len(encoded) < 32_000 and len(headers) < 2)


@pytest.mark.parametrize(
    "body", [b"\xff", b'{"subject":{"type":"User","id":"\xc3"}}', b'{"a":"\xed\xa0\x80"}']
)
def test_broken_utf_8_is_a_bad_request(url: str, body: bytes) -> None:
    with connected(url) as wire:
        wire.send(request("POST", ONE, body=body))
        answer = wire.answer()
        assert answer is not None
        assert answer.status == 400
        wire.send(asking())
        assert decision(wire.answer()) is True


def test_a_chunked_body_in_pieces_is_one_body(url: str, app_requests: AppRequests) -> None:
    body = json.dumps(question()).encode()
    with connected(url) as wire:
        wire.send(f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(body), 50):
            piece = body[at : at + 50]
            wire.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        wire.send(b"0\r\n\r\n")
        assert decision(wire.answer()) is True
        assert app_requests.of(wire) == []


@pytest.mark.parametrize(
    ("first_line", "headers", "status"),
    [
        (f"GET {ONE} HTTP/1.1", (), 405),
        (f"HEAD {ONE} HTTP/1.1", (), 405),
        (f"POST {ONE}?x=1 HTTP/1.1", (), 200),
        (f"POST {ONE}/ HTTP/1.1", (), 404),
        (f"POST {ONE} HTTP/1.0", (), 200),
        (f"POST {ONE} HTTP/1.1", (b"Connection: close",), 200),
        (f"POST {ONE} HTTP/1.1", (b"X-Request-ID: " + b"x" * 257,), 400),
        (f"POST {ONE} HTTP/1.1", (b"Content-Type: text/plain",), 400),
        (f"POST {ONE} HTTP/1.1", (b"Content-Type: application/json; charset=utf-8",), 200),
        (f"POST {ONE} HTTP/1.1", (b"Authorization: Bearer x",), 401),
        (f"POST {ONE} HTTP/1.1", (b"Host: example.org",), 421),
        (f"POST {ONE} HTTP/1.1", (b"Host: localhost", b"Host: example.org"), 421),
    ],
)
def test_the_application_answers_unusual_requests(
    url: str, app_requests: AppRequests, first_line: str, headers: tuple[bytes, ...], status: int
) -> None:
    body = json.dumps(question()).encode()
    with connected(url) as wire:
        wire.send(b"\r\n".join([first_line.encode(), b"Content-Length: %d" % len(body), *headers, b"", body]))
        line = wire.reader.readline()
        assert len(app_requests.of(wire)) == 1
    assert int(line.split()[1]) == status


def test_the_host_of_each_request_of_a_connection_is_checked(url: str) -> None:
    """The Host that was right once says nothing of the next request's."""
    body = json.dumps(question()).encode()
    lines = [f"POST {ONE} HTTP/1.1".encode(), b"Content-Length: %d" % len(body)]
    statuses = []
    with connected(url) as wire:
        for host in (b"localhost", b"localhost", b"example.org", b"localhost", b"127.0.0.1:1"):
            wire.send(b"\r\n".join([*lines, b"Host: " + host, b"", body]))
            answer = wire.answer()
            assert answer is not None
            statuses.append(answer.status)
    assert statuses == [200, 200, 421, 200, 200]


def test_a_client_that_expects_continue_gets_it(url: str) -> None:
    body = json.dumps(question()).encode()
    with connected(url) as wire:
        wire.send(request("POST", ONE, b"Expect: 100-continue", body=body)[: -len(body)])
        assert wire.reader.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert wire.reader.readline() == b"\r\n"
        wire.send(body)
        assert decision(wire.answer()) is True


def test_a_body_beyond_the_limit_is_refused_while_it_is_sent(url: str) -> None:
    """It begins like an inline request, and has no length by which to refuse it."""
    with connected(url) as wire:
        wire.send(f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for _ in range(5):
            wire.send(b"100000\r\n%b\r\n" % (b" " * 0x100000))
        answer = wire.answer()
        assert answer is not None
        assert (answer.status, answer.headers["aclog-error"]) == (413, "CONTENT_TOO_LARGE")


# --- whose request it is ---------------------------------------------------------------------------------

VICTIM = KafkaPrincipal("User", "victim")


@pytest.fixture(scope="module")
def victims_token(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A token of User:victim, and the file that knows it."""
    token, stored = new_token(VICTIM)
    file = tmp_path_factory.mktemp("victim") / "tokens"
    TOKENS_FILE.put(file, stored)
    return token, file


def about_victim(*headers: bytes) -> bytes:
    """Anyone may ask about itself; who may ask about others is in describe.principals."""
    body = json.dumps({**question(), "subject": {"type": "User", "id": VICTIM.name}}).encode()
    return request("POST", ONE, *headers, body=body)


def test_an_unread_body_does_not_change_the_next_caller(
    tmp_path: Path, victims_token: tuple[str, Path]
) -> None:
    """A body that looks like a head, behind an early answer, is followed by a request with another's token.

    This was taken for a head that had been parsed, and kept with the token's caller for the next one.
    """
    token, file = victims_token
    theirs = about_victim(b"Authorization: Bearer " + token.encode())
    # As the whole request that the victim's is the body of.
    fake_head = request("POST", ONE, body=theirs).removesuffix(theirs)
    early = f"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(fake_head)}\r\n\r\n".encode()
    body = json.dumps({**question(), "subject": {"type": "User", "id": VICTIM.name}}).encode()
    statuses = []
    with (
        running_node(tmp_path / "log", log_mode="create") as node,
        sidecar_of(node, auth_tokens_file=file) as url,
        connected(url) as wire,
        connected(url) as honest,
    ):
        honest.send(theirs, about_victim())
        assert [(answer := honest.answer()) and answer.status for _ in range(2)] == [200, 403]
        wire.send(early)
        live = wire.answer()
        assert live is not None
        with suppress(ConnectionError):
            for sent in (fake_head + theirs, request("POST", ONE, body=body)):
                wire.send(sent)
                while answer := wire.answer():
                    statuses.append(answer.status)
                    if len(statuses) % 2:
                        break
    assert statuses == []
    assert live.headers["connection"] == "close"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_answer_before_the_body_was_read_is_the_last_of_its_connection(url: str, method: str) -> None:
    """What comes behind it is no request, whatever it looks like; a body that has come changes nothing."""
    early = request(method, "/livez", body=b"x" * 100)[:-100]
    with connected(url) as wire:
        wire.send(early)
        answer = wire.answer()
        assert answer is not None
        assert answer.headers["connection"] == "close"
        wire.send(b"x" * 100, asking(), request("GET", "/livez"))
        assert wire.is_closed()
    with connected(url) as wire:
        wire.send(early, b"x" * 100)
        answer = wire.answer()
        assert answer is not None
        assert "connection" not in answer.headers
        wire.send(asking())
        assert decision(wire.answer()) is True


def test_a_client_that_still_sends_its_body_reads_the_refusal(url: str) -> None:
    """The connection is closed only when the client has had the chance to."""
    with connected(url) as wire:
        wire.send(request("POST", "/v1/filter", b"Host: example.org", body=b" " * 3_000_000))
        answer = wire.only_answer()
    assert (answer.status, answer.headers["connection"]) == (421, "close")


def test_bytes_after_connect_are_no_request(url: str) -> None:
    with connected(url) as wire:
        wire.send(request("CONNECT", "localhost:1", body=b"{}"), asking(), asking())
        assert wire.only_answer().headers["connection"] == "close"


def test_a_trailer_that_closes_the_connection_closes_it(url: str) -> None:
    """Else the parser would drop what comes next, and its client wait in vain."""
    body = json.dumps(question()).encode()
    head = f"POST {ONE} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with connected(url) as wire:
        wire.send(head, b"%x\r\n%b\r\n0\r\nConnection: close\r\n\r\n" % (len(body), body), asking())
        answer = wire.only_answer()
    assert decision(answer) is True
    assert answer.headers["connection"] == "close"


# --- order ------------------------------------------------------------------------------------------------


def test_an_inline_answer_does_not_overtake_a_waiting_one(url: str, node: Node) -> None:
    """Pipelined: the first waits for an offset, the others need not; the answers come in the order asked."""
    end = node.status().end_offset
    with connected(url) as wire:
        wire.send(asking(min_offset=end + 1), asking("other"), request("GET", "/livez"), asking())
        wire.socket.settimeout(0.3)
        with pytest.raises(TimeoutError):
            wire.socket.recv(1, socket.MSG_PEEK)
        wire.socket.settimeout(60)
        grow(node)
        assert decision(wire.answer()) is True
        assert decision(wire.answer()) is False
        live = wire.answer()
        assert live is not None
        assert live.body == b'{"live":true}'
        assert decision(wire.answer()) is True


def test_pipelined_requests_are_answered_in_order(url: str, app_requests: AppRequests) -> None:
    """More than one read has; some of them go to the application, so that others have their turn."""
    topics = [f"t{number}" if number % 3 else "orders" for number in range(300)]
    with connected(url) as wire:
        sender = threading.Thread(target=wire.send, args=[asking(topic) for topic in topics])
        sender.start()
        answers = [decision(wire.answer()) for _ in topics]
        sender.join()
        assert 0 < len(app_requests.of(wire)) < len(topics)
    assert answers == [topic == "orders" for topic in topics]


@pytest.mark.parametrize(
    "lengths",
    [
        (b"Content-Length: 5", b"Content-Length: 6"),
        (b"Content-Length: 5", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 5"),
        (b"Transfer-Encoding: chunked, identity",),
        (b"Content-Length: +5",),
        (b"Content-Length : 5",),
        (b"Content-Length: 5, 5",),
        (b"Content-Length: 5", b"Content-Length: 5"),
        (b"Content-Length: 18446744073709551621",),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked, identity"),
        (b"Transfer-Encoding: xchunked",),
        (b"Transfer-Encoding:\n chunked",),
        (b"X: y\r\n folded", b"Content-Length: 5"),
        (b"X: y\nContent-Length: 5",),
        (b"X: y\rContent-Length: 5",),
        (b"X: \0", b"Content-Length: 5"),
        (b": y", b"Content-Length: 5"),
    ],
)
@pytest.mark.parametrize("before", [b"", asking(), request("GET", "/livez")])
def test_an_ambiguous_length_ends_the_connection(url: str, lengths: tuple[bytes, ...], before: bytes) -> None:
    """Nothing behind it is taken for a request, by either way."""
    smuggled = b"0\r\n\r\n" + asking()
    with connected(url) as wire:
        if before:
            wire.send(before)
            assert wire.answer() is not None
        wire.send(
            b"\r\n".join([b"POST %b HTTP/1.1" % ONE.encode(), b"Host: localhost", *lengths, b"", smuggled])
        )
        answer = wire.only_answer()
    assert (answer.status, answer.headers["aclog-error"]) == (400, "INVALID_HTTP")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize(
    "chunks",
    [
        b"fffffffffffffffff\r\n",
        b"-1\r\n",
        b"0x1\r\n1\r\n",
        b"1 \r\n1\r\n",
        b"1\n1\r\n",
        b"1\r\n12\r\n",
        b"1\r\n1\n",
        b";\r\n",
        b"1\r\n1\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"1\r\n1\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
@pytest.mark.parametrize("path", [ONE, f"{ONE}?x"])
def test_ambiguous_chunks_end_the_connection(url: str, path: str, chunks: bytes) -> None:
    """Whether its request is the application's already or not."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with connected(url) as wire:
        wire.send(head, chunks, b"0\r\n\r\n", asking())
        answer = wire.only_answer()
    assert (answer.status, answer.headers["aclog-error"]) == (400, "INVALID_HTTP")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("cut", [False, True])
def test_invalid_bytes_are_refused_after_the_earlier_answers(url: str, node: Node, cut: bool) -> None:
    """Whether they wait, are with the application or are answered inline; in one read with it or not."""
    with connected(url) as wire:
        wire.send(asking(min_offset=node.status().end_offset + 1), request("GET", "/livez"), asking("other"))
        if cut:
            with connected(url) as another:
                another.send(asking())
                assert decision(another.answer()) is True  # the server has read what was sent before
        wire.send(b"\0\0\0\0", asking())
        grow(node)
        assert decision(wire.answer()) is True
        live = wire.answer()
        assert live is not None
        assert live.body == b'{"live":true}'
        assert decision(wire.answer()) is False
        refused = wire.only_answer()
    assert (refused.status, refused.headers["connection"]) == (400, "close")


def test_a_broken_chunk_fails_only_its_own_request(url: str, node: Node) -> None:
    """The request that it belongs to waits behind one that is answered later."""
    chunked = f"POST {ONE}?x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with connected(url) as wire:
        wire.send(asking(min_offset=node.status().end_offset + 1), chunked, b"5\r\n12345\r\nxyz\r\n")
        grow(node)
        assert decision(wire.answer()) is True
        refused = wire.only_answer()
    assert (refused.status, refused.headers["aclog-error"]) == (400, "INVALID_HTTP")


def test_an_offer_of_another_protocol_is_ignored(url: str) -> None:
    """However its bytes are cut, and with another request behind it."""
    offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAEAAEAAAAIAAAAB")
    body = json.dumps(question()).encode()
    whole = request("POST", ONE, *offer, body=body)
    behind = [asking("pay"), request("GET", "/livez", *offer), asking()]
    head_bytes = whole.index(b"\r\n\r\n") + 4
    for cut in (0, 30, head_bytes - 2, head_bytes, head_bytes + 1, len(whole) - 1):
        with connected(url) as wire:
            wire.send(whole[:cut])
            time.sleep(0.02)  # lets the server read the two parts separately
            wire.send(whole[cut:], *behind)
            answers = [wire.answer() for _ in range(1 + len(behind))]
            assert [answer.status for answer in answers if answer] == [200] * 4
            assert [json.loads(answer.body).get("decision") for answer in answers if answer] == [
                True,
                False,
                None,
                True,
            ]


def test_many_offers_of_another_protocol_in_one_read_are_ignored(url: str) -> None:
    """And so is one behind a request that the application answers."""
    offer = (b"Connection: Upgrade", b"Upgrade: h2c")
    topics = ["orders" if number % 3 else "other" for number in range(100)]
    bodies = [json.dumps(question(topic)).encode() for topic in topics]
    with connected(url) as wire:
        wire.send(request("GET", "/livez", *offer))
        wire.send(*(request("POST", ONE, *offer, body=body) for body in bodies))
        live = wire.answer()
        assert live is not None
        assert live.status == 200
        assert [decision(wire.answer()) for _ in topics] == [topic == "orders" for topic in topics]


JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;

public class Ask {
    public static void main(String[] given) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(given[0])).header("content-type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString(given[1])).build();
        var client = HttpClient.newHttpClient();
        for (int i = 0; i < 3; i++) {
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body());
        }
    }
}
"""


def test_javas_http_client_works_with_its_defaults(url: str, tmp_path: Path) -> None:
    """It offers HTTP/2 in the clear (`Upgrade: h2c`) with every request."""
    source = tmp_path / "Ask.java"
    source.write_text(JAVA_CLIENT)
    ran = subprocess.run(
        ["java", source, url + ONE, json.dumps(question())], capture_output=True, text=True, check=True
    )
    lines = ran.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["200"] * 3
    assert [json.loads(line.partition(" ")[2])["decision"] for line in lines] == [True] * 3


# --- clients without manners ------------------------------------------------------------------------------

WHOLE = asking()
HALVES = {
    "a head": WHOLE[:40],
    "a body": WHOLE[:-5],
    "no body": WHOLE[: WHOLE.index(b"\r\n\r\n") + 4],
    "the application's": request("POST", f"{ONE}?x", body=b"{}" * 9)[:-5],
    "a chunk": f"POST {ONE} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12".encode(),
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
@pytest.mark.parametrize(
    "before", [b"", asking(), request("GET", "/livez")], ids=["first", "second", "third"]
)
def test_an_incomplete_request_times_out(node: Node, half: bytes, before: bytes) -> None:
    with soon_over(), sidecar_of(node, sidecar_request_timeout_ms=300) as url, connected(url) as wire:
        wire.send(before, half)
        if before:
            assert wire.answer() is not None
        answer = wire.only_answer()
    assert (answer.status, answer.headers["aclog-error"]) == (408, "REQUEST_TIMEOUT")


def test_a_request_sent_byte_by_byte_times_out(node: Node) -> None:
    """Its time begins with its first byte, and not again with each."""
    with soon_over(), sidecar_of(node, sidecar_request_timeout_ms=500) as url, connected(url) as wire:
        wire.send(request("POST", ONE, body=b" " * 1000)[:-900])
        wire.socket.settimeout(0.1)
        for _ in range(100):
            wire.send(b" ")
            try:
                assert wire.socket.recv(12) == b"HTTP/1.1 408"
            except TimeoutError:
                continue
            return
    pytest.fail("it was waited for")


def test_a_request_that_waits_for_an_offset_is_not_idle(node: Node) -> None:
    """It may take longer than half a request, or none, may."""
    with (
        soon_over(),
        sidecar_of(node, sidecar_request_timeout_ms=100, sidecar_connections_max_idle_ms=1) as url,
        connected(url) as wire,
    ):
        wire.send(asking(min_offset=node.status().end_offset + 1))
        time.sleep(0.5)  # longer than both timeouts
        grow(node)
        assert decision(wire.answer()) is True


@pytest.mark.parametrize("before", [b"", asking(), request("GET", "/livez")])
def test_an_idle_connection_is_closed(node: Node, before: bytes) -> None:
    with (
        soon_over(),
        sidecar_of(node, sidecar_connections_max_idle_ms=1) as url,
        connected(url) as wire,
    ):
        wire.send(before)
        if before:
            assert wire.answer() is not None
        assert wire.is_closed()


def send_bytes(wire: Wire, count: int) -> None:
    """Of requests; TimeoutError: none is taken any more for as long as the socket's timeout."""
    while count > 0:
        count -= wire.socket.send(WHOLE * 100)


@pytest.mark.parametrize("per_read", [16, 10**9])
def test_the_server_stops_reading_from_a_client_that_does_not_read(node: Node, per_read: int) -> None:
    """Answers would pile up in memory otherwise, however few of them a read asks for."""
    with (
        patch.object(protocol, "_REQUESTS_PER_READ_MAX", per_read),
        sidecar_of(node) as url,
        connected(url) as wire,
    ):
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            send_bytes(wire, 100_000_000)
        with connected(url) as other:
            other.send(WHOLE)
            assert decision(other.answer()) is True


def test_a_thousand_idle_connections_block_no_other_client(url: str) -> None:
    with many_files(4096), ExitStack() as stack:
        idle = [stack.enter_context(connected(url)) for _ in range(1000)]
        idle[500].send(WHOLE[:50])
        with connected(url) as wire:
            for _ in range(100):
                wire.send(WHOLE)
                assert decision(wire.answer()) is True
        idle[500].send(WHOLE[50:])
        assert decision(idle[500].answer()) is True


# --- waiting and stopping ---------------------------------------------------------------------------------


def test_waiting_for_an_offset_uses_no_thread(url: str, node: Node) -> None:
    end = node.status().end_offset
    with ExitStack() as stack:
        waiting = [stack.enter_context(connected(url)) for _ in range(60)]
        threads = threading.active_count()
        for wire in waiting:
            wire.send(asking("more", min_offset=end + 1))
        with connected(url) as other:
            other.send(WHOLE)
            assert decision(other.answer()) is True
        assert threading.active_count() == threads
        grow(node, "more")
        assert all(decision(wire.answer()) for wire in waiting)


def test_a_request_in_progress_is_answered_when_the_server_stops(node: Node) -> None:
    """What has begun to come is read to its end and answered; it is the last one of its connection."""
    with ExitStack() as stack:
        url = stack.enter_context(sidecar_of(node))
        with connected(url) as wire, connected(url) as idle:
            idle.send(WHOLE)
            assert decision(idle.answer()) is True
            wire.send(WHOLE[:-5])
            idle.send(WHOLE)  # the server has read the half when it answers this
            assert decision(idle.answer()) is True
            closing = threading.Thread(target=stack.close)
            closing.start()
            assert idle.is_closed()
            wire.send(WHOLE[-5:])
            answer = wire.only_answer()
            closing.join()
    assert decision(answer) is True
    assert answer.headers["connection"] == "close"
