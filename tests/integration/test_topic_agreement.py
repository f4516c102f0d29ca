"""Two nodes that both write one topic on a real broker: the log's order decides, and both end in it."""

from __future__ import annotations

import random
import threading

import pytest

from authorizer.node.node import Node
from records.acl import AclBinding, AclOperation, AclPermissionType
from support.kafka_broker import Broker
from support.node_acls import ANY_ACL, may, topic_acl
from support.nodes import SOON_S, create, delete, running_node
from support.topic_checker import TopicChecker, TopicHistory, final_acls
from support.topic_nodes import raw_topic, unique_topic

pytestmark = [pytest.mark.integration, pytest.mark.slow]

WRITERS = 3
OPERATIONS = 350
SHARED = [f"shared-{number}" for number in range(6)]


class Writer:
    """One thread on one node: own names are checked against a model, shared ones against the log."""

    def __init__(self, node: Node, label: str, seed: int) -> None:
        self.model: set[AclBinding] = set()
        self.changes = 0
        self.failure: BaseException | None = None
        self._node = node
        self._label = label
        self._rng = random.Random(seed)
        self.thread = threading.Thread(target=self._run, name=label, daemon=True)

    def _run(self) -> None:
        try:
            for _ in range(OPERATIONS):
                if self._rng.random() < 0.4:
                    self._conflicting()
                else:
                    self._owned_names()
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            self.failure = error

    def _owned_names(self) -> None:
        rng, node = self._rng, self._node
        name = f"{self._label}-{rng.randrange(10)}"
        if rng.random() < 0.6:
            operation = rng.choice([AclOperation.READ, AclOperation.WRITE, AclOperation.ALTER])
            wanted = [topic_acl(name, operation=operation), topic_acl(f"{name}-beside")]
            create(node, wanted)
            self.model.update(wanted)
            self.changes += 2
        else:
            removed = {binding for binding in self.model if binding.pattern.name == name}
            assert len(delete(node, name)) == len(removed)
            self.model -= removed
            self.changes += len(removed)
        assert may(node.authorizer, name, AclOperation.DESCRIBE) == (
            any(binding.pattern.name == name for binding in self.model)
        )

    def _conflicting(self) -> None:
        rng, node = self._rng, self._node
        name = rng.choice(SHARED)
        if rng.random() < 0.6:
            denied = AclPermissionType.DENY if rng.random() < 0.3 else AclPermissionType.ALLOW
            create(node, [topic_acl(name, permission=denied), topic_acl(rng.choice(SHARED))])
            self.changes += 2
        else:
            self.changes += len(delete(node, name))


@pytest.mark.long
def test_two_writing_nodes_agree(broker: Broker) -> None:
    """Random operations of three threads on each of two nodes, the same and conflicting ones among them.

    Whatever a node shows on the way is the log's fold at that offset; own operations end in their model;
    both nodes, and one that starts afterwards, end in the same digest and listing, without doubles.
    """
    servers, topic = broker.bootstrap_servers, unique_topic("agreement")
    url = raw_topic(servers, topic)
    history = TopicHistory(servers, topic)
    checker = TopicChecker(history, SHARED)
    with running_node(url) as first, running_node(url) as second:
        writers = [
            Writer(node, f"{label}{number}", seed=10 * number + len(label))
            for label, node in (("a", first), ("bb", second))
            for number in range(WRITERS)
        ]
        with checker.watching(first, "first"), checker.watching(second, "second"):
            for writer in writers:
                writer.thread.start()
            for writer in writers:
                writer.thread.join()
            assert [writer.failure for writer in writers] == [None] * len(writers)
            end = max(first.status().end_offset, second.status().end_offset)
            assert first.wait_for(end, SOON_S)
            assert second.wait_for(end, SOON_S)
        ours, theirs = first.status(), second.status()
        assert (ours.end_offset, ours.digest, ours.acl_count) == (
            theirs.end_offset,
            theirs.digest,
            theirs.acl_count,
        )
        listing = list(first.authorizer.acls(ANY_ACL))
        assert listing == list(second.authorizer.acls(ANY_ACL))
    with running_node(url) as third:
        assert third.status().digest == ours.digest
        assert list(third.authorizer.acls(ANY_ACL)) == listing
    states, decisions = checker.verify()
    history.close()
    acls = final_acls(history)
    assert {record.binding() for record in acls.values()} == set(listing)
    # Equal content has one id on every node, so no ACL is duplicated.
    assert len(listing) == len(set(listing)) == ours.acl_count == len(acls)
    remaining = {binding for binding in listing if binding.pattern.name not in SHARED}
    assert remaining == set().union(*(writer.model for writer in writers))
    assert sum(writer.changes for writer in writers) > 2000
    assert states > 100
    assert decisions > 2000
