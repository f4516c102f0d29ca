"""What a real client may do at a real broker is what a node says that follows the same cluster's quorum."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from authorizer.api.authorizer_api import Action, AuthorizationResult, RequestContext
from authorizer.node.node import Node
from records.acl import AclOperation as Operation
from records.acl import PatternType, ResourcePattern
from records.acl import ResourceType as Resource
from records.errors import LogNotFoundError
from records.log.quorum import QuorumLog
from records.principal import KafkaPrincipal
from support.cluster_acls import acls_of, create, described, for_a_node, remove
from support.kafka_broker import jar_broker
from support.kafka_jars import OTHER_VERSIONS
from support.kafka_quorum import KafkaQuorum
from support.node_acls import CONTEXT
from support.nodes import SOON_S, running_node
from support.nodes import create as write
from support.sasl_clients import LiveClient
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

USER: Final = "alice"
TOPICS: Final = ("live-a", "live-b")
#: What each request takes: a client looks a topic up before it writes to it or reads it.
NEEDED: Final[dict[Callable[[LiveClient, str], bool], tuple[Operation, ...]]] = {
    LiveClient.can_describe: (Operation.DESCRIBE,),
    LiveClient.can_produce: (Operation.DESCRIBE, Operation.WRITE),
    LiveClient.can_consume: (Operation.DESCRIBE, Operation.READ),
}
#: A client that reads asks for its group's coordinator first.
OF_THE_GROUP: Final = AclBinding(
    ResourceType.GROUP, "*", ResourcePatternType.LITERAL, f"User:{USER}", "*", AclOperation.DESCRIBE,
    AclPermissionType.ALLOW,
)  # fmt: skip


def some_acl(chance: random.Random) -> AclBinding:
    """A random ACL from few values, so that they collide: names, a prefix, all; one user, all; two hosts."""
    name = chance.choice((*TOPICS, "live-", "*"))
    effect = AclPermissionType.DENY if chance.random() < 0.2 else AclPermissionType.ALLOW
    return AclBinding(
        ResourceType.TOPIC,
        name,
        ResourcePatternType.PREFIXED if name == "live-" else ResourcePatternType.LITERAL,
        chance.choice((f"User:{USER}", f"User:{USER}", f"User:{USER}", "User:*", "User:bob")),
        chance.choice(("*", "127.0.0.1", "127.0.0.1", "10.9.9.9")),
        chance.choice((AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL)),
        effect,
    )


def may(node: Node, topic: str, operations: tuple[Operation, ...]) -> bool:
    pattern = ResourcePattern(Resource.TOPIC, topic, PatternType.LITERAL)
    actions = [Action(operation, pattern) for operation in operations]
    caller = RequestContext(KafkaPrincipal("User", USER), "127.0.0.1")
    return set(node.authorizer.authorize(caller, actions)) == {AuthorizationResult.ALLOWED}


def agree_through_a_churn(
    bootstrap_servers: str, sasl_servers: str, url: str, *, steps: int = 8, seed: int = 3
) -> None:
    """At each step the node is at the quorum's offset, and describeAcls and live requests are as it says.

    Every other ACL is created and removed through the node, as a client of the cluster's controllers.
    """
    chance, present = random.Random(seed), list[AclBinding]()
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    create(admin, OF_THE_GROUP)
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in TOPICS]).values():
        future.result(SOON_S)
    client, seen = LiveClient(sasl_servers, USER), set[tuple[str, bool]]()
    with running_node(url) as node, QuorumLog.open(url) as log:
        for step in range(steps):
            if len(present) > 5 or (present and chance.random() < 0.3):
                removed = present.pop(chance.randrange(len(present)))
                if step % 2:
                    remove(admin, removed)
                else:
                    (removal,) = node.authorizer.delete_acls(CONTEXT, [for_a_node(removed)[1]])
                    assert removal.result(SOON_S).exception is None
            else:
                present.append(some_acl(chance))
                if step % 2:
                    create(admin, present[-1])
                else:
                    write(node, [for_a_node(present[-1])[0]])
            assert node.wait_for(log.high_watermark(), SOON_S)
            wait_until(lambda: acls_of(node) == described(admin), "the broker to be where the node is")
            for topic in TOPICS:
                for can, operations in NEEDED.items():
                    expected = may(node, topic, operations)
                    assert can(client, topic) == expected, (step, topic, operations, described(admin))
                    seen.add((can.__name__, expected))
    assert len(seen) == 2 * len(NEEDED)


@pytest.mark.long
@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_decisions_equal_those_of_each_release(version: str) -> None:
    """Versions are agreed on; a leader says by itself what is committed from 4.1 on (KIP-1166).

    Each refuses who means another cluster.
    """
    with jar_broker(version=version, users=(USER,)) as broker:
        assert broker.sasl_servers is not None
        url = f"kraft://{broker.controllers}"
        with QuorumLog.open(url) as log:
            assert log._session.notifies_commits == (version >= "4.1")
        with pytest.raises(LogNotFoundError, match="of another cluster than another"):
            QuorumLog.open(url, client={"cluster.id": "another"})
        agree_through_a_churn(broker.bootstrap_servers, broker.sasl_servers, url)


def test_decisions_equal_a_brokers_with_three_controllers(quorum: KafkaQuorum) -> None:
    """The same, where broker and controllers are processes of their own."""
    url = f"kraft://{quorum.controllers}"
    agree_through_a_churn(quorum.bootstrap_servers, quorum.sasl_servers, url, steps=15, seed=4)
