"""Whatever comes in over HTTP, the sidecar answers for it, and never with an internal error."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from authorizer.sidecar.routes import request_state
from support.node_acls import topic_acl
from support.nodes import create, running_node, sidecar_of

QUESTION: dict[str, Any] = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "orders"},
    "context": {"host": "10.0.0.1"},
}
PLACES = [(part, field) for part, fields in QUESTION.items() for field in (None, *fields)]
PLACES += [("context", name) for name in ("log_if_denied", "min_offset", "at_offset", "as_of")]
PLACES += [("evaluations", None), ("options", "evaluations_semantic"), ("unknown", None)]

# Python's json writes what is no JSON (NaN, lone surrogates), too: just what is wanted here.
any_text = st.text(st.characters(exclude_categories=()), max_size=20)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=20,
)
# A number stands for one of the paths that are served.
paths = st.integers(0, 99) | st.sampled_from(
    ["/nothing", "/access/v1/", "*", "//", "/%", "/%ff%00", "http://x/"]
)
header_names = st.sampled_from(
    [b"X-Request-ID", b"X-Forwarded-For", b"Host", b"Content-Type", b"Expect", b"Upgrade", b"Connection"]
)


@st.composite
def almost_questions(draw: st.DrawFn) -> bytes:
    """A request or a batch with arbitrary values in some fields."""
    body = json.loads(json.dumps(QUESTION))
    for part, field in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=3)):
        value = draw(any_json)
        if field is None:
            body[part] = value
        elif isinstance(body.setdefault(part, {}), dict):
            body[part][field] = value
    if draw(st.booleans()):
        body["evaluations"] = [draw(any_json), dict(body)]
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A node's address whose callers may ask about everyone, from wherever they say."""
    log = tmp_path_factory.mktemp("any") / "log"
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(request_state, "MIN_OFFSET_TIMEOUT_S", 0.0)
        node = stack.enter_context(running_node(log, log_mode="create", describe_principals="User:ANONYMOUS"))
        create(node, [topic_acl("orders")])
        yield stack.enter_context(sidecar_of(node, trusted_proxies="127.0.0.1"))


@pytest.fixture(scope="module")
def served(url: str) -> list[str]:
    """The paths that there are."""
    return sorted(httpx.get(url).json()["paths"])


def path_of(path: int | str, served: list[str]) -> str:
    return path if isinstance(path, str) else served[path % len(served)]


@given(
    path=paths, body=almost_questions() | any_json.map(json.dumps).map(str.encode) | st.binary(max_size=200)
)
@example(path="/access/v1/evaluation", body=b"[" * 200_000)
def test_no_body_gives_an_internal_error(url: str, served: list[str], path: int | str, body: bytes) -> None:
    """Arbitrary bytes, arbitrary JSON, and requests with arbitrary fields, to every path."""
    split = urlsplit(url)
    connection = http.client.HTTPConnection(split.hostname or "", split.port, timeout=30)
    connection.request("POST", path_of(path, served), body=body, headers={"content-type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status in {200, 400, 403, 404, 405, 410, 413, 503}, text
    if answer.status == 503:
        assert answer.headers["aclog-error"] == "OFFSET_NOT_VISIBLE"


@given(
    method=st.sampled_from([b"GET", b"POST", b"HEAD", b"OPTIONS", b"CONNECT", b"PRI"])
    | st.binary(max_size=6),
    path=paths | st.binary(max_size=20),
    headers=st.lists(st.tuples(header_names, st.binary(max_size=20)), max_size=3),
    body=almost_questions() | st.binary(max_size=50),
)
@example(method=b"GET", path=b"/livez", headers=[(b"X-Forwarded-For", b"unknown")], body=b"")
@example(method=b"GET", path=b"/livez", headers=[(b"X-Forwarded-For", b"::1%\xff")], body=b"")
@example(method=b"CONNECT", path=b"a:1", headers=[], body=b"")
@example(method=b"GET", path=0, headers=[(b"Upgrade", b"websocket"), (b"Connection", b"upgrade")], body=b"")
def test_no_request_gives_an_internal_error(
    url: str,
    served: list[str],
    method: bytes,
    path: int | str | bytes,
    headers: list[tuple[bytes, bytes]],
    body: bytes,
) -> None:
    """Bytes on the wire that are hardly HTTP: an error of the client's, or the connection is closed."""
    target = path if isinstance(path, bytes) else path_of(path, served).encode()
    lines = [b"%s %s HTTP/1.1" % (method, target), b"Content-Length: %d" % len(body)]
    lines += [b"%s: %s" % header for header in headers]
    split = urlsplit(url)
    with socket.create_connection((split.hostname or "", split.port or 0), timeout=30) as wire:
        wire.sendall(b"\r\n".join([*lines, b"", body]))
        wire.shutdown(socket.SHUT_WR)
        answer = wire.makefile("rb").read()
    if answer:
        assert int(answer.split()[1]) < 500 or b"OFFSET_NOT_VISIBLE" in answer, answer
