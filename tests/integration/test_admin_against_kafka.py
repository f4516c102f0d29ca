"""Answers over Kafka's protocol beside those of a real broker, on the state of its cluster.

The node follows the broker's controllers, so that both have the same ACLs and topics. Java lists ACLs in the
order of hash tables: listings are compared without their order, everything else byte by byte.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.admin_server import limits
from authorizer.admin_server.server import AdminServer
from authorizer.configuration.keys.names import ADMIN_REQUEST_RATE
from authorizer.node.node import Node
from support.admin_requests import EVERY, ask, decoded, request_frame, wait_for_group_coordinator
from support.admin_sockets import framed, receive
from support.kafka_broker import jar_broker
from support.nodes import SOON_S, config_of, running_node
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
#: Changes of one field that make an ACL special or invalid.
ACLS: Final = (
    {},
    {"resource_name": ""},
    {"resource_type": 4, "resource_name": "x"},
    {"principal": "alice"},
    {"principal": ":"},
    {"host": ""},
    {"host": "1.2.3.4/99"},
    {"host": "10.0.0.0/8"},
    {"resource_type": 7, "resource_name": "User:a", "operation": 13},
    *({field: 1} for field in ("resource_type", "resource_pattern_type", "operation", "permission_type")),
    *({field: 0} for field in ("resource_type", "resource_pattern_type", "operation", "permission_type")),
    *({field: 99} for field in ("resource_type", "resource_pattern_type", "operation", "permission_type")),
    {"resource_pattern_type": 2},
    {"permission_type": -3},
)
FILTERS: Final = (
    {},
    {"resource_type_filter": 2},
    {"resource_type_filter": 2, "resource_name_filter": "orders-1", "pattern_type_filter": 2},
    {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3},
    {"resource_name_filter": ""},
    {"principal_filter": "x"},
    {"principal_filter": "User:alice", "host_filter": "*"},
    *(
        {field: 0}
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    ),
    *(
        {field: 99}
        for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type")
    ),
)


class Pair(NamedTuple):
    """A broker, and a node beside it."""

    broker: str
    node: str
    followed: Node

    def answers(
        self, name: str, version: int, values: Mapping[str, Any], *, claimed_version: int | None = None
    ) -> tuple[bytes | None, bytes | None]:
        """The broker's and the node's answer."""
        frame = request_frame(name, version, values, claimed_version=claimed_version)
        return ask(self.broker, frame), ask(self.node, frame)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with jar_broker(version="4.4.0") as broker:
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in client.create_topics([NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)]).values():
            created.result(SOON_S)
        host, _, port = broker.bootstrap_servers.rpartition(":")
        # The node is advertised as the broker, so that Metadata can be equal.
        config = config_of(
            admin_listeners="PLAINTEXT://127.0.0.1:0", admin_advertised_listeners=f"PLAINTEXT://{host}:{port}"
        )
        with running_node(f"kraft://{broker.controllers}", kafka_version="4.4") as node:
            node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
            with AdminServer(config) as server:
                server.start(node)
                yield Pair(broker.bootstrap_servers, server.addresses[0], node)


def connection(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), SOON_S)


def listed(address: str) -> Any:
    return in_order(decoded("describe_acls", 3, ask(address, request_frame("describe_acls", 3, EVERY))))


def in_order(value: Any) -> Any:
    """An entity as nested tuples, with its lists sorted."""
    if isinstance(value, tuple):
        return sorted(map(repr, map(in_order, value)))
    if is_dataclass(value):
        return [(field.name, in_order(getattr(value, field.name))) for field in fields(value)]
    return value


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("change", ACLS, ids=repr)
def test_creations_have_the_same_results(pair: Pair, change: Mapping[str, Any], version: int) -> None:
    requested = {"creations": [{**ACL, **change}, {**ACL, "resource_name": "second"}]}
    broker, node = pair.answers("create_acls", version, requested)
    assert node == broker


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("change", FILTERS, ids=repr)
def test_listings_are_the_same(pair: Pair, change: Mapping[str, Any], version: int) -> None:
    ask(pair.node, request_frame("create_acls", 3, {"creations": [ACL, {**ACL, "principal": "User:bob"}]}))
    wait_until(lambda: listed(pair.broker) == listed(pair.node), "the same ACLs")
    broker, node = pair.answers("describe_acls", version, {**EVERY, **change})
    assert in_order(decoded("describe_acls", version, node)) == in_order(
        decoded("describe_acls", version, broker)
    )


@pytest.mark.parametrize("change", FILTERS, ids=repr)
def test_removals_have_the_same_results(pair: Pair, change: Mapping[str, Any]) -> None:
    ask(pair.broker, request_frame("delete_acls", 3, {"filters": [EVERY]}))  # those of the other tests
    wait_until(lambda: listed(pair.broker) == listed(pair.node), "the same ACLs")
    results = []
    acls = [ACL, {**ACL, "principal": "User:bob"}, {**ACL, "resource_name": "payments"}]
    for address in (pair.broker, pair.node):
        ask(address, request_frame("create_acls", 3, {"creations": acls}))
        wait_until(lambda: listed(pair.broker) == listed(pair.node), "the same ACLs")
        answer = ask(address, request_frame("delete_acls", 3, {"filters": [{**EVERY, **change}]}))
        results.append(in_order(decoded("delete_acls", 3, answer)))
        ask(address, request_frame("delete_acls", 3, {"filters": [EVERY]}))
        wait_until(lambda: listed(pair.broker) == listed(pair.node), "the same ACLs")
    assert results[0] == results[1]


@pytest.mark.parametrize("name", ["create_acls", "delete_acls"])
def test_an_empty_request_has_an_empty_answer(pair: Pair, name: str) -> None:
    broker, node = pair.answers(name, 3, {"creations": [], "filters": []})
    assert broker == node


@pytest.mark.parametrize(
    ("topic", "version"),
    [
        (topic, version)
        for topic in ("orders", "unknown", "not a name", "")
        for version in range(14)
        if version >= 4 or topic != "unknown"  # earlier versions let the broker create it
    ],
)
def test_metadata_of_a_topic_is_the_same(pair: Pair, topic: str, version: int) -> None:
    requested: dict[str, Any] = {
        "topics": [{"name": topic, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    found = [decoded("metadata", version, each) for each in pair.answers("metadata", version, requested)]
    assert _comparable(found[1]) == _comparable(found[0])


@pytest.mark.parametrize(
    ("topics", "cursor"),
    [
        (["payments", "orders", "unknown", "not a name", "__consumer_offsets"], None),
        ([], None),
        (["payments", "orders"], ("orders", 0)),
        (["payments", "orders"], ("payments", 5)),
        (["payments"], ("orders", 0)),
        ([], ("p", 0)),
        (["orders"], ("orders", -1)),
    ],
)
def test_topics_are_described_the_same(pair: Pair, topics: list[str], cursor: tuple[str, int] | None) -> None:
    """Without their partitions, which a node does not have."""
    requested = {
        "topics": [{"name": each} for each in topics],
        "cursor": None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]},
    }
    found = [
        decoded("describe_topic_partitions", 0, each)
        for each in pair.answers("describe_topic_partitions", 0, requested)
    ]
    broker, node = ([replace(each, partitions=()) for each in answer.topics] for answer in found)
    assert node == broker


def _comparable(metadata: Any) -> Any:
    """Without what a node has not: partitions, and the broker's number."""
    brokers = tuple(replace(each, node_id=0) for each in metadata.brokers)
    topics = tuple(replace(each, partitions=()) for each in metadata.topics)
    changes: dict[str, Any] = {"brokers": brokers, "topics": topics}
    if hasattr(metadata, "controller_id"):
        changes["controller_id"] = 0
    return replace(metadata, **changes)


