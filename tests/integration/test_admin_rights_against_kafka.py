"""Answers to a client without rights, or with some, beside those of a real broker.

The broker's client is bob at its SASL listener, the node's is ANONYMOUS: neither is a super user there, and
ACLs of `User:*` hold for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from support.admin_requests import (
    EVERY,
    ask,
    decoded,
    replace_acls,
    request_frame,
    wait_for_group_coordinator,
    without_request,
)
from support.kafka_broker import jar_broker
from support.nodes import SOON_S, config_of, running_node

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

_ACL: Final = {
    "resource_type": 2,
    "resource_name": "orders",
    "resource_pattern_type": 3,
    "principal": "User:*",
    "host": "*",
    "operation": 8,
    "permission_type": 3,
}
_CLUSTER: Final = {**_ACL, "resource_type": 4, "resource_name": "kafka-cluster"}
_GROUP: Final = {**_ACL, "resource_type": 3, "resource_name": "g"}
#: ACLs of every user. Operations: READ 3, ALTER 7, DESCRIBE 8, DESCRIBE_CONFIGS 10,
#: ALTER_CONFIGS 11; permission DENY 2.
_GRANTS: Final = {
    "nothing": (),
    "read the topic": ({**_ACL, "operation": 3},),
    "describe topics, but not one": (
        {**_ACL, "resource_name": "*"},
        {**_ACL, "permission_type": 2},
    ),
    "describe the cluster": (_CLUSTER,),
    "alter the cluster, which implies describe": ({**_CLUSTER, "operation": 7},),
    "all on the cluster, but not alter": (
        {**_CLUSTER, "operation": 2},
        {**_CLUSTER, "operation": 7, "permission_type": 2},
    ),
    "describe the configurations of topics, but not of one": (
        {**_ACL, "resource_name": "*", "operation": 10},
        {**_ACL, "operation": 10, "permission_type": 2},
    ),
    "describe the configurations of the cluster": ({**_CLUSTER, "operation": 10},),
    "alter the configurations of a group, which implies describe": ({**_GROUP, "operation": 11},),
    "describe the group": (_GROUP,),
    "all on the group, but not delete": (
        {**_GROUP, "operation": 2},
        {**_GROUP, "operation": 6, "permission_type": 2},
    ),
}
_AUTHORIZED: Final = {
    "include_cluster_authorized_operations": True,
    "include_topic_authorized_operations": True,
    "include_authorized_operations": True,
}
#: ConfigResource.Type: topic 2, broker 4, broker logger 8, client metrics 16, group 32.
_CONFIGS: Final = {
    "resources": [
        {"resource_type": resource_type, "resource_name": name, "configuration_keys": None}
        for resource_type, names in {
            2: ("orders", "payments", "unknown", "no/topic", ""),
            4: ("", "99", "x"),
            8: ("", "99", "x"),
            16: ("metrics", ""),
            32: ("g", "h", ""),
        }.items()
        for name in names
    ],
    "include_synonyms": False,
    "include_documentation": False,
}
_REQUESTS: Final[tuple[tuple[str, int, Mapping[str, Any]], ...]] = (
    # An ACL that nobody else has, so that one that is created changes no right.
    *(
        (
            "create_acls",
            version,
            {"creations": [{**_ACL, "principal": "User:x"}, {**_ACL, "resource_name": ""}]},
        )
        for version in (1, 2, 3)
    ),
    *(
        (
            "delete_acls",
            version,
            {"filters": [{**EVERY, "principal_filter": f"User:{name}"} for name in "yz"]},
        )
        for version in (1, 2, 3)
    ),
    *(("describe_acls", version, {**EVERY, "principal_filter": "User:y"}) for version in (1, 2, 3)),
    *(
        (
            "metadata",
            version,
            {
                **_AUTHORIZED,
                "topics": [{"name": name, "topic_id": None} for name in ("orders", "payments", "unknown")],
                "allow_auto_topic_creation": False,
            },
        )
        for version in (4, 8, 9, 12, 13)
    ),
    ("metadata", 12, {**_AUTHORIZED, "topics": None, "allow_auto_topic_creation": False}),
    *(
        ("describe_cluster", version, {**_AUTHORIZED, "endpoint_type": 1, "include_fenced_brokers": False})
        for version in (0, 1, 2)
    ),
    *(("describe_groups", version, {**_AUTHORIZED, "groups": ["g", "h"]}) for version in (0, 3, 5, 6)),
    *(("consumer_group_describe", version, {**_AUTHORIZED, "group_ids": ["g", "h"]}) for version in (0, 1)),
    *(("describe_configs", version, _CONFIGS) for version in (1, 2, 3, 4)),
    *(
        ("find_coordinator", version, {"key": "g", "coordinator_keys": ["g"], "key_type": 0})
        for version in (0, 1, 4, 6)
    ),
)


class Pair(NamedTuple):
    """A broker's listener of super users, its listener of bob, and a node beside it."""

    broker: str
    bob: str
    address: str
    node: Node


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with jar_broker(version="4.4.0", users=("bob",)) as broker:
        assert broker.sasl_servers is not None
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for created in client.create_topics([NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)]).values():
            created.result(SOON_S)
        wait_for_group_coordinator(broker.bootstrap_servers)
        config = config_of(
            admin_listeners="PLAINTEXT://127.0.0.1:0",
            admin_advertised_listeners=f"PLAINTEXT://{broker.sasl_servers}",
        )
        with (
            running_node(f"kraft://{broker.controllers}", kafka_version="4.4") as node,
            AdminServer(config) as server,
        ):
            server.start(node)
            yield Pair(broker.bootstrap_servers, broker.sasl_servers, server.addresses[0], node)


