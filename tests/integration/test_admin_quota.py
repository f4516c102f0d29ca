"""The quota of a principal's requests over Kafka's protocol: throttle_time_ms, and muted connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizer.admin_server import limits
from authorizer.admin_server.server import AdminServer
from authorizer.configuration.keys.names import ADMIN_REQUEST_RATE
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from records.log.directory import DirectoryLog
from support.admin_requests import EVERY, decoded, request_frame
from support.admin_sockets import API_VERSIONS, admin_server, answers_api_versions, connected, framed, receive
from support.nodes import SOON_S, running_node
from support.serving_process import admin_address
from support.serving_workers import serving_workers, worker_pid
from support.waiting import wait_until

RATE = 10
DELETED = {**EVERY, "resource_name_filter": "none"}
METADATA = {
    "topics": None,
    "allow_auto_topic_creation": False,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    directory: Path = tmp_path_factory.mktemp("node") / "log"
    with running_node(directory, log_mode="create") as node:
        yield node


@pytest.fixture
def server(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[AdminServer]:
    """With a burst of one second, so that tests are short."""
    monkeypatch.setattr(limits, "BURST_S", 1.0)
    # A changed setting of the node drops this one.
    node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    with admin_server(node, admin_quota_request_rate=RATE) as server:
        yield server


def creation(topic: str) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": topic,
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }


def throttle_ms(opened: Any, name: str, version: int, values: dict[str, Any]) -> float:
    opened.sendall(framed(request_frame(name, version, values)))
    return decoded(name, version, receive(opened)).throttle_time.total_seconds() * 1000


def test_a_request_beyond_the_quota_is_answered_and_the_connection_is_muted(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a burst permits is free; what is beyond it says for how long nothing more is read."""
    node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    monkeypatch.setattr(limits, "BURST_S", 5.0)
    with admin_server(node, admin_quota_request_rate=1) as server, connected(server) as opened:
        assert throttle_ms(opened, "create_acls", 3, {"creations": [creation("free")] * 4}) == 0
        begun_s = time.monotonic()
        beyond = throttle_ms(opened, "create_acls", 3, {"creations": [creation(f"t-{n}") for n in range(4)]})
        assert time.monotonic() - begun_s < beyond / 1000
        assert 1000 < beyond <= 3000
        # Every response has it: of a listing that is encoded in columns, too.
        listed = throttle_ms(opened, "describe_acls", 3, EVERY)
        assert time.monotonic() - begun_s >= beyond / 1000 - 0.02
        assert 0 < listed <= 1000
        assert 0 < throttle_ms(opened, "metadata", 12, METADATA) <= 1000
        throttled = node.metrics.get_sample_value("aclog_admin_requests_throttled_total")
        assert throttled == 3


def test_each_filter_of_a_removal_counts(server: AdminServer) -> None:
    with connected(server) as opened:
        assert throttle_ms(opened, "delete_acls", 3, {"filters": [DELETED] * 20}) > 900


def test_a_new_connection_of_the_principal_does_not_evade_the_quota(server: AdminServer) -> None:
    with connected(server) as first:
        beyond = throttle_ms(first, "delete_acls", 3, {"filters": [DELETED] * 15})
    begun_s = time.monotonic()
    with connected(server) as second:
        throttle_ms(second, "describe_acls", 3, EVERY)
    assert time.monotonic() - begun_s >= beyond / 1000 - 0.1


def test_a_refused_request_counts_and_says_so(server: AdminServer) -> None:
    """The response to an error has the throttle time, too."""
    wrong = {"creations": [{**creation("a"), "resource_type": 1}] * 15}
    with connected(server) as opened:
        opened.sendall(framed(request_frame("create_acls", 3, wrong)))
        answer = decoded("create_acls", 3, receive(opened))
    assert answer.throttle_time.total_seconds() > 0.4
    assert {each.error_code.name for each in answer.results} == {"unknown_server_error"}


