"""Limits of the server of Kafka's protocol: memory, requests, connections, slow clients, shutdown."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authorizer.admin_server.handlers.acls import AclHandlers
from authorizer.node.node import Node
from support.admin_sockets import (
    API_VERSIONS,
    admin_server,
    answers_api_versions,
    connected,
    describe_every_acl,
    framed,
    receive,
)
from support.node_acls import topic_acl
from support.nodes import SOON_S, create, running_node
from support.waiting import wait_until

SUPER_USER = "User:ANONYMOUS"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with 12 MB of ACLs, on which anonymous clients are super users."""
    directory: Path = tmp_path_factory.mktemp("node") / "log"
    with running_node(directory, log_mode="create") as node:
        node.authorizer.reconfigure({"super.users": SUPER_USER})
        for batch in range(2):
            create(node, [topic_acl(f"{batch}-{number:05}" + "n" * 20_000) for number in range(300)])
        yield node


def refused(node: Node, limit: str) -> float:
    return node.metrics.get_sample_value("aclog_admin_refused_total", {"limit": limit}) or 0


def test_requests_that_are_received_have_a_common_memory(node: Node) -> None:
    part = (300_000).to_bytes(4, "big") + bytes(280_000)
    limits = {"sidecar_max_request_bytes": 300_000, "sidecar_max_bytes_in_flight": 500_000}
    with capture_logs() as logged, admin_server(node, **limits) as server, connected(server) as first:
        first.sendall(part)
        wait_until(lambda: node.metrics.get_sample_value("aclog_admin_request_bytes") == len(part))
        with connected(server) as second:
            second.sendall(part)
            assert receive(second) is None
        assert refused(node, "bytes_in_flight") == 1
        # Small requests are answered meanwhile.
        assert answers_api_versions(server)
        first.close()
        wait_until(lambda: node.metrics.get_sample_value("aclog_admin_request_bytes") == 0)
        with connected(server) as second:
            second.sendall(part)
            wait_until(lambda: node.metrics.get_sample_value("aclog_admin_request_bytes") == len(part))
    (line,) = [each for each in logged if each["event"] == "admin_connection_closed"]
    assert "bytes are being received" in line["reason"]


def test_a_request_that_claims_too_much_closes_its_connection(node: Node) -> None:
    with admin_server(node) as server:
        for size in (-1, 0, 4 * 1024 * 1024 + 1, 2**31 - 1):
            with connected(server) as opened:
                opened.sendall(size.to_bytes(4, "big", signed=True))
                assert receive(opened) is None
        assert refused(node, "request_bytes") == 4


def test_one_client_does_not_fill_the_log(node: Node) -> None:
    """Each kind of error is one line in ten seconds; the next one says how many there were."""
    with capture_logs() as logged, admin_server(node) as server:
        for _ in range(20):
            with connected(server) as opened:
                opened.sendall(bytes(4))
                assert receive(opened) is None
        with connected(server) as opened:
            opened.sendall(framed(bytes(10)))
            assert receive(opened) is None
        wait_until(lambda: len(lines_of(logged)) == 2)
    assert [each["since_last_line"] for each in lines_of(logged)] == [1, 1]
    assert "Produce version 0 is not served" in lines_of(logged)[1]["reason"]


def lines_of(logged: Sequence[Any]) -> list[Any]:
    return [each for each in logged if each["event"] == "admin_connection_closed"]


def test_a_slow_request_closes_its_connection(node: Node) -> None:
    with admin_server(node, sidecar_request_timeout_ms=50) as server, connected(server) as opened:
        opened.sendall(framed(API_VERSIONS)[:-1])
        assert receive(opened) is None
        assert refused(node, "request_timeout") == 1


