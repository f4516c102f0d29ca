"""Changes of leader that lose nothing: what was stored before stays good, and writes go on by themselves."""

from __future__ import annotations

import threading
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import ElectionType, Producer, TopicPartition

from authorizer.cli.main import cli
from records.errors import LogUnreachableError
from records.log.topic import TopicLog
from records.log.topic.topic_offsets import TopicOffsets
from records.log.views import known_histories
from snapshot.image import Provenance
from support.kafka_cluster import KafkaCluster
from support.node_acls import ANY_ACL, names, topic_acl
from support.nodes import SOON_S, create, running_node
from support.snapshots import acl
from support.topic_checker import CODEC
from support.topic_nodes import key_of, produce, record_of, unique_topic
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

COMPACTED = {"cleanup.policy": "compact", "min.insync.replicas": "1"}


def new_topic(cluster: KafkaCluster) -> tuple[str, str]:
    """Its name and its URL; broker 1 leads it."""
    topic = unique_topic("leaders")
    cluster.create_topic(topic, [1, 2, 3], COMPACTED)
    return topic, f"kafka://{cluster.bootstrap_servers}/{topic}"


def move_leader(cluster: KafkaCluster, topic: str) -> None:
    """From broker 1, which stops and comes back, to another one."""
    cluster.stop(1)
    cluster.wait_for_leader(topic, other_than=1)
    cluster.start(1)
    cluster.wait_for_brokers()
    wait_until(lambda: cluster.in_sync(topic) == {1, 2, 3}, "three replicas in sync")


def move_leader_back(cluster: KafkaCluster, topic: str) -> None:
    """To broker 1, which all replicas prefer; nobody stops, so no client loses a connection."""
    elected = cluster.admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, 0)])
    assert elected.result()[TopicPartition(topic, 0)] is None
    wait_until(lambda: cluster.leader(topic) == 1, "the preferred leader")


@pytest.mark.long
def test_a_snapshot_is_valid_after_an_abort_of_the_new_leader(cluster: KafkaCluster, tmp_path: Path) -> None:
    """Its last record is of the epoch before: the offsets behind it hold an aborted record and a marker."""
    topic, url = new_topic(cluster)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": topic,
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SOON_S)
    with running_node(url) as node:
        create(node, [topic_acl("kept")])
        producer.begin_transaction()
        never = record_of(topic_acl("never"))
        end = produce(producer, topic, [(key_of(never), CODEC.encode(never))])
        move_leader(cluster, topic)
        producer.abort_transaction(SOON_S)
        wait_until(lambda: node.status().end_offset > end, "the end behind the marker")
        assert node.status().epoch == 0
    stored = CliRunner().invoke(cli, ["snapshot", "create", "--log", url, "--snapshots", str(tmp_path)])
    assert stored.exit_code == 0, stored.output
    listed = CliRunner().invoke(cli, ["acls", "--list", "--log", url, "--snapshots", str(tmp_path)])
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert "name=kept" in listed.stdout
    with running_node(url, snapshot_store=tmp_path) as node:
        assert node.loader.metrics.snapshots_loaded == 1
        create(node, [topic_acl("later")])
        assert names(node.authorizer.acls(ANY_ACL)) == {"kept", "later"}


@pytest.mark.long
def test_histories_are_known_after_changes_of_the_leader(cluster: KafkaCluster) -> None:
    """I11: what the request of many topics knows of any state, the log's own reader confirms."""
    topic, url = new_topic(cluster)
    records: dict[int, int] = {}
    with TopicLog.open(url, mode="write") as log:
        end_offset = log.append([acl(0), acl(1)])
        for number, move in enumerate((move_leader, move_leader_back), 2):
            move(cluster, topic)
            end_offset = log.append([acl(number)])

        def has_read() -> bool:
            records.update({each.offset: batch.epoch for batch in log.read(0) for each in batch.records})
            return len(records) == 4

        wait_until(has_read, "the records")
        epochs = range(max(records.values()) + 3)
        known = set[tuple[int, int]]()
        for end, epoch, tail in product(range(1, end_offset + 2), epochs, range(2)):
            last = end - tail - 1
            if tail and records.get(last + 1) == epoch:
                continue  # no log has such a state
            if known_histories([log], [Provenance(end, epoch, 0, tail)]) == [True]:
                assert log.is_history(end, epoch, empty_tail=tail)
                known.add((last, epoch))
    assert len(set(records.values())) == 3
    assert {each for each in known if each[0] in records} == set(records.items())


@pytest.mark.long
def test_writes_continue_while_the_leader_changes(cluster: KafkaCluster) -> None:
    """None fails, though clients know the old leader for a moment ("Leader epoch is older ...")."""
    topic, url = new_topic(cluster)
    written: list[str] = []
    failures: list[BaseException] = []
    done = threading.Event()
    with running_node(url) as node:

        def write() -> None:
            try:
                while not done.is_set():
                    create(node, [topic_acl(f"t-{len(written)}")])
                    written.append(f"t-{len(written)}")
            except BaseException as error:  # noqa: BLE001 - shown below
                failures.append(error)

        def has_grown(seen: int) -> bool:
            return bool(failures) or len(written) > seen + 5

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        for _ in range(2):
            move_leader(cluster, topic)
            move_leader_back(cluster, topic)
            seen = len(written)
            wait_until(partial(has_grown, seen), "writes")
        done.set()
        writer.join(SOON_S)
        assert failures == []
        assert names(node.authorizer.acls(ANY_ACL)) == set(written)


@pytest.mark.long
def test_a_topic_without_a_leader_does_not_hold_up_the_others(cluster: KafkaCluster) -> None:
    """The planning process of a Spark job asks for the offsets of all topics together."""
    lost, led = (unique_topic(name) for name in ("lost", "led"))
    cluster.create_topic(lost, [3], COMPACTED)
    cluster.create_topic(led, [1, 2], COMPACTED)
    urls = [f"kafka://{cluster.bootstrap_servers}/{topic}" for topic in (lost, led)]
    offsets = TopicOffsets(cluster.bootstrap_servers, {})
    assert offsets.ends(urls) == dict.fromkeys(urls, 0)
    cluster.kill(3)
    try:
        wait_until(lambda: cluster.leader(lost) is None, "the loss of the leader")
        for query in (offsets.ends, offsets.starts):
            found = query(urls)
            assert isinstance(found[urls[0]], LogUnreachableError)
            assert found[urls[1]] == 0
    finally:
        cluster.start(3)
        cluster.wait_for_brokers()