@pytest.mark.parametrize("granted", _GRANTS)
def test_a_client_with_these_rights_gets_the_same_answers(pair: Pair, granted: str) -> None:
    replace_acls(pair.broker, pair.node, _GRANTS[granted])
    different = {}
    for name, version, requested in _REQUESTS:
        frame = request_frame(name, version, requested)
        answers = ask(pair.bob, frame, user="bob"), ask(pair.address, frame)
        broker, node = (_comparable(decoded(name, version, answer)) for answer in answers)
        if broker != node:
            different[name, version] = broker, node
    assert not different


def test_without_rights_credentials_are_refused_the_same(pair: Pair) -> None:
    """With them they are not the same: aclog does not show credentials."""
    replace_acls(pair.broker, pair.node, [])
    name = "describe_user_scram_credentials"
    # For all users (null) the broker does not answer at all.
    frame = request_frame(name, 0, {"users": [{"name": "a"}, {"name": "b"}]})
    broker, node = (
        decoded(name, 0, ask(pair.bob, frame, user="bob")),
        decoded(name, 0, ask(pair.address, frame)),
    )
    assert node == broker


def _comparable(answer: Any) -> Any:
    """Without what a node has not: partitions, configurations, the broker's number, texts of Java objects."""
    changes: dict[str, Any] = {}
    for field in ("results", "filter_results"):
        if hasattr(answer, field):
            changes[field] = tuple(map(_without_texts, getattr(answer, field)))
    if hasattr(answer, "error_message"):
        answer = _without_texts(answer)
    for field in ("controller_id", "node_id"):
        if hasattr(answer, field):
            changes[field] = 0
    for field, number in (("brokers", "node_id"), ("brokers", "broker_id"), ("coordinators", "node_id")):
        if hasattr(answer, field) and all(hasattr(each, number) for each in getattr(answer, field)):
            changes[field] = tuple(replace(each, **{number: 0}) for each in getattr(answer, field))
    if hasattr(answer, "topics"):
        topics = (replace(each, partitions=()) for each in answer.topics)
        changes["topics"] = sorted(topics, key=lambda topic: topic.name or "")
    return replace(answer, **changes)


def _without_texts(answer: Any) -> Any:
    if hasattr(answer, "configs"):
        message = answer.error_message and answer.error_message.replace("expected 0", "expected 1")
        return replace(answer, configs=(), error_message=message)
    return replace(answer, error_message=answer.error_message and without_request(answer.error_message))