HELLO: Final = {"client_software_name": "test", "client_software_version": "1"}


@pytest.mark.parametrize("node_difference", [0, 1, None])
@pytest.mark.parametrize("cluster", ["right", "wrong", "", None])
def test_another_cluster_or_node_is_refused(
    pair: Pair, cluster: str | None, node_difference: int | None
) -> None:
    """KIP-1242: a client that connects to a recycled address learns that it must bootstrap again."""
    described = request_frame(
        "describe_cluster", 1, {"include_cluster_authorized_operations": False, "endpoint_type": 1}
    )
    codes = []
    for address in (pair.broker, pair.node):
        here = decoded("describe_cluster", 1, ask(address, described))
        requested = {
            **HELLO,
            "cluster_id": here.cluster_id if cluster == "right" else cluster,
            "node_id": -1 if node_difference is None else here.brokers[0].broker_id + node_difference,
        }
        found = decoded("api_versions", 5, ask(address, request_frame("api_versions", 5, requested)))
        codes.append((found.error_code, bool(found.api_keys)))
    assert codes[1] == codes[0]


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    "change",
    [{"client_software_name": "a b"}, {"client_software_version": ""}, {"client_software_name": "-a"}],
    ids=repr,
)
def test_an_invalid_software_name_is_refused(pair: Pair, version: int, change: Mapping[str, str]) -> None:
    broker, node = pair.answers(
        "api_versions", version, {**HELLO, "cluster_id": None, "node_id": -1, **change}
    )
    assert broker is not None
    assert node == broker


