"""Connections on which nothing comes, with TLS too: counted when they are accepted, and closed soon."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn
from structlog.testing import capture_logs

from authorizer.configuration.load import load_config
from authorizer.listeners import acceptor
from authorizer.listeners.connection_limiter import ConnectionLimit
from authorizer.node.node import Node
from authorizer.sidecar.http.limits import LoadLimiter
from authorizer.sidecar.server import Sidecar
from support.certificates import Authority
from support.nodes import SOON_S, config_of, running_node
from support.raw_http import Wire, connected, request
from support.serving_process import many_files, serving_process
from support.waiting import wait_until

AUTHORITY = Authority("CN=Server CA")
LIVEZ = request("GET", "/livez")
EVALUATION = request(
    "POST",
    "/access/v1/evaluation",
    body=b'{"subject":{"type":"User","id":"ANONYMOUS"},"action":{"name":"READ"},'
    b'"resource":{"type":"TOPIC","id":"orders"},"context":{"host":"127.0.0.1"}}',
)
ACL = (
    b'{"acls":[{"resourceType":"TOPIC","resourceName":"orders","patternType":"LITERAL",'
    b'"principal":"User:ANONYMOUS","host":"*","operation":"READ","permissionType":"ALLOW"}]}'
)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with running_node(tmp_path_factory.mktemp("silent") / "log", log_mode="create") as node:
        yield node


@contextmanager
def tls_sidecar(node: Node, tmp_path: Path, **limits: int) -> Iterator[tuple[str, LoadLimiter]]:
    """One listener, with TLS, with these limits."""
    identity = AUTHORITY.issue("CN=localhost").write(tmp_path / "server.pem")
    flags = {f"aclog.sidecar.{name.replace('_', '.')}": str(value) for name, value in limits.items()}
    flags |= {"aclog.listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": str(identity)}
    config = load_config(environ={}, flags=flags)
    with Sidecar(config) as sidecar:
        sidecar.start(node)
        yield sidecar.urls[0], sidecar._load


@contextmanager
def connected_by_tls(url: str, source: str = "") -> Iterator[Wire]:
    context = ssl.create_default_context(cadata=AUTHORITY.pem)
    split = urlsplit(url)
    address = split.hostname or "", split.port or 0
    with (
        socket.create_connection(address, timeout=SOON_S, source_address=(source, 0)) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
        secured.makefile("rb") as reader,
    ):
        yield Wire(secured, reader)


def is_open(wire: Wire) -> bool:
    try:
        return wire.socket.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.fixture(params=["uvloop", "asyncio"])
def _each_event_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    factory = None if request.param == "uvloop" else asyncio.SelectorEventLoop
    made = uvicorn.Config.get_loop_factory
    with patch.object(uvicorn.Config, "get_loop_factory", lambda config: factory or made(config)):
        yield


@pytest.mark.usefixtures("_each_event_loop")
def test_a_connection_without_a_handshake_is_counted_and_closed(node: Node, tmp_path: Path) -> None:
    """By address, too; and the last one of an address does not keep another address out."""
    with (
        patch.object(acceptor, "HANDSHAKE_TIMEOUT_S", 0.5),
        tls_sidecar(node, tmp_path, max_connections_per_ip=3) as (url, load),
        ExitStack() as stack,
    ):
        silent = [stack.enter_context(connected(url)) for _ in range(3)]
        wait_until(lambda: load.connections.by_listener["SSL"] == 3)
        with connected_by_tls(url) as extra:
            extra.send(EVALUATION)
            answer = extra.answer()
            assert answer is not None
            assert answer.headers["aclog-error"] == "TOO_MANY_CONNECTIONS"
        with connected_by_tls(url, source="127.0.0.2") as another:
            another.send(EVALUATION)
            answer = another.answer()
            assert answer is not None
            assert answer.status == 200
            assert all(wire.is_closed() for wire in silent)
            wait_until(lambda: load.connections.by_listener["SSL"] == 1)
        assert load.connections.refused[ConnectionLimit.HANDSHAKE_TIMEOUT] == 3
        wait_until(lambda: load.connections.by_listener["SSL"] == 0)
        assert load.connections._by_address == {}


@pytest.mark.usefixtures("_each_event_loop")
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=repr)
def test_a_client_that_closes_during_its_handshake_is_not_counted(
    node: Node, tmp_path: Path, sent: bytes
) -> None:
    with tls_sidecar(node, tmp_path) as (url, load):
        for _ in range(20):
            with connected(url) as wire:
                wire.send(sent)
        with connected_by_tls(url) as wire:
            wire.send(LIVEZ)
            assert wire.answer() is not None
        wait_until(lambda: load.connections.by_listener["SSL"] == 0)
        assert load.connections._by_address == {}


@pytest.mark.usefixtures("_each_event_loop")
def test_the_server_stops_while_clients_are_silent(node: Node, tmp_path: Path) -> None:
    with ExitStack() as stack:
        with tls_sidecar(node, tmp_path) as (url, load):
            silent = [stack.enter_context(connected(url)) for _ in range(3)]
            wait_until(lambda: load.connections.by_listener["SSL"] == 3)
        assert not any(is_open(wire) for wire in silent)
    assert load.connections.by_listener["SSL"] == 0


def test_a_failed_accept_is_retried_with_a_delay(node: Node, tmp_path: Path) -> None:
    class Refusing(socket.socket):
        left = 3
        calls = 0

        def accept(self) -> tuple[socket.socket, object]:
            Refusing.calls += 1
            if Refusing.left:
                Refusing.left -= 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    with capture_logs() as lines, Sidecar(config_of(listeners="PLAINTEXT://127.0.0.1:0")) as sidecar:
        bound = sidecar._bound[0]
        refusing = Refusing(fileno=bound.socket.detach())
        object.__setattr__(bound, "socket", refusing)
        sidecar.start(node)
        with connected(sidecar.urls[0]) as wire:
            wire.send(LIVEZ)
            assert wire.answer() is not None
        assert Refusing.calls <= 6  # once for each pause, and until there is nothing more to accept
    assert [line["reason"] for line in lines if line["event"] == "connections_not_accepted"] == [
        os.strerror(errno.EMFILE)
    ]


def test_silent_connections_leave_file_descriptors_for_others(tmp_path: Path) -> None:
    """Of one address, and then of many: health, what is connected, and the log go on."""
    identity = AUTHORITY.issue("CN=localhost").write(tmp_path / "server.pem")
    properties = tmp_path / "aclog.properties"
    properties.write_text(f"ssl.keystore.location={identity}\nsuper.users=User:ANONYMOUS\n")
    listeners = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
    arguments = "--config", str(properties)
    with (
        many_files(4096),
        serving_process(tmp_path, *arguments, open_files=800, ACLOG_LISTENERS=listeners) as (process, urls),
        connected(urls[0]) as connection,
        ExitStack() as stack,
    ):
        plain, secured = urls
        for _ in range(900):
            stack.enter_context(connected(secured))
        # The sidecar itself needs files for it, too.
        with connected(plain, source="127.0.0.9") as another:
            another.send(EVALUATION)
            answer = another.answer()
            assert answer is not None
            assert answer.status == 200
        for number in range(900):
            stack.enter_context(connected(secured, source=f"127.0.0.{10 + number % 30}"))
        with connected(plain, source="127.0.0.99") as probe:
            probe.send(LIVEZ)
            answer = probe.answer()
            assert answer is not None
            assert answer.status == 200
        assert len(list(Path(f"/proc/{process.pid}/fd").iterdir())) < 800 - 300
        connection.send(request("POST", "/v1/acls", body=ACL))
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 200, answer
        transport = httpx.HTTPTransport(local_address="127.0.0.98")
        with httpx.Client(base_url=plain, transport=transport, timeout=SOON_S) as client:
            wait_until(lambda: 'aclog_http_connections{listener="SSL"} 0.0' in client.get("/metrics").text)
    assert '"few_open_files"' in (tmp_path / "stderr").read_text()
