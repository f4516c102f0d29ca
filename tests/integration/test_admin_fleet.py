"""Listeners of Kafka's protocol in a fleet: one server for all clusters, each cluster by itself."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import Config, load_config
from authorizer.configuration.log_setup import setup_logging
from authorizer.node.audit_writer import AuditWriter
from authorizer.node.fleet import Fleet
from authorizer.node.node import Node
from authorizer.sidecar.server import Sidecar
from records.log.directory import DirectoryLog
from support.admin_sockets import API_VERSIONS, framed, receive
from support.cluster_acls import ANY
from support.nodes import SOON_S
from support.serving_workers import Serving, serving_workers
from support.waiting import wait_until

CLUSTERS = ("eu", "us")


def settings_of(directory: Path, **more: str) -> dict[str, str]:
    """Two clusters, each with a listener of its name; `more`: keys of a cluster, dots as underscores."""
    settings = {
        "aclog.clusters": ",".join(CLUSTERS),
        "aclog.listeners": "PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EU:PLAINTEXT,US:PLAINTEXT",
        "super.users": "User:ANONYMOUS",
    }
    for name in CLUSTERS:
        log = directory / name
        if not log.exists():
            DirectoryLog.open(log, mode="create").close()
        settings[f"aclog.cluster.{name}.log.url"] = str(log)
        settings[f"aclog.cluster.{name}.admin.listeners"] = f"{name.upper()}://127.0.0.1:0"
    return settings | {f"aclog.cluster.{name.replace('_', '.')}": text for name, text in more.items()}


@contextmanager
def running(config: Config) -> Iterator[tuple[Fleet, AdminServer, str]]:
    """A fleet with both servers, as `aclog serve` has them."""
    with (
        AuditWriter.configured(config, setup_logging("json", "ERROR")) as audit,
        Sidecar(config) as sidecar,
        AdminServer(config) as server,
        Fleet(config, audit=audit) as fleet,
    ):
        sidecar.accompany(server)
        with server.start_fleet(fleet):
            sidecar.start_fleet(fleet)
            yield fleet, server, sidecar.urls[0]


def client_of(address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": address, "log_level": 0})


def create(client: AdminClient, topic: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    for future in client.create_acls([binding], request_timeout=SOON_S).values():
        future.result()


def topics(client: AdminClient) -> set[str]:
    return {each.name for each in client.describe_acls(ANY, request_timeout=SOON_S).result()}


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), SOON_S).close()
    except ConnectionRefusedError:
        return False
    return True


def test_each_listener_serves_its_cluster_and_metrics_name_it(tmp_path: Path) -> None:
    config = load_config(environ={}, flags=settings_of(tmp_path, us_super_users="User:root"))
    with running(config) as (_, server, url):
        eu, us = server.addresses
        wait_until(lambda: is_open(eu) and is_open(us))
        create(client_of(eu), "orders")
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            create(client_of(us), "payments")
        assert topics(client_of(eu)) == {"orders"}
        text = httpx.get(f"{url}/metrics", timeout=SOON_S).text
        for listener, cluster in (("EU", "eu"), ("US", "us")):
            assert f'aclog_admin_connections{{cluster="{cluster}",listener="{listener}"}}' in text
        assert re.search(
            r'aclog_admin_request_local_seconds_count\{cluster="eu",request="CreateAcls"\} 1\.0', text
        )
        # Limits are the process's.
        assert 'aclog_admin_refused_total{limit="connections"} 0.0' in text
        assert "aclog_admin_requests_throttled_total" in text


def test_a_cluster_whose_log_cannot_be_opened_has_no_connections_and_the_other_is_served(
    tmp_path: Path,
) -> None:
    """It accepts when the log can be opened at last."""
    settings = settings_of(tmp_path)
    missing, elsewhere = tmp_path / "us", tmp_path / "moved"
    shutil.move(missing, elsewhere)
    with running(load_config(environ={}, flags=settings)) as (_, server, _):
        eu, us = server.addresses
        wait_until(lambda: is_open(eu))
        create(client_of(eu), "orders")
        assert not is_open(us)
        shutil.move(elsewhere, missing)
        wait_until(lambda: is_open(us))
        create(client_of(us), "payments")


def test_a_node_that_is_closed_while_the_fleet_continues_takes_its_connections_along(
    tmp_path: Path,
) -> None:
    """Its listener accepts again for the next node."""
    config = load_config(environ={}, flags=settings_of(tmp_path))
    with (
        AuditWriter.configured(config, setup_logging("json", "ERROR")) as audit,
        AdminServer(config) as server,
        Fleet(config, audit=audit) as fleet,
        server.start_fleet(fleet),
    ):
        member, (eu, us) = fleet.members["eu"], server.addresses
        for number in range(2):
            node = Node.open(config.of_cluster("eu"), audit=audit)
            with ExitStack() as stack:
                stack.enter_context(closing(node))
                stack.enter_context(fleet.serve_started(member, node, node.start()))
                wait_until(lambda: is_open(eu))
                host, _, port = eu.rpartition(":")
                opened = socket.create_connection((host, int(port)), SOON_S)
                opened.sendall(framed(API_VERSIONS))
                assert receive(opened) is not None
                create(client_of(eu), f"orders-{number}")
                assert topics(client_of(eu)) == {f"orders-{each}" for each in range(number + 1)}
            with opened:
                assert receive(opened) is None
            assert not is_open(eu)
            assert not is_open(us)


def test_quotas_are_per_cluster_and_change_while_it_runs(tmp_path: Path) -> None:
    config = load_config(environ={}, flags=settings_of(tmp_path, eu_admin_quota_request_rate="1"))
    with running(config) as (fleet, server, url):
        eu, us = server.addresses
        wait_until(lambda: is_open(eu) and is_open(us))
        eu_client = client_of(eu)
        for number in range(20):
            create(client_of(us), f"us-{number}")
        for number in range(14):
            create(eu_client, f"eu-{number}")
        text = httpx.get(f"{url}/metrics", timeout=SOON_S).text
        throttled = dict(re.findall(r'aclog_admin_requests_throttled_total\{cluster="(\w+)"\} (\S+)', text))
        assert float(throttled["eu"]) >= 1
        assert float(throttled["us"]) == 0
        fleet.members["eu"].reconfiguration.put({"aclog.admin.quota.request.rate": "0"}, "test")
        for number in range(50):
            create(eu_client, f"eu-{number}")


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_has_the_listeners_of_all_clusters(tmp_path: Path, workers: int) -> None:
    """A worker that does not write forwards changes; its clients see them in the answer."""
    with serving_workers(tmp_path, None, settings_of(tmp_path), workers=workers) as serving:
        serving.wait_until_ready()
        eu, us = addresses(serving)
        wait_until(lambda: is_open(eu) and is_open(us))
        for number in range(6):  # connections reach both workers
            create(client_of(eu), f"orders-{number}")
            create(client_of(us), f"payments-{number}")
        wait_until(lambda: topics(client_of(eu)) == {f"orders-{number}" for number in range(6)})
        wait_until(lambda: topics(client_of(us)) == {f"payments-{number}" for number in range(6)})


def addresses(serving: Serving) -> list[str]:
    found: list[str] = wait_until(lambda: serving.events("admin_listening"))[0]["addresses"]
    return found


def test_lists_of_listener_names_may_have_those_of_clusters(tmp_path: Path) -> None:
    settings = settings_of(tmp_path) | {
        "early.start.listeners": "EU",
        "aclog.auth.required.listeners": "US",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EU:PLAINTEXT,US:SASL_PLAINTEXT",
    }
    config = load_config(environ={}, flags=settings)
    assert config.of_cluster("eu").early_start_listeners == {"EU"}
    assert [each.listener_name for each in config.process_admin_listeners] == ["EU", "US"]