def test_requests_that_a_broker_forwards_do_not_count(node: Node) -> None:
    """The broker has quotas for its clients, and must not be muted for all of them."""
    node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    texts = {
        "aclog.admin.listeners": "CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        ADMIN_REQUEST_RATE: "1",
    }
    values = {
        "request_data": request_frame("delete_acls", 3, {"filters": [DELETED] * 100}),
        "request_principal": bytes.fromhex("0000 0555736572 0261 00 00"),  # User:a
        "client_host_address": bytes((10, 0, 0, 1)),
    }
    with AdminServer(load_config(environ={}, flags=texts)) as server:
        server.start(node)
        with connected(server) as opened:
            for _ in range(5):
                opened.sendall(framed(request_frame("envelope", 0, values)))
                assert decoded("envelope", 0, receive(opened)).error_code.name == "none"
        assert node.metrics.get_sample_value("aclog_admin_requests_throttled_total") == 0


def test_muted_connections_end_with_their_client_and_with_the_server(server: AdminServer, node: Node) -> None:
    with connected(server) as first:
        assert throttle_ms(first, "delete_acls", 3, {"filters": [DELETED] * 1000}) > 90_000
    labels = {"listener": "PLAINTEXT"}
    wait_until(lambda: node.metrics.get_sample_value("aclog_admin_connections", labels) == 0)
    with connected(server) as second:
        wait_until(lambda: node.metrics.get_sample_value("aclog_admin_connections", labels) == 1)
        closing = threading.Thread(target=server.close)
        closing.start()
        closing.join(SOON_S)
        assert not closing.is_alive()
        assert receive(second) is None


def test_a_new_rate_takes_effect_while_it_runs(server: AdminServer, node: Node) -> None:
    with connected(server) as opened:
        assert throttle_ms(opened, "delete_acls", 3, {"filters": [DELETED] * 1000}) > 90_000
        node.reconfiguration.put({ADMIN_REQUEST_RATE: "1000000"}, "test")
        try:
            assert throttle_ms(opened, "delete_acls", 3, {"filters": [DELETED] * 1000}) == 0
            assert answers_api_versions(server)
        finally:
            node.reconfiguration.put({ADMIN_REQUEST_RATE: None}, "test")


def test_a_real_client_is_slowed_down_and_succeeds(server: AdminServer) -> None:
    client = AdminClient({"bootstrap.servers": server.addresses[0], "log_level": 0})
    begun_s = time.monotonic()
    for batch in range(3):
        bindings = [
            AclBinding(
                ResourceType.TOPIC,
                f"real-{batch}-{number}",
                ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                AclOperation.READ,
                AclPermissionType.ALLOW,
            )
            for number in range(RATE)
        ]
        for future in client.create_acls(bindings, request_timeout=SOON_S).values():
            future.result()
    # 30 requests at 10 a second, of which 10 are free, and the last answer does not wait.
    assert time.monotonic() - begun_s > 0.9


def test_workers_count_together(tmp_path: Path) -> None:
    """A connection to another process of the node does not evade the quota."""
    settings = {
        "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0",
        "super.users": "User:ANONYMOUS",
        ADMIN_REQUEST_RATE: "1",
    }
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    with serving_workers(tmp_path, tmp_path / "log", settings) as serving:
        serving.wait_until_ready()
        host, port = admin_address(serving.stderr_file).split(":")
        pids = serving.pids()
        with ExitStack() as opened:

            def connection_to(pid: int) -> socket.socket:
                while True:
                    found = opened.enter_context(socket.create_connection((host, int(port)), SOON_S))
                    found.sendall(framed(API_VERSIONS))
                    assert receive(found) is not None
                    if worker_pid(found.getsockname()[1], dict.fromkeys(pids.values())) == pid:
                        return found

            first, second = (connection_to(pids[number]) for number in range(2))
            assert throttle_ms(first, "delete_acls", 3, {"filters": [DELETED] * 1000}) > 900_000
            # It waited for this request when its principal was muted, so that it is answered.
            assert throttle_ms(second, "describe_acls", 3, EVERY) > 900_000