@pytest.mark.parametrize("claimed_version", [-1, 6, 99])
def test_an_unknown_version_gets_the_range_of_versions(pair: Pair, claimed_version: int) -> None:
    broker, node = pair.answers("api_versions", 3, HELLO, claimed_version=claimed_version)
    assert node == broker
    (known,) = decoded("api_versions", 0, node).api_keys
    assert (known.api_key, known.min_version, known.max_version) == (18, 0, 5)


@pytest.mark.parametrize("version", range(6))
def test_each_version_of_api_versions_is_answered(pair: Pair, version: int) -> None:
    """The error code and the form are the broker's; requests and features are each server's."""
    requested = {**HELLO, "cluster_id": None, "node_id": -1}
    for answer in pair.answers("api_versions", version, requested):
        answered = decoded("api_versions", version, answer)
        assert answered.error_code == 0
        assert 18 in [each.api_key for each in answered.api_keys]


def test_every_served_version_is_one_of_the_brokers(pair: Pair) -> None:
    broker, node = (
        {each.api_key: each for each in decoded("api_versions", 3, answer).api_keys}
        for answer in pair.answers("api_versions", 3, HELLO)
    )
    for key, served in node.items():
        assert broker[key].min_version <= served.min_version
        assert served.max_version <= broker[key].max_version


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"\x00\x1d\x00\x63\x00\x00\x00\x01\x00\x01a\x00", id="unknown version"),
        pytest.param(b"\x7f\x00\x00\x00\x00\x00\x00\x01\x00\x01a", id="unknown request"),
        pytest.param(b"\x00", id="no header"),
        pytest.param(b"\x00\x1d\x00\x03\x00\x00\x00\x01\x00\x01a\x00\x01", id="cut"),
    ],
)
def test_what_is_no_request_closes_the_connection(pair: Pair, frame: bytes) -> None:
    assert ask(pair.broker, frame) is None
    assert ask(pair.node, frame) is None


