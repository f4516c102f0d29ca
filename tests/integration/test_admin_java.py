"""Kafka's own Admin in Java (AskAdmin.java) against a node, beside the same requests to a real broker.

The node follows the broker's controllers, so that both have the same ACLs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from authorizer.admin_server.server import AdminServer
from authorizer.node.node import Node
from support.kafka_broker import jar_broker
from support.kafka_tools import run_program
from support.nodes import SOON_S, config_of, running_node
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
REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    {"request": "deleteAcls", "filters": [EVERY]},
    {"request": "createAcls", "acls": ACLS},
    {"request": "createAcls", "acls": [ACL, ACL]},
    {"request": "createAcls", "acls": []},
    *({"request": "describeAcls", "filter": each} for each in FILTERS),
    {"request": "describeCluster"},
    {"request": "describeTopics", "names": ["orders", "unknown", "not a name"]},
    {"request": "deleteAcls", "filters": []},
    # A filter with UNKNOWN is left out: it ends the thread of Java's Admin, and its future never completes.
    {"request": "deleteAcls", "filters": [changed(EVERY, type="USER")]},
    {"request": "deleteAcls", "filters": [changed(EVERY, name="orders", pattern="MATCH"), ACL]},
    {"request": "describeAcls", "filter": EVERY},
    {"request": "deleteAcls", "filters": [EVERY, ACL]},
    {"request": "describeAcls", "filter": EVERY},
)


class Pair(NamedTuple):
    """A broker, and a node beside it."""

    broker: str
    address: str
    node: Node


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with (
        jar_broker(version="4.4.0") as broker,
        running_node(f"kraft://{broker.controllers}", kafka_version="4.4") as node,
        AdminServer(config_of(admin_listeners="PLAINTEXT://127.0.0.1:0")) as server,
    ):
        node.authorizer.reconfigure({"super.users": "User:ANONYMOUS"})
        server.start(node)
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        client.create_topics([NewTopic("orders", 1, 1)])["orders"].result(SOON_S)
        wait_until(lambda: "orders" in node.metadata.topics.by_name, "the broker's topic")
        yield Pair(broker.bootstrap_servers, server.addresses[0], node)


def answers(address: str, version: str) -> list[list[str]]:
    client = {
        "bootstrap.servers": address,
        "request.timeout.ms": "4000",
        "default.api.timeout.ms": "5000",
    }
    return run_program(
        PROGRAM, [{**each, "client": client} for each in REQUESTS], version=version, timeout_s=60
    )


@pytest.mark.parametrize("version", CLIENTS)
def test_a_super_user_gets_the_same_results(pair: Pair, version: str) -> None:
    broker = answers(pair.broker, version)
    wait_until(lambda: pair.node.authorizer.acl_count() == 0, "the broker's removals")
    node = answers(pair.address, version)
    for requested, ours, theirs in zip(REQUESTS, node, broker, strict=True):
        assert ours == theirs, requested
    assert sum("created" in each for each in broker[1]) == str(broker[4]).count("(pattern=") == 9, broker[1]
