"""Kafka's own Admin in Java (AskAdmin.java) against a node, beside the same requests to a real broker.

The node follows the broker's controllers, so that both have the same ACLs and topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from support.admin_requests import ask, decoded, request_frame
from support.kafka_broker import jar_broker
from support.kafka_tools import run_program
from support.nodes import SOON_S, config_of, running_node
from support.sasl_clients import PASSWORD
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

PROGRAM: Final = Path(__file__).parents[1] / "support" / "AskAdmin.java"
CLIENTS: Final = (
    "4.4.0",
    *(pytest.param(version, marks=pytest.mark.long) for version in ("3.9.2", "4.0.2", "4.3.1")),
)
EVERY: Final = ["ANY", None, "ANY", None, None, "ANY", "ANY"]
ACL: Final = ["TOPIC", "orders", "LITERAL", "User:alice", "*", "READ", "ALLOW"]


def changed(acl: list[Any], **changes: Any) -> list[Any]:
    """With other values of some of its seven fields."""
    fields = ("type", "name", "pattern", "principal", "host", "operation", "permission")
    return [changes.get(field, value) for field, value in zip(fields, acl, strict=True)]


ACLS: Final = (
    ACL,
    changed(ACL, name="ord", pattern="PREFIXED", permission="DENY"),
    changed(ACL, name="*", principal="User:*", operation="DESCRIBE"),
    changed(ACL, host="10.0.0.0/8"),
    changed(ACL, type="GROUP", name="team", operation="DELETE"),
    changed(ACL, type="CLUSTER", name="kafka-cluster", operation="ALTER"),
    changed(ACL, type="TRANSACTIONAL_ID", name="tx", operation="WRITE"),
    changed(ACL, type="DELEGATION_TOKEN", name="token", operation="DESCRIBE"),
    changed(ACL, type="USER", name="User:bob", operation="CREATE_TOKENS"),
    # Refused, by the client or by the server.
    changed(ACL, type="CLUSTER", name="another"),
    changed(ACL, principal="nobody"),
    changed(ACL, name=""),
    changed(ACL, host="10.0.0.0/99"),
)
FILTERS: Final = (
    EVERY,
    *(changed(EVERY, type=each) for each in ("TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "USER")),
    *(
        changed(EVERY, type="TOPIC", name=name, pattern=pattern)
        for name, pattern in product(
            (None, "orders", "ord", "*", "", "unknown"), ("ANY", "MATCH", "LITERAL", "PREFIXED")
        )
    ),
    *(changed(EVERY, principal=each) for each in ("User:alice", "User:*", "nobody", "")),
    *(changed(EVERY, host=each) for each in ("*", "10.0.0.0/8", "10.1.1.1", "")),
    *(changed(EVERY, operation=each) for each in ("READ", "ALL", "DESCRIBE", "UNKNOWN")),
    *(changed(EVERY, permission=each) for each in ("ALLOW", "DENY", "UNKNOWN")),
    *(changed(EVERY, **{field: "UNKNOWN"}) for field in ("type", "pattern")),
)
DESCRIPTIONS: Final = (
    {"request": "describeCluster"},
    {"request": "describeTopics", "names": ["orders"]},
    {"request": "describeTopics", "names": ["orders", "payments", "unknown", "not a name", ""]},
    {"request": "describeConsumerGroups", "names": ["team", "g"]},
)
CHANGES: Final = (
    {"request": "deleteAcls", "filters": [EVERY]},
    {"request": "createAcls", "acls": ACLS},
    {"request": "createAcls", "acls": [ACL, ACL]},
    {"request": "createAcls", "acls": []},
    *({"request": "describeAcls", "filter": each} for each in FILTERS),
    *DESCRIPTIONS,
    {"request": "deleteAcls", "filters": []},
    {"request": "deleteAcls", "filters": [changed(EVERY, operation="UNKNOWN"), changed(EVERY, type="USER")]},
    {"request": "deleteAcls", "filters": [changed(EVERY, name="orders", pattern="MATCH"), ACL]},
    {"request": "describeAcls", "filter": EVERY},
    {"request": "deleteAcls", "filters": [EVERY, ACL]},
    {"request": "describeAcls", "filter": EVERY},
)
#: ACLs of every user, for a client that is no super user.
GRANTS: Final = (
    changed(ACL, principal="User:*", operation="READ"),
    changed(ACL, principal="User:*", type="GROUP", name="team", operation="ALL"),
    changed(ACL, principal="User:*", type="GROUP", name="team", operation="DELETE", permission="DENY"),
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

        def has_coordinator() -> bool:
            key = {"key_type": 0, "coordinator_keys": ["g"]}
            ask(broker.bootstrap_servers, request_frame("find_coordinator", 6, key))
            frame = request_frame("describe_groups", 0, {"groups": ["g"]})
            answer = decoded("describe_groups", 0, ask(broker.bootstrap_servers, frame))
            return bool(answer.groups[0].error_code == 0)

        wait_until(has_coordinator, "a coordinator of groups")
        with (
            running_node(f"kraft://{broker.controllers}", kafka_version="4.4") as node,
            AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server,
        ):
            server.start(node)
            yield Pair(broker.bootstrap_servers, broker.sasl_servers, server.addresses[0], node)


def answers(
    client: Mapping[str, str], requests: tuple[Mapping[str, Any], ...], version: str
) -> list[list[str]]:
    return run_program(PROGRAM, [{**each, "client": client} for each in requests], version=version)


def assert_same(
    requests: tuple[Mapping[str, Any], ...], node: list[list[str]], broker: list[list[str]]
) -> None:
    for requested, ours, theirs in zip(requests, node, broker, strict=True):
        assert ours == theirs, requested


@pytest.mark.parametrize("version", CLIENTS)
def test_a_super_user_gets_the_same_results(pair: Pair, version: str) -> None:
    pair.node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
    broker = answers({"bootstrap.servers": pair.broker}, CHANGES, version)
    wait_until(lambda: pair.node.authorizer.acl_count() == 0, "the broker's removals")
    node = answers({"bootstrap.servers": pair.address}, CHANGES, version)
    assert_same(CHANGES, node, broker)
    assert len(ACLS) - 4 == str(broker[4]).count("(pattern="), broker[4]


@pytest.mark.parametrize("version", CLIENTS)
def test_a_user_with_few_rights_gets_the_same_results(pair: Pair, version: str) -> None:
    """bob at the broker's listener, and ANONYMOUS at the node's: ACLs of `User:*` hold for both."""
    granted = ({"request": "deleteAcls", "filters": [EVERY]}, {"request": "createAcls", "acls": GRANTS})
    answers({"bootstrap.servers": pair.broker}, granted, version)
    pair.node.authorizer.reconfigure({"super.users": ""})
    wait_until(lambda: pair.node.authorizer.acl_count() == len(GRANTS), "the ACLs")
    requests = (
        {"request": "createAcls", "acls": [ACL]},
        {"request": "deleteAcls", "filters": [EVERY]},
        {"request": "describeAcls", "filter": EVERY},
        *DESCRIPTIONS,
    )
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="{PASSWORD}";'
    bob = {
        "bootstrap.servers": pair.bob,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
    }
    broker = answers(bob, requests, version)
    assert_same(requests, answers({"bootstrap.servers": pair.address}, requests, version), broker)
    assert "[DESCRIBE, READ]" in str(broker), broker
