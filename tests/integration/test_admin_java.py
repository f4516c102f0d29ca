"""Kafka's own Admin in Java (AskAdmin.java) against a node, beside the same requests to a real broker.

The node follows the broker's controllers, so that both have the same ACLs and users.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from authorizer.admin_server.server import AdminServer
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from support.admin_requests import (
    ask,
    replace_acls,
    request_frame,
    wait_for_group_coordinator,
)
from support.java_admin import (
    ACL,
    DESCRIPTIONS,
    EVERY,
    READS,
    TIMEOUTS,
    WRITES,
    answers,
    changed,
    comparable,
    creation,
)
from support.kafka_broker import jar_broker
from support.nodes import SOON_S
from support.sasl_clients import PASSWORD, PLAIN_MODULE
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("admin-against-kafka")]

NEWEST: Final = "4.4.0"
#: Other releases of the client.
OLDER: Final = ("3.9.2", "4.0.2", "4.3.1")
SCRAM: Final = "SCRAM-SHA-256"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
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
    *DESCRIPTIONS,
    {"request": "deleteAcls", "filters": []},
    # A filter with UNKNOWN is left out: it ends the thread of Java's Admin, and its future never completes.
    {"request": "deleteAcls", "filters": [changed(EVERY, type="USER")]},
    {"request": "deleteAcls", "filters": [changed(EVERY, name="orders", pattern="MATCH"), ACL]},
    {"request": "describeAcls", "filter": EVERY},
    {"request": "deleteAcls", "filters": [EVERY, ACL]},
    {"request": "describeAcls", "filter": EVERY},
)


#: ACLs of bob, who is no super user.
RIGHTS: Final = {
    "few": (
        changed(ACL, principal="User:bob"),
        changed(ACL, principal="User:bob", type="GROUP", name="team", operation="ALL"),
        changed(ACL, principal="User:bob", type="GROUP", name="team", operation="DELETE", permission="DENY"),
    ),
    "describe the cluster": (
        changed(ACL, principal="User:bob", type="CLUSTER", name="kafka-cluster", operation="DESCRIBE"),
        changed(ACL, principal="User:bob", name="pay", pattern="PREFIXED", operation="ALTER_CONFIGS"),
        changed(ACL, principal="User:*", name="*", operation="DESCRIBE"),
    ),
    "alter the cluster": (
        changed(ACL, principal="User:bob", type="CLUSTER", name="kafka-cluster", operation="ALTER"),
        changed(ACL, principal="User:bob", type="GROUP", name="*", operation="DESCRIBE"),
    ),
}


class Pair(NamedTuple):
    """A broker, and a node beside it: listeners of super users, and those of bob."""

    broker: str
    broker_sasl: str
    node: str
    node_sasl: str
    followed: Node


@pytest.fixture(scope="module", params=[NEWEST, pytest.param("4.3.1", marks=pytest.mark.long)])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    version = request.param
    settings = {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        f"listener.name.sasl.{SCRAM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    with jar_broker(settings, version=version, users=("bob",)) as broker:
        assert broker.sasl_servers is not None
        client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion("bob", scram, PASSWORD.encode())
        for created in (
            *client.create_topics([NewTopic("orders", 1, 1), NewTopic("payments", 1, 1)]).values(),
            *client.alter_user_scram_credentials([user]).values(),
        ):
            created.result(SOON_S)
        wait_for_group_coordinator(broker.bootstrap_servers)
        config = load_config(
            environ={},
            flags={
                "aclog.log.url": f"kraft://{broker.controllers}",
                "aclog.kafka.version": version.rpartition(".")[0],
                "aclog.admin.listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
                "aclog.admin.scram.credentials": "log",
                "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
                "super.users": "User:ANONYMOUS",
            },
        )
        with AdminServer(config) as server, Node.open(config) as node:
            node.start()
            assert node.wait_until_ready(SOON_S)
            server.start(node)
            wait_until(lambda: "payments" in node.metadata.topics.by_name, "the broker's topics")
            addresses = server.addresses[0], server.addresses[1]
            wait_until(lambda: logs_in(addresses[1]), "the broker's user", interval_s=1)
            yield Pair(broker.bootstrap_servers, broker.sasl_servers, *addresses, node)


def logs_in(address: str) -> bool:
    cluster = {"topics": [], "allow_auto_topic_creation": False}
    return ask(address, request_frame("metadata", 4, cluster), user="bob") is not None


def client_of(address: str, mechanism: str | None = None) -> dict[str, str]:
    """Properties of a client that is anonymous, or bob."""
    client = {"bootstrap.servers": address, **TIMEOUTS}
    if mechanism is not None:
        module = SCRAM_MODULE if mechanism == SCRAM else PLAIN_MODULE
        client |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="bob" password="{PASSWORD}";',
        }
    return client


def assert_same(
    requests: Sequence[Mapping[str, Any]], node: Sequence[list[str]], broker: Sequence[list[str]]
) -> None:
    for requested, ours, theirs in zip(requests, node, broker, strict=True):
        assert ours == theirs, requested


@pytest.mark.parametrize("version", [NEWEST, *(pytest.param(each, marks=pytest.mark.long) for each in OLDER)])
def test_a_super_user_gets_the_same_results(pair: Pair, version: str) -> None:
    replace_acls(pair.broker, pair.followed, [])
    (broker,) = answers(version, (client_of(pair.broker), REQUESTS))
    wait_until(lambda: pair.followed.authorizer.acl_count() == 0, "the broker's removals")
    (node,) = answers(version, (client_of(pair.node), REQUESTS))
    assert_same(REQUESTS, node, broker)
    # Before 4.4 a host may be anything.
    assert sum("created" in each for each in broker[1]) == str(broker[4]).count("(pattern=") >= 9, broker[1]


@pytest.mark.parametrize(
    ("version", "rights", "mechanism"),
    [
        (NEWEST, "few", "PLAIN"),
        *(pytest.param(version, "few", "PLAIN", marks=pytest.mark.long) for version in OLDER),
        *(pytest.param(NEWEST, rights, SCRAM, marks=pytest.mark.long) for rights in RIGHTS),
    ],
)
def test_a_user_with_these_rights_gets_the_same_results(
    pair: Pair, version: str, rights: str, mechanism: str
) -> None:
    replace_acls(pair.broker, pair.followed, [creation(acl) for acl in RIGHTS[rights]])
    of_broker, of_node = client_of(pair.broker_sasl, mechanism), client_of(pair.node_sasl, mechanism)
    # Only controllers read what was just written. Of all rights only "alter the cluster" allows it.
    reads, reads_of_node, writes, writes_of_node = answers(
        version, (of_broker, READS), (of_node, READS), (of_broker, WRITES), (of_node, WRITES)
    )
    assert_same(READS, comparable(reads_of_node), comparable(reads))
    assert_same(WRITES, comparable(writes_of_node), comparable(writes))
    assert str(reads).count("AuthorizationException") > 1, reads
    assert (": created" in str(writes[0])) == (rights == "alter the cluster"), writes