@pytest.mark.parametrize("count", [200, pytest.param(4_000, marks=pytest.mark.long)])
def test_random_requests_have_the_same_results(pair: Pair, tmp_path: Path, count: int) -> None:
    """The node writes another log here: the same requests lead to the same state."""
    seeded = random.Random(count)
    names = ("orders", "order", "o", "*", "")
    acls = [
        {**ACL, "resource_name": name, "resource_pattern_type": pattern, "principal": principal, "host": host}
        for name in names
        for pattern in (3, 4)
        for principal in ("User:alice", "User:*", "no colon")
        for host in ("*", "10.0.0.1")
    ]
    ask(pair.broker, request_frame("delete_acls", 3, {"filters": [EVERY]}))
    with (
        running_node(tmp_path / "log", log_mode="create", kafka_version="4.4") as node,
        AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server,
        ExitStack() as stack,
    ):
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        server.start(node)
        address = server.addresses[0]
        connections = [stack.enter_context(connection(each)) for each in (pair.broker, address)]
        for number in range(count):
            if seeded.random() < 0.6:
                name, requested = "create_acls", {"creations": seeded.choices(acls, k=seeded.randint(1, 4))}
            else:
                pattern = {
                    "resource_name_filter": seeded.choice((*names, None)),
                    "pattern_type_filter": seeded.choice((1, 2, 3, 4)),
                    "principal_filter": seeded.choice((None, "User:alice", "User:*")),
                    "host_filter": seeded.choice((None, None, "10.0.0.1")),
                }
                name, requested = (
                    "delete_acls",
                    {"filters": [{**EVERY, "resource_type_filter": 2, **pattern}]},
                )
            version = seeded.choice((1, 2, 3))
            # Both work on it at the same time, for most of a request is a wait for the disk.
            for opened in connections:
                opened.sendall(framed(request_frame(name, version, requested)))
            answers = [receive(opened) for opened in connections]
            assert None not in answers, (number, requested)
            if answers[0] != answers[1]:
                found = [in_order(decoded(name, version, answer)) for answer in answers]
                assert found[0] == found[1], (number, requested)
            if number % 50 == 49:
                wait_until(lambda: listed(pair.broker) == listed(address), "the same ACLs")


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("endpoint_type", [1, 3])
def test_the_cluster_is_described_the_same(pair: Pair, endpoint_type: int, version: int) -> None:
    requested = {
        "include_cluster_authorized_operations": True,
        "endpoint_type": endpoint_type,
        "include_fenced_brokers": False,
    }
    broker, node = (
        decoded("describe_cluster", version, answer)
        for answer in pair.answers("describe_cluster", version, requested)
    )
    assert [replace(each, broker_id=0) for each in node.brokers] == [
        replace(each, broker_id=0) for each in broker.brokers
    ]
    assert replace(node, brokers=(), controller_id=0) == replace(broker, brokers=(), controller_id=0)


def test_a_controller_is_described_where_a_broker_is(pair: Pair) -> None:
    """So that `--bootstrap-controller` works, too; a broker has another listener for that."""
    requested = {
        "include_cluster_authorized_operations": False,
        "endpoint_type": 2,
        "include_fenced_brokers": False,
    }
    node = decoded("describe_cluster", 2, ask(pair.node, request_frame("describe_cluster", 2, requested)))
    assert node.error_code == 0
    assert node.endpoint_type == 2
    assert [each.broker_id for each in node.brokers] == [node.controller_id]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("resource_type", "name"),
    [
        *((2, name) for name in ("unknown", "no/topic", "", "..", "x" * 250)),
        *((4, name) for name in ("99", "x", "1.0", " ", "99999999999")),
        *((8, name) for name in ("", "99", "x")),
        *((each, "") for each in (16, 32)),
        *((each, "x") for each in (1, 99)),
    ],
)
def test_resources_without_configurations_are_the_same(
    pair: Pair, resource_type: int, name: str, version: int
) -> None:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
    requested = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    broker, node = (
        decoded("describe_configs", version, answer)
        for answer in pair.answers("describe_configs", version, requested)
    )
    (result,) = node.results
    # The broker's id is 1, the node's 0.
    message = (result.error_message or "").replace("expected 0", "expected 1")
    if result.error_message is not None:
        node = replace(node, results=(replace(result, error_message=message),))
    assert node == broker


