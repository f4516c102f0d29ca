"""Nodes on one topic of a real Kafka: all of them write and follow, and they share a snapshot store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from authorizer.api.errors import NotControllerError
from authorizer.configuration.load import load_config
from authorizer.node.node import Node
from records.errors import LogError, LogNotFoundError
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.stored import SnapshotState
from support.kafka_broker import Broker
from support.node_acls import ANY_ACL, CONTEXT, may, names, topic_acl
from support.nodes import SOON_S, create, delete, running_node
from support.topic_logs import new_topic, topic_url
from support.waiting import wait_until

pytestmark = pytest.mark.integration


def agree(one: Node, other: Node) -> None:
    """Wait until both stand at one offset, and compare what they hold (I12)."""

    def stand_together() -> bool:
        ours, theirs = one.status(), other.status()
        return ours.end_offset == theirs.end_offset and ours.lag_records == theirs.lag_records == 0

    wait_until(stand_together)
    ours, theirs = one.status(), other.status()
    assert (ours.end_offset, ours.acl_count, ours.digest) == (
        theirs.end_offset,
        theirs.acl_count,
        theirs.digest,
    )


def test_every_node_writes_and_the_others_see_it(broker: Broker) -> None:
    """Two nodes on one topic: what either acknowledges, the other decides by; digests agree."""
    url = new_topic(broker)
    with running_node(url) as one, running_node(url) as other:
        assert (one.status().writable, other.status().writable) == (True, True)
        create(one, [topic_acl("t")])
        assert may(one.authorizer, "t")
        create(other, [topic_acl("u")])
        assert other.wait_for(one.status().end_offset, SOON_S)
        assert may(other.authorizer, "t")
        agree(one, other)
        assert names(one.authorizer.acls(ANY_ACL)) == {"t", "u"}


def test_a_removal_finds_what_another_node_acknowledged_just_before(broker: Broker) -> None:
    """ACLs created on one node and repeatedly removed on another: none is missed or duplicated."""
    url = new_topic(broker)
    with running_node(url) as one, running_node(url) as other:
        for number in range(10):
            writer, remover = (one, other) if number % 2 else (other, one)
            create(writer, [topic_acl("t"), topic_acl("u")])
            assert delete(remover, "t") == [topic_acl("t")]
            # Both nodes have it already: a success without a second ACL.
            create(remover, [topic_acl("u")])
        agree(one, other)
        assert list(one.authorizer.acls(ANY_ACL)) == [topic_acl("u")]


def test_nodes_that_share_a_store_do_not_conflict(broker: Broker, tmp_path: Path) -> None:
    """Both write snapshots of the same states: all are complete, and a new node starts from one."""
    url = new_topic(broker)
    settings: dict[str, Any] = {"snapshot_store": tmp_path, "snapshot_max_bytes": 1, "snapshot_keep": 2}
    with running_node(url, **settings) as one, running_node(url, **settings) as other:
        for number in range(12):
            create((one, other)[number % 2], [topic_acl(f"t{number}")])
        agree(one, other)
        store = SnapshotStore(tmp_path)
        wait_until(lambda: len(store.list(one.log.identity)) >= 2)
        digest = one.status().digest
        nodes = (one, other)
        pages = [exposition(node) for node in nodes]
        assert all("aclog_snapshot_failures_total 0.0" in page for page in pages), pages
    identity = one.log.identity
    for status in store.survey(identity):
        if status.state is SnapshotState.COMPLETE:
            assert store.verify(status.ref, identity) == ()
        else:  # what the slower of two left of a snapshot that is gone already; it goes after a day
            assert status.state is SnapshotState.UNFINISHED, status
    with running_node(url, **settings) as late:
        assert late.loader.metrics.snapshots_loaded == 1
        assert (late.status().digest, late.status().acl_count) == (digest, 12)


def exposition(node: Node) -> str:
    from prometheus_client import generate_latest  # noqa: PLC0415 - one test's

    return generate_latest(node.metrics).decode()


def test_another_logs_snapshot_is_refused(broker: Broker, tmp_path: Path) -> None:
    """I9: a second topic of the cluster with the first one's store: said, passed over, never overwritten."""
    first, second = new_topic(broker), new_topic(broker)
    with running_node(first, snapshot_store=tmp_path, snapshot_max_bytes=1) as node:
        create(node, [topic_acl("t")])
        wait_until(lambda: SnapshotStore(tmp_path).list(node.log.identity))
        (ref, *_) = SnapshotStore(tmp_path).list(node.log.identity)
    with running_node(second, snapshot_store=tmp_path, snapshot_max_bytes=1) as node:
        assert node.loader.metrics.snapshots_loaded == 0
        assert node.loader.metrics.snapshots_refused >= 1
        assert node.status().acl_count == 0
        create(node, [topic_acl("u")])
    assert SnapshotStore(tmp_path).verify(ref) == ()
    assert len(SnapshotStore(tmp_path).read(ref).image) == 1


def test_a_read_only_node_names_the_writer(broker: Broker) -> None:
    """``aclog.log.mode=read``."""
    with running_node(new_topic(broker), log_mode="read") as node:
        assert not node.status().writable
        (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl("t")])
        error = future.result(SOON_S).exception
    assert isinstance(error, NotControllerError)
    assert "another node" in str(error)
    assert "aclog.log.mode=write" in str(error)


def opened(url: str, mode: str) -> Node:
    return Node.open(load_config(environ={}, flags={"aclog.log.url": url, "aclog.log.mode": mode}))


@pytest.mark.parametrize("mode", ["auto", "read", "write"])
def test_a_missing_topic_is_not_created_by_mistake(broker: Broker, mode: str) -> None:
    """A mistyped name does not become an empty log that denies everything."""
    with pytest.raises(LogNotFoundError):
        opened(topic_url(broker), mode)


def test_create_requires_three_brokers(broker: Broker) -> None:
    """One broker cannot keep three replicas: the error says how to make a smaller log on purpose."""
    with pytest.raises(LogError, match="replication"):
        opened(topic_url(broker), "create")