def test_requests_beyond_the_limit_wait(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    loop_events: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
    original = AclHandlers.describe

    async def describe(self: AclHandlers, request: object) -> object:
        loop_events.append((asyncio.get_running_loop(), asyncio.Event()))
        await loop_events[-1][1].wait()
        return await original(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(AclHandlers, "describe", describe)
    with (
        admin_server(node, sidecar_max_requests_in_flight=1) as server,
        connected(server) as first,
        connected(server) as second,
    ):
        first.sendall(describe_every_acl())
        wait_until(lambda: len(loop_events) == 1)
        second.sendall(framed(API_VERSIONS))
        second.settimeout(0.2)
        with pytest.raises(TimeoutError):
            receive(second)
        second.settimeout(SOON_S)
        loop, event = loop_events[0]
        loop.call_soon_threadsafe(event.set)
        assert receive(second) is not None
        assert receive(first) is not None


def test_pipelined_requests_take_turns_with_those_of_others(node: Node) -> None:
    # So many that they are not all answered before a busy machine runs this thread again.
    count = 20_000
    with admin_server(node) as server, connected(server) as first, connected(server) as second:
        second.sendall(framed(API_VERSIONS))
        assert receive(second) is not None
        reading = threading.Thread(target=lambda: [receive(first) for _ in range(count)])
        reading.start()
        first.sendall(framed(API_VERSIONS) * count)
        wait_until(lambda: answered(node) > 1)
        second.sendall(framed(API_VERSIONS))
        assert receive(second) is not None
        assert answered(node) < count / 2
        reading.join()


def answered(node: Node) -> float:
    """How many requests for ApiVersions were answered."""
    name, labels = "aclog_admin_request_local_seconds_count", {"request": "ApiVersions"}
    return node.metrics.get_sample_value(name, labels) or 0


def test_an_answer_that_is_not_read_is_dropped(node: Node) -> None:
    settings = {"sidecar_unread_timeout_ms": 200}
    with admin_server(node, **settings) as server, connected(server, receive_buffer=4096) as opened:
        opened.sendall(describe_every_acl())
        wait_until(lambda: refused(node, "unread_timeout") == 1)
        assert node.metrics.get_sample_value("aclog_admin_answer_bytes") == 0
        assert receive(opened) is None


def test_unread_answers_have_a_common_memory(node: Node) -> None:
    limits = {"sidecar_max_request_bytes": 400_000, "sidecar_max_bytes_in_flight": 400_000}
    with admin_server(node, **limits) as server, ExitStack() as stack:
        # One may have any size; the next ones must wait until it was read.
        first = stack.enter_context(connected(server, receive_buffer=4096))
        first.sendall(describe_every_acl())
        wait_until(lambda: (node.metrics.get_sample_value("aclog_admin_answer_bytes") or 0) > 0)
        second = stack.enter_context(connected(server))
        second.sendall(describe_every_acl())
        assert receive(second) is None
        assert refused(node, "answer_bytes_in_flight") == 1
        listing = receive(first)
        assert listing is not None
        wait_until(lambda: node.metrics.get_sample_value("aclog_admin_answer_bytes") == 0)
        second = stack.enter_context(connected(server))
        second.sendall(describe_every_acl())
        assert receive(second) == listing


def test_connections_are_limited_in_all_and_for_each_address(node: Node) -> None:
    with admin_server(node, sidecar_max_connections=3, sidecar_max_connections_per_ip=2) as server:
        with ExitStack() as stack:
            for _ in range(2):
                opened = stack.enter_context(connected(server))
                opened.sendall(framed(API_VERSIONS))
                assert receive(opened) is not None
            assert not answers_api_versions(server)
            assert refused(node, "connections_per_ip") == 1
        wait_until(lambda: answers_api_versions(server))


def test_a_server_stops_without_waiting_for_idle_clients(node: Node) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(admin_server(node, sidecar_drain_timeout_ms=60_000))
        idle, incomplete = (stack.enter_context(connected(server)) for _ in range(2))
        idle.sendall(framed(API_VERSIONS))
        assert receive(idle) is not None
        incomplete.sendall(framed(API_VERSIONS)[:-1])
        begun_s = time.monotonic()
        server.close()
        assert time.monotonic() - begun_s < 20
        assert receive(idle) is None
        assert receive(incomplete) is None


def test_a_request_in_flight_is_answered_at_the_end(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    original = AclHandlers.describe

    async def describe(self: AclHandlers, request: object) -> object:
        begun.append(request)
        await asyncio.sleep(0.3)
        return await original(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(AclHandlers, "describe", describe)
    with admin_server(node) as server, connected(server) as opened:
        opened.sendall(describe_every_acl())
        wait_until(lambda: bool(begun))
        thread = threading.Thread(target=server.close)
        thread.start()
        assert receive(opened) is not None
        thread.join(SOON_S)
        assert receive(opened) is None


def test_metrics_of_requests_are_those_of_the_docs(node: Node) -> None:
    text = Path("docs/metrics.md").read_text(encoding="utf-8")
    described = dict(re.findall(r"^\| `(aclog_admin_[a-z_]+)` \| (\w+)", text, re.MULTILINE))
    with admin_server(node) as server:
        assert answers_api_versions(server)
        labels = {"request": "ApiVersions"}
        for part in ("local", "remote"):
            name = f"aclog_admin_request_{part}_seconds_count"
            assert node.metrics.get_sample_value(name, labels) == 1
        exposed = {
            f"{family.name}_total" if family.type == "counter" else family.name: family.type
            for family in node.metrics.collect()
            if family.name.startswith("aclog_admin_")
        }
    assert exposed == described
