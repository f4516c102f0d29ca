"""What a topic may do to a node that follows it, each provoked on a real broker by others than aclog."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from authorizer.api.errors import AuthorizerNotReadyError
from authorizer.node.node import Node
from records.codecs import kraft
from records.entries import AccessControlEntryRecord, AclRecord, MetadataRecord
from records.errors import LogOutcomeUnknownError
from records.ids import Uuid
from records.log.topic import TopicLog
from support.kafka_broker import Broker
from support.node_acls import ANY_ACL, may, names, topic_acl
from support.nodes import SOON_S, create, delete, running_node
from support.topic_checker import CODEC, TX_HEADER, TopicChecker, TopicHistory
from support.topic_nodes import key_of, produce, produce_raw, raw_topic, record_of, unique_topic
from support.topic_operator import create_again, delete_records, set_policy, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def message(record: AclRecord) -> tuple[bytes, bytes]:
    return key_of(record), CODEC.encode(record)


def shown_end(node: Node) -> int:
    return node.status().end_offset


def remains(node: Node, end_offset: int, *, for_s: float = 0.6) -> bool:
    """Whether the node shows nothing beyond this offset for a while."""
    return not node.wait_for(end_offset + 1, for_s) and shown_end(node) == end_offset


def refused(node: Node) -> bool:
    """Whether nobody gets an answer."""
    try:
        may(node.authorizer, "t")
    except AuthorizerNotReadyError:
        return True
    return False


def produced_somehow(broker: Broker, topic: str, what: tuple[bytes | None, bytes | None]) -> int:
    """Send one message until the broker takes it; returns the offset behind it."""
    ends: list[int] = []

    def taken() -> bool:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        try:
            ends.append(produce(producer, topic, [what]))
        except AssertionError:
            return False
        return True

    wait_until(taken, "a broker that takes it")
    return ends[0]


def shows(node: Node, name: str) -> bool:
    return node.status().ready and may(node.authorizer, name)


@pytest.fixture
def topic(broker: Broker) -> str:
    name = unique_topic("traps")
    raw_topic(broker.bootstrap_servers, name)
    return name


@pytest.fixture
def url(broker: Broker, topic: str) -> str:
    return f"kafka://{broker.bootstrap_servers}/{topic}"


def test_an_empty_topic_is_complete(url: str) -> None:
    """The node is ready without ACLs; another node sees the first write."""
    with running_node(url) as writer, running_node(url, log_mode="read") as reader:
        assert (reader.status().end_offset, reader.status().acl_count) == (0, 0)
        assert not may(reader.authorizer, "t")
        create(writer, [topic_acl("t")])
        assert reader.wait_for(writer.status().end_offset, SOON_S)
        assert may(reader.authorizer, "t")


def test_aborted_transactions_are_never_shown(broker: Broker, topic: str, url: str) -> None:
    """Neither before nor after the abort, nor to a node that starts later; offsets go on behind them."""
    with running_node(url) as node:
        create(node, [topic_acl("kept")])
        before = shown_end(node)
        producer = transactional(broker, "aborting")
        producer.begin_transaction()
        produce(producer, topic, [message(record_of(topic_acl("never")))])
        assert remains(node, before)
        producer.abort_transaction(SOON_S)
        create(node, [topic_acl("after")])
        assert names(node.authorizer.acls(ANY_ACL)) == {"kept", "after"}
        with running_node(url, log_mode="read") as later:
            assert names(later.authorizer.acls(ANY_ACL)) == {"kept", "after"}
            assert later.status().digest == node.status().digest


def test_an_open_transaction_hides_only_later_records(broker: Broker, topic: str, url: str) -> None:
    """The node goes on serving what it has; all comes in the log's order once the transaction ends.

    A write of the node itself meanwhile is committed and not visible: it ends with its own timeout, which
    says so, and it shows later.
    """
    with running_node(url, acl_update_timeout_ms=5000) as node:
        create(node, [topic_acl("kept")])
        before = shown_end(node)
        producer = transactional(broker, "open")
        producer.begin_transaction()
        produce(producer, topic, [message(record_of(topic_acl("late")))])
        with pytest.raises(Exception, match=r"timed out after 5000 ms\. The records are in the log"):
            create(node, [topic_acl("behind")])
        assert remains(node, before)
        assert node.status().ready
        assert may(node.authorizer, "kept")
        assert not may(node.authorizer, "behind")
        with running_node(url, log_mode="read") as started_meanwhile:
            assert names(started_meanwhile.authorizer.acls(ANY_ACL)) == {"kept"}
        producer.commit_transaction(SOON_S)
        wait_until(lambda: may(node.authorizer, "behind"), "what was behind the open transaction")
        assert names(node.authorizer.acls(ANY_ACL)) == {"kept", "late", "behind"}


def test_a_part_of_a_transaction_is_never_shown(broker: Broker, topic: str, url: str) -> None:
    """Two transactions interleave, and the last stable offset lies within the one that is committed (I2)."""

    def header(transaction: str, index: int) -> list[tuple[str, str | bytes | None]]:
        return [(TX_HEADER, f"{transaction * 16}:{index}:2".encode())]

    history = TopicHistory(broker.bootstrap_servers, topic)
    checker = TopicChecker(history, ["a0", "a1", "b0", "b1"])
    first, second = transactional(broker, "first"), transactional(broker, "second")
    with running_node(url, log_mode="read") as node, checker.watching(node, "node"):
        first.begin_transaction()
        second.begin_transaction()
        for index in (0, 1):
            for label, producer in (("a", first), ("b", second)):
                produce(
                    producer, topic, [message(record_of(topic_acl(f"{label}{index}")))], header(label, index)
                )
        # a0 b0 a1 b1, and a is committed: a0 is below the last stable offset, a1 is not.
        first.commit_transaction(SOON_S)
        time.sleep(0.5)  # the subject is time: nothing may be shown during it
        assert not may(node.authorizer, "a0")
        # Who starts now has half of a transaction below the log's end, and waits for the rest of it.
        with (
            running_node(url, log_mode="read", ready=False) as later,
            checker.watching(later, "later"),
        ):
            assert not later.wait_until_ready(1)
            second.commit_transaction(SOON_S)
            for each in (node, later):
                wait_until(partial(shows, each, "b1"), "the second transaction")
                assert names(each.authorizer.acls(ANY_ACL)) == {"a0", "a1", "b0", "b1"}
    checker.verify()
    history.close()


def test_foreign_ids_frames_and_keyless_records_are_followed(broker: Broker, topic: str, url: str) -> None:
    """Another program's records: random ids, KRaft frames as values, no key; equal content under two ids.

    One that is there twice is listed once, counted twice, and one removal takes both (I8).
    """
    servers = broker.bootstrap_servers
    binding = topic_acl("foreign")
    foreign = AccessControlEntryRecord.from_binding(Uuid(b"0123456789abcdef"), binding)
    framed, keyless = record_of(topic_acl("framed")), record_of(topic_acl("keyless"))
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    produce(
        producer,
        topic,
        [
            message(foreign),
            message(record_of(binding)),
            (key_of(framed), kraft.encode_frame(framed)),
        ],
    )
    # Kafka refuses it while the topic is compacted; one that was not always may hold some.
    set_policy(broker, topic, "delete")
    end = produced_somehow(broker, topic, (None, CODEC.encode(keyless)))
    set_policy(broker, topic, "compact")
    with running_node(url) as node:
        assert shown_end(node) == end
        assert names(node.authorizer.acls(ANY_ACL)) == {"foreign", "framed", "keyless"}
        assert node.status().acl_count == 4
        assert len(list(node.authorizer.acls(ANY_ACL))) == 3
        # One ACL for the listing, two records to remove.
        delete(node, "foreign")
        assert node.status().acl_count == 2
        assert not may(node.authorizer, "foreign")
        # A tombstone alone removes as well: what is left when compaction has taken the removal itself.
        produce(producer, topic, [(key_of(framed), None)])
        wait_until(lambda: not may(node.authorizer, "framed"), "the tombstone")
        with running_node(url, log_mode="read") as later:
            assert names(later.authorizer.acls(ANY_ACL)) == {"keyless"}
            assert node.wait_for(shown_end(later), SOON_S)
            assert later.status().digest == node.status().digest


def test_an_undecodable_value_stops_the_node_with_its_offset(broker: Broker, topic: str, url: str) -> None:
    """Not skipped, not guessed: not ready, with the place; a node that starts then says the same (I7)."""
    with running_node(url, log_mode="read") as node:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        valid, behind = record_of(topic_acl("kept")), record_of(topic_acl("behind"))
        bad = produce(producer, topic, [message(valid), (key_of(behind), b"not an ACL")]) - 1
        produce(producer, topic, [message(behind)])
        wait_until(lambda: not node.status().ready, "not ready")
        assert f"offset {bad}" in (node.status().not_ready_reason or "")
        assert refused(node)
        with running_node(url, log_mode="read", ready=False) as later:
            with pytest.raises(Exception, match=f"offset {bad}"):
                later.wait_until_ready(SOON_S)
            assert refused(later)


def test_a_recreated_topic_is_another_log(broker: Broker, topic: str, url: str, tmp_path: Path) -> None:
    """Its records replace the old one's, old snapshots do not count, and nothing is written by mistake (I9).

    The new log is longer than the position in the old one: only the topic's id tells.
    """
    servers = broker.bootstrap_servers
    with running_node(url, snapshot_store=tmp_path / "store", snapshot_max_bytes=1) as node:
        for number in range(4):
            create(node, [topic_acl(f"old-{number}")])
        wait_until(lambda: any((tmp_path / "store").rglob("manifest.json")), "a snapshot")
        before = node.status().identity
        create_again(broker, topic)
        produce_raw(servers, topic, [record_of(topic_acl(f"new-{number}")) for number in range(50)])
        wait_until(lambda: node.status().identity != before and node.status().ready, "the new log")
        expected = {f"new-{number}" for number in range(50)}
        assert names(node.authorizer.acls(ANY_ACL)) == expected
        assert not may(node.authorizer, "old-0")
        create(node, [topic_acl("written")])
        assert may(node.authorizer, "written")
        with running_node(url, snapshot_store=tmp_path / "store") as later:
            assert names(later.authorizer.acls(ANY_ACL)) == expected | {"written"}


def test_an_append_into_a_replaced_topic_has_an_unknown_outcome(
    broker: Broker, topic: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Committed, and the topic is another one when that is known: not a success, and not nothing."""
    with TopicLog.open(url, mode="write") as log:
        append = log._writer.append

        def appended_and_lost(
            records: Sequence[MetadataRecord], check: Callable[[], None], after: int | None
        ) -> int:
            end_offset = append(records, check, after)
            create_again(broker, topic)
            return end_offset

        monkeypatch.setattr(log._writer, "append", appended_and_lost)
        with pytest.raises(LogOutcomeUnknownError, match="may be in the new one"):
            log.append([record_of(topic_acl("t"))])


def test_a_node_behind_the_logs_start_reloads(broker: Broker, topic: str, url: str, tmp_path: Path) -> None:
    """With a snapshot that covers the start a node begins there; without one it is never ready (I11).

    A running node that had read everything is not disturbed.
    """
    store = tmp_path / "store"
    with running_node(url, snapshot_store=store, snapshot_max_bytes=1) as node:
        for number in range(6):
            create(node, [topic_acl(f"t-{number}")])
        # The snapshot that is due with the last write may still be on its way.
        end, digest = shown_end(node), node.status().digest
        wait_until(lambda: any(store.rglob(f"{end:020d}-*/manifest.json")), "a snapshot of the end")
        delete_records(broker, topic, end)
        create(node, [topic_acl("after")])
        assert node.status().acl_count == 7
        with running_node(url, log_mode="read", snapshot_store=store) as covered:
            assert covered.status().digest == node.status().digest != digest
        with running_node(url, log_mode="read", ready=False) as uncovered:
            wait_until(lambda: "start" in (uncovered.status().not_ready_reason or ""), "the reason")
            assert refused(uncovered)
