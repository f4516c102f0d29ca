"""ACLs over Kafka's protocol: an AdminClient lists, creates and removes them on a node as on a broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from records.flexible import MessageReader
from records.log.protocol.entity_reader import entity_reader
from records.log.protocol.requests import describe_acls, request_bytes
from support.cluster_acls import ANY
from support.nodes import SOON_S, config_of, running_node

_ANY: Any = None
ORDERS = AclBinding(
    ResourceType.TOPIC,
    "orders",
    ResourcePatternType.PREFIXED,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


@contextmanager
def admin_client(node: Node) -> Iterator[AdminClient]:
    with AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server:
        server.start(node)
        yield AdminClient({"bootstrap.servers": server.addresses[0], "log_level": 0})


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node on a new log, on which anonymous clients are super users."""
    with running_node(tmp_path / "log", log_mode="create") as node:
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        yield node


def outcome(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(SOON_S) for future in futures.values()]


def test_a_client_creates_lists_and_removes_acls(node: Node) -> None:
    with admin_client(node) as client:
        assert outcome(client.create_acls([ORDERS])) == [None]
        assert client.describe_acls(ANY).result(SOON_S) == [ORDERS]
        assert node.authorizer.acl_count() == 1

        assert outcome(client.delete_acls([ANY])) == [[ORDERS]]
        assert client.describe_acls(ANY).result(SOON_S) == []


def test_metadata_names_the_node_as_the_controller(node: Node) -> None:
    with admin_client(node) as client:
        metadata = client.list_topics(timeout=SOON_S)

    identity = node.log.identity
    assert identity is not None
    assert metadata.cluster_id == identity.cluster_id
    assert metadata.controller_id == 0
    assert list(metadata.brokers) == [0]


def test_a_client_sees_its_operations_on_cluster_and_groups(node: Node) -> None:
    """KIP-430: the operations that ACLs allow, and no others."""
    node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    with admin_client(node) as client:
        of_everything = client.describe_cluster(include_authorized_operations=True).result(SOON_S)
        (group,) = client.describe_consumer_groups(["team"], include_authorized_operations=True).values()
        of_group = group.result(SOON_S)

    assert AclOperation.ALTER in of_everything.authorized_operations
    assert of_everything.controller.id == 0
    assert of_group.state.name == "DEAD"
    assert set(of_group.authorized_operations) >= {AclOperation.READ, AclOperation.DESCRIBE}


def test_without_rights_a_group_is_not_described(node: Node) -> None:
    node.authorizer.reconfigure({"super.users": "User:admin"})
    with admin_client(node) as client:
        (group,) = client.describe_consumer_groups(["team"]).values()
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            group.result(SOON_S)


def test_without_rights_nothing_is_changed(node: Node) -> None:
    node.authorizer.reconfigure({"super.users": "User:admin"})
    with admin_client(node) as client:
        (created,) = client.create_acls([ORDERS]).values()
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            created.result(SOON_S)

    assert node.authorizer.acl_count() == 0


def test_without_rights_nothing_is_listed(node: Node) -> None:
    node.authorizer.reconfigure({"super.users": "User:admin"})
    with AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server:
        server.start(node)
        host, _, port = server.addresses[0].rpartition(":")
        with (
            socket.create_connection((host, int(port)), SOON_S) as opened,
            opened.makefile("rb") as file,
        ):
            request = request_bytes(describe_acls(), 7)
            opened.sendall(len(request).to_bytes(4, "big") + request)
            reader = MessageReader(file.read(int.from_bytes(file.read(4), "big")))

    header = entity_reader(DescribeAclsResponse.__header_schema__)(reader)
    response = entity_reader(DescribeAclsResponse)(reader)
    assert header.correlation_id == 7
    assert response.error_code is ErrorCode.cluster_authorization_failed
    assert response.resources == ()


def test_a_change_is_logged_with_its_client_and_waits_in_the_remote_time(node: Node) -> None:
    with capture_logs() as logged, admin_client(node) as client:
        assert outcome(client.create_acls([ORDERS])) == [None]
        assert outcome(client.delete_acls([ANY])) == [[ORDERS]]
        labels = {"request": "CreateAcls"}
        waited_s = node.metrics.get_sample_value("aclog_admin_request_remote_seconds_sum", labels)
        assert waited_s is not None
        assert waited_s > 0
    created, deleted = [line for line in logged if line["event"] == "acls_changed"]
    assert (created["request"], created["created"], created["refused"]) == ("CreateAcls", 1, 0)
    assert (deleted["request"], deleted["deleted"], deleted["refused"]) == ("DeleteAcls", 1, 0)
    assert (created["caller"], created["caller_host"]) == ("User:ANONYMOUS", "127.0.0.1")
    assert created["client_id"] == "rdkafka"
    assert deleted["correlation_id"] > created["correlation_id"]
    assert deleted["offset"] > created["offset"]
