"""Requests of Kafka's protocol about the cluster and its configurations, with and without rights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from structlog.testing import capture_logs

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from records.acl import AclBinding, AclOperation, ResourceType
from records.ids import METADATA_TOPIC_ID, Uuid, uuid_to_string
from records.principal import ANONYMOUS
from support.admin_requests import ask, decoded, request_frame
from support.admin_sockets import admin_server, connected, framed, receive
from support.directory_logs import batch_bytes, write_segment
from support.node_acls import acl, on_cluster
from support.nodes import create, running_node
from support.waiting import wait_until

NOT_REQUESTED = -(2**31)
TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
EVERY_CONFIG: dict[str, Any] = {
    "resources": [
        {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
        for resource_type, name in ((TOPIC, "orders"), (BROKER, "0"), (CLIENT_METRICS, "m"), (GROUP, "g"))
    ],
    "include_synonyms": False,
    "include_documentation": False,
}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node on a new log, on which anonymous clients have the rights that ACLs give."""
    with running_node(tmp_path / "log", log_mode="create") as node:
        yield node


def answer(server: AdminServer, name: str, version: int, requested: dict[str, Any]) -> Any:
    return decoded(name, version, ask(server.addresses[0], request_frame(name, version, requested)))


def cluster(server: AdminServer, endpoint_type: int = 1, *, operations: bool = False) -> Any:
    requested = {
        "include_cluster_authorized_operations": operations,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": False,
    }
    return answer(server, "describe_cluster", 2, requested)


def bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def anonymous(operation: AclOperation, kind: ResourceType, name: str) -> AclBinding:
    return acl(str(ANONYMOUS), operation, name, kind=kind)


def test_operations_on_the_cluster_need_describe(node: Node) -> None:
    with admin_server(node) as server:
        assert cluster(server).cluster_authorized_operations == NOT_REQUESTED
        create(node, [on_cluster(AclOperation.CREATE)])
        assert cluster(server, operations=True).cluster_authorized_operations == 0
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        described = cluster(server, operations=True)

    assert described.cluster_authorized_operations == bits(AclOperation.CREATE, AclOperation.DESCRIBE)


def test_the_controller_needs_alter(node: Node) -> None:
    with admin_server(node) as server:
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        refused = cluster(server, 2)
        create(node, [on_cluster(AclOperation.ALTER)])
        described = cluster(server, 2)

    assert refused.error_code is ErrorCode.cluster_authorization_failed
    assert refused.brokers == ()
    assert described.error_code is ErrorCode.none
    assert [each.broker_id for each in described.brokers] == [described.controller_id]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_configurations_need_describe_configs(node: Node, version: int) -> None:
    with admin_server(node) as server:
        denied = answer(server, "describe_configs", version, EVERY_CONFIG)
        create(
            node,
            [
                anonymous(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "orders"),
                on_cluster(AclOperation.DESCRIBE_CONFIGS),
            ],
        )
        allowed = answer(server, "describe_configs", version, EVERY_CONFIG)

    assert [(each.resource_type, each.error_code) for each in denied.results] == [
        (TOPIC, ErrorCode.topic_authorization_failed),
        (BROKER, ErrorCode.cluster_authorization_failed),
        (CLIENT_METRICS, ErrorCode.cluster_authorization_failed),
        (GROUP, ErrorCode.group_authorization_failed),
    ]
    assert [(each.resource_type, each.error_code, each.configs) for each in allowed.results] == [
        (TOPIC, ErrorCode.unknown_topic_or_partition, ()),
        (BROKER, ErrorCode.none, ()),
        (CLIENT_METRICS, ErrorCode.none, ()),
        (GROUP, ErrorCode.group_authorization_failed, ()),
    ]


def test_another_broker_is_refused(node: Node) -> None:
    """With the broker's message."""
    other = {"resource_type": BROKER, "resource_name": "99", "configuration_keys": None}
    with admin_server(node) as server:
        create(node, [on_cluster(AclOperation.DESCRIBE_CONFIGS)])
        (found,) = answer(server, "describe_configs", 4, {**EVERY_CONFIG, "resources": [other]}).results

    assert found.error_code is ErrorCode.invalid_request
    assert found.error_message == "Unexpected broker id, expected 0 or empty string, but received 99"


def test_credentials_are_never_shown(node: Node) -> None:
    with admin_server(node) as server:
        denied = answer(server, "describe_user_scram_credentials", 0, {"users": None})
        create(node, [on_cluster(AclOperation.DESCRIBE)])
        refused = answer(server, "describe_user_scram_credentials", 0, {"users": None})

    assert denied.error_code is ErrorCode.cluster_authorization_failed
    assert refused.error_code is ErrorCode.unsupported_version
    assert "does not show credentials" in refused.error_message
    assert refused.results == denied.results == ()


def test_an_unserved_request_is_logged_with_its_client(node: Node) -> None:
    """The line names who must be configured otherwise: the client's software, its id, the request."""
    hello = {"client_software_name": "librdkafka", "client_software_version": "2.5"}
    with capture_logs() as logged, admin_server(node) as server:
        with connected(server) as opened:
            opened.sendall(framed(request_frame("api_versions", 3, hello)))
            assert receive(opened) is not None
            opened.sendall(framed(request_frame("list_groups", 4, {"states_filter": []})))
            assert receive(opened) is None
        wait_until(lambda: closed(logged) != [], "the log line")

    (line,) = closed(logged)
    assert line["reason"] == "ListGroups version 4 is not served"
    assert (line["software"], line["client_id"]) == ("librdkafka 2.5", "test")


def closed(logged: Sequence[Any]) -> list[Any]:
    return [each for each in logged if each["event"] == "admin_connection_closed"]


@pytest.mark.parametrize(
    ("name", "version", "requested", "field"),
    [
        ("describe_groups", 6, {"groups": ["g"], "include_authorized_operations": False}, "groups"),
        (
            "consumer_group_describe",
            1,
            {"group_ids": ["g"], "include_authorized_operations": False},
            "groups",
        ),
        ("find_coordinator", 6, {"key_type": 0, "coordinator_keys": ["g"]}, "coordinators"),
        ("describe_configs", 4, EVERY_CONFIG, "results"),
        ("describe_user_scram_credentials", 0, {"users": None}, None),
        (
            "list_transactions",
            1,
            {"state_filters": [], "producer_id_filters": [], "duration_filter": -1},
            None,
        ),
        (
            "describe_cluster",
            2,
            {
                "include_cluster_authorized_operations": True,
                "endpoint_type": 1,
                "include_fenced_brokers": False,
            },
            None,
        ),
    ],
)
def test_nothing_is_answered_while_the_node_is_not_ready(
    tmp_path: Path, name: str, version: int, requested: dict[str, Any], field: str | None
) -> None:
    """Not "no rights" and not "none": clients would take that for the truth."""
    path = write_segment(tmp_path, 0, batch_bytes(0))
    topic_id = uuid_to_string(Uuid(METADATA_TOPIC_ID))
    (tmp_path / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    with running_node(tmp_path, log_mode="read") as node, admin_server(node) as server:
        damaged = bytearray(batch_bytes(1))
        damaged[70] ^= 1
        with path.open("ab") as segment:
            segment.write(damaged + batch_bytes(2))
        wait_until(lambda: not node.authorizer.state.is_ready, "the damaged batch")
        found = answer(server, name, version, requested)

    codes = {each.error_code for each in ([found] if field is None else getattr(found, field))}
    assert codes == {ErrorCode.unknown_server_error}