@pytest.mark.parametrize("version", [0, 1])
def test_transactions_are_listed_the_same(pair: Pair, version: int) -> None:
    requested = {
        "state_filters": ["Ongoing", "Empty", "PrepareEpochFence", "ongoing"],
        "producer_id_filters": [],
        "duration_filter": -1,
    }
    broker, node = (
        decoded("list_transactions", version, answer)
        for answer in pair.answers("list_transactions", version, requested)
    )
    assert node == broker


@pytest.fixture(scope="module")
def coordinated(pair: Pair) -> Pair:
    """With a broker that coordinates groups: it creates a topic when it is first asked who does."""
    wait_for_group_coordinator(pair.broker)
    return pair


def groups_frame(name: str, version: int) -> bytes:
    requested = {"groups": ["g"], "group_ids": ["g"], "include_authorized_operations": True}
    return request_frame(name, version, requested)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        *(("describe_groups", version) for version in range(7)),
        ("consumer_group_describe", 0),
        ("consumer_group_describe", 1),
    ],
)
def test_an_unknown_group_is_described_the_same(coordinated: Pair, name: str, version: int) -> None:
    frame = groups_frame(name, version)
    broker, node = ask(coordinated.broker, frame), ask(coordinated.node, frame)
    assert decoded(name, version, node) == decoded(name, version, broker)


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize("key_type", [0, 9])
def test_the_coordinator_of_a_group_is_found_the_same(coordinated: Pair, key_type: int, version: int) -> None:
    requested = {"key": "g", "coordinator_keys": ["g"], "key_type": key_type}
    broker, node = (
        decoded("find_coordinator", version, answer)
        for answer in coordinated.answers("find_coordinator", version, requested)
    )
    assert _without_number(node) == _without_number(broker)


def _without_number(found: Any) -> Any:
    if hasattr(found, "coordinators"):
        return [replace(each, node_id=0) for each in found.coordinators]
    return replace(found, node_id=0)


@pytest.fixture
def limited(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """Both have a quota that every request exceeds; a broker's is on the time of its threads."""
    monkeypatch.setattr(limits, "BURST_S", 0.0)
    set_broker_quota(pair.broker, {"key": "request_percentage", "value": 0.01, "remove": False})
    pair.followed.reconfiguration.put({ADMIN_REQUEST_RATE: "1"}, "test")
    pair.followed.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    try:
        yield pair
    finally:
        pair.followed.reconfiguration.put({ADMIN_REQUEST_RATE: None}, "test")
        pair.followed.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        set_broker_quota(pair.broker, {"key": "request_percentage", "value": 0.0, "remove": True})


def set_broker_quota(address: str, change: Mapping[str, Any]) -> None:
    """Of every user."""
    entry = {"entity": [{"entity_type": "user", "entity_name": None}], "ops": [change]}
    frame = request_frame("alter_client_quotas", 1, {"entries": [entry], "validate_only": False})
    (altered,) = decoded("alter_client_quotas", 1, ask(address, frame)).entries
    assert altered.error_code.name == "none"


def test_a_throttled_request_is_answered_immediately_and_its_connection_is_muted(limited: Pair) -> None:
    """KIP-219: the answer says for how long, and the next request waits."""
    for address in (limited.broker, limited.node):
        with connection(address) as opened:

            def throttle_s(opened: socket.socket = opened) -> float:
                opened.sendall(framed(request_frame("describe_acls", 3, EVERY)))
                answer = decoded("describe_acls", 3, receive(opened))
                return float(answer.throttle_time.total_seconds())

            # A broker's quota takes effect some time after the answer to its change.
            announced_s = wait_until(throttle_s, "a throttle time")
            begun_s = time.monotonic()
            throttle_s()
            assert time.monotonic() - begun_s >= announced_s * 0.8, address
