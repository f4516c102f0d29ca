"""Nodes on a topic while processes die: nodes in the middle of their work, brokers under writes.

No acknowledged ACL is lost, none comes back, and no node shows a state that the log never had: the checker
reads states and decisions with their offsets all the time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from authorizer.node.node import Node
from records.entries import MetadataRecord
from records.errors import LogOutcomeUnknownError, LogUnreachableError
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.writer import TopicWriter
from records.log.url import parse_topic_url
from records.log_batch import LogBatch
from snapshot.digest import digest_to_string
from support.kafka_broker import Broker
from support.kafka_cluster import KafkaCluster
from support.node_acls import ANY_ACL, CONTEXT, may, names, topic_acl
from support.nodes import SOON_S, create, running_node
from support.seeds import seeded
from support.topic_checker import TopicChecker, TopicHistory, final_acls, folds
from support.topic_nodes import WriteOutcomes, produce_raw, raw_topic, record_of, unique_topic, writing
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

TESTS = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
SUPER_USER_READS = {
    "subject": {"type": "User", "id": "a"},
    "action": {"name": "READ"},
    "resource": {"type": "TOPIC", "id": "t-0"},
    "context": {"host": "10.0.0.1"},
}


# --- brokers ----------------------------------------------------------------------------------------------


def assert_acknowledged(
    outcomes: Iterable[WriteOutcomes], history: TopicHistory, nodes: Iterable[Node]
) -> None:
    """Acknowledged writes are in the log and in every node, and no others but unknown ones."""
    present = {name for each in outcomes for name in each.present}
    unknown = {name for each in outcomes for name in each.unknown}
    for found in (
        {record.resource_name for record in final_acls(history).values()},
        *(names(node.authorizer.acls(ANY_ACL)) for node in nodes),
    ):
        assert present <= found, "an acknowledged ACL was lost"
        assert found <= present | unknown, "a removed ACL came back"


def is_ready(node: Node) -> bool:
    return node.status().ready


def wait_for_writes(outcomes: Sequence[WriteOutcomes], count: int = 20) -> None:
    """Until each has been acknowledged so many more."""
    enough = [each.acknowledged + count for each in outcomes]
    wait_until(
        lambda: all(each.acknowledged >= least for each, least in zip(outcomes, enough, strict=True)),
        "acknowledged writes",
    )


def caught_up(nodes: list[Node]) -> int:
    """Wait until all stand at the same end, ready; returns it."""
    end = max(node.status().end_offset for node in nodes)
    for node in nodes:
        assert node.wait_for(end, SOON_S)
        wait_until(partial(is_ready, node), "a ready node")
    return end


@pytest.mark.long
@seeded(97)
def test_no_write_is_lost_when_leaders_are_killed(cluster: KafkaCluster, seed: int) -> None:
    """Two leaders in a row are killed while both nodes write with acks=all, and come back as followers."""
    servers, topic = cluster.bootstrap_servers, unique_topic("leaders")
    cluster.create_topic(topic, [1, 2, 3], {"cleanup.policy": "compact", "min.insync.replicas": "2"})
    url = f"kafka://{servers}/{topic}"
    history = TopicHistory(servers, topic)
    checker = TopicChecker(history, ["a-0", "a-1", "b-0", "b-1"])
    with ExitStack() as stack:
        nodes = [stack.enter_context(running_node(url)) for _ in "ab"]
        for node, label in zip(nodes, "ab", strict=True):
            stack.enter_context(checker.watching(node, label))
        with ExitStack() as writers:
            outcomes = [
                writers.enter_context(writing(node, label, seed=seed + at))
                for at, (node, label) in enumerate(zip(nodes, "ab", strict=True))
            ]
            for _ in range(2):
                wait_for_writes(outcomes)
                leader = cluster.leader(topic)
                assert leader is not None
                cluster.kill(leader)
                cluster.wait_for_leader(topic, other_than=leader)
                # Serving goes on from the last state.
                assert all(node.authorizer.state.is_ready for node in nodes)
                wait_for_writes(outcomes)
                cluster.start(leader)
                wait_until(lambda: len(cluster.in_sync(topic)) == 3, "three replicas in sync")
        end = caught_up(nodes)
        history.wait_for(end)
        assert_acknowledged(outcomes, history, nodes)
        assert nodes[0].status().digest == nodes[1].status().digest
    checker.verify()
    history.close()


def test_nodes_recover_when_the_only_broker_restarts(cluster: KafkaCluster) -> None:
    """The topic's only replica is killed under writes and started again.

    Meanwhile decisions go on, readiness follows aclog.max.lag.ms where that is set, and it comes back.
    """
    servers, topic, only = cluster.bootstrap_servers, unique_topic("only"), 3
    cluster.create_topic(topic, [only], {"cleanup.policy": "compact", "min.insync.replicas": "1"})
    url = f"kafka://{servers}/{topic}"
    history = TopicHistory(servers, topic)
    checker = TopicChecker(history, ["a-0", "a-1"])
    with running_node(url) as writer, running_node(url, log_mode="read", max_lag_ms=1500) as strict:
        with (
            checker.watching(writer, "writer"),
            checker.watching(strict, "strict"),
            writing(writer, "a", seed=1) as outcomes,
        ):
            wait_until(lambda: outcomes.acknowledged > 30, "acknowledged writes")
            cluster.kill(only)
            wait_until(lambda: not strict.status().ready, "a lag beyond aclog.max.lag.ms")
            assert "aclog.max.lag.ms" in (strict.status().not_ready_reason or "")
            # Old is not wrong: it decides all the same.
            assert strict.authorizer.state.is_ready
            assert writer.status().ready
            cluster.start(only)
            before = outcomes.acknowledged
            wait_until(lambda: outcomes.acknowledged > before + 30, "writes after the restart")
        end = caught_up([writer, strict])
        history.wait_for(end)
        assert_acknowledged([outcomes], history, [writer, strict])
        assert writer.status().digest == strict.status().digest
    checker.verify()
    history.close()


@pytest.mark.long
def test_a_commit_without_an_answer_has_an_unknown_outcome(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All brokers die between the records and the commit: it is reported, and no part is visible."""
    servers, topic = cluster.bootstrap_servers, unique_topic("unanswered")
    cluster.create_topic(topic, [1, 2, 3], {"cleanup.policy": "compact", "min.insync.replicas": "2"})
    where, errors = parse_topic_url(f"kafka://{servers}/{topic}"), ClientErrors()
    settings, topic_errors = ClientSettings(where, {}, errors), TopicErrors(where, errors)
    writer = TopicWriter(where, settings, topic_errors, 1_000_000, lambda: False)
    acls = [record_of(topic_acl(name)) for name in ("before", "unsure-1", "unsure-2", "after")]
    writer.append(acls[:1], lambda: None)
    commit = writer._commit

    def commit_to_nobody(producer: Producer) -> None:
        assert producer.flush(SOON_S) == 0
        cluster.kill(*cluster.brokers)
        commit(producer)

    with monkeypatch.context() as patched:
        patched.setattr(writer, "_commit", commit_to_nobody)
        with pytest.raises(LogOutcomeUnknownError, match="it is not known whether the records were written"):
            writer.append(acls[1:3], lambda: None)
    cluster.start(*cluster.brokers)
    cluster.wait_for_brokers()
    wait_until(lambda: is_appended(writer, acls[3:]), "an append")
    with running_node(where.text, log_mode="read") as node:
        found = names(node.authorizer.acls(ANY_ACL))
    assert found in ({"before", "after"}, {"before", "unsure-1", "unsure-2", "after"})


def is_created(node: Node, name: str) -> bool:
    (future,) = node.authorizer.create_acls(CONTEXT, [topic_acl(name)])
    return future.result(SOON_S).exception is None


def is_appended(writer: TopicWriter, records: Sequence[MetadataRecord]) -> bool:
    try:
        writer.append(records, lambda: None)
    except LogUnreachableError:
        return False
    return True


def refusal(address: str, path: str, body: object = None) -> dict[str, Any]:
    """The body of a 503."""
    with pytest.raises(urllib.error.HTTPError) as caught:
        send(address, path, body)
    with caught.value as answer:
        assert answer.code == 503
        body_of_503: dict[str, Any] = json.load(answer)
    return body_of_503


@pytest.mark.long
def test_a_sidecar_starts_before_its_brokers(cluster: KafkaCluster, tmp_path: Path) -> None:
    """All of them are down: it is up, not ready, and says why; it is ready once they are there.

    Another one, whose topic there is not, ends when they say so.
    """
    servers, topic = cluster.bootstrap_servers, unique_topic("before")
    cluster.create_topic(topic, [1, 2, 3], {"cleanup.policy": "compact", "min.insync.replicas": "2"})
    produce_raw(servers, topic, [record_of(topic_acl("t-0"))])
    url, nowhere = f"kafka://{servers}/{topic}", f"kafka://{servers}/{unique_topic('nowhere')}"
    cluster.kill(*cluster.brokers)
    with (
        serving(url, tmp_path / "store", tmp_path) as (process, address),
        serving(nowhere, tmp_path / "other", tmp_path) as (mistaken, _),
    ):
        assert send(address, "/livez") == {"live": True}
        wait_until(lambda: url in refusal(address, "/readyz")["reason"], "a reason")
        state = send(address, "/v1/state")
        assert (state["ready"], state["cluster_id"], state["topic_id"]) == (False, None, None)
        assert state["log"] == url
        # For as long as it has been there, not since 1970.
        assert state["lag_ms"] < 3_600_000
        assert "AUTHORIZER_NOT_READY" in str(refusal(address, "/access/v1/evaluation", SUPER_USER_READS))
        assert (process.poll(), mistaken.poll()) == (None, None)
        cluster.start(*cluster.brokers)
        wait_until(partial(serves, address), "ready")
        state = send(address, "/v1/state")
        assert (state["acl_count"], state["cluster_id"] is None, state["reason"]) == (1, False, None)
        assert send(address, "/access/v1/evaluation", SUPER_USER_READS)["decision"] is True
        assert mistaken.wait(SOON_S) == 2
        assert process.poll() is None
    cluster.wait_for_brokers()


@pytest.mark.long
def test_an_unclean_election_reverts_the_shown_state(cluster: KafkaCluster, tmp_path: Path) -> None:
    """The log is shortened and written on: the node ends in the new history, without what was lost (I11).

    Its snapshots of the old history are not continued either, though their offsets are in the new one.
    """
    servers, topic, store = cluster.bootstrap_servers, unique_topic("unclean"), tmp_path / "store"
    config = {
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
    }
    cluster.create_topic(topic, [1, 2], config)
    url = f"kafka://{servers}/{topic}"
    with running_node(url, log_mode="read", snapshot_store=store, snapshot_max_bytes=1) as node:
        produce_raw(servers, topic, [record_of(topic_acl("both"))])
        wait_until(lambda: may(node.authorizer, "both"), "what both replicas have")
        cluster.stop(2)
        wait_until(lambda: cluster.in_sync(topic) == {1}, "one replica in sync")
        lost = produce_raw(servers, topic, [record_of(topic_acl(f"lost-{number}")) for number in range(5)])
        wait_until(lambda: may(node.authorizer, "lost-4"), "what one replica has")
        wait_until(lambda: any(store.rglob(f"{lost:020d}-*/manifest.json")), "a snapshot of it")
        cluster.kill(1)
        cluster.start(2)
        wait_until(lambda: cluster.leader(topic) == 2, "an unclean leader")
        produce_raw(servers, topic, [record_of(topic_acl(f"new-{number}")) for number in range(9)])
        expected = {"both", *(f"new-{number}" for number in range(9))}
        wait_until(
            lambda: node.status().ready and names(node.authorizer.acls(ANY_ACL)) == expected,
            "the new history",
        )
        with running_node(url, log_mode="read", snapshot_store=store) as later:
            assert names(later.authorizer.acls(ANY_ACL)) == expected
            assert later.status().digest == node.status().digest
        cluster.start(1)
        wait_until(lambda: cluster.in_sync(topic) == {1, 2}, "both replicas in sync")
        wait_until(lambda: node.status().ready, "ready")
        assert names(node.authorizer.acls(ANY_ACL)) == expected


@pytest.mark.long
def test_a_write_after_an_unclean_election_does_not_rely_on_lost_acls(
    cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the loader has not looked the write waits; what it was to be based on is gone then (I11)."""
    servers, topic = cluster.bootstrap_servers, unique_topic("unnoticed")
    config = {
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
    }
    cluster.create_topic(topic, [1, 2], config)
    with running_node(f"kafka://{servers}/{topic}") as node:
        create(node, [topic_acl("both")])
        cluster.stop(2)
        wait_until(lambda: cluster.in_sync(topic) == {1}, "one replica in sync")
        for number in range(5):
            create(node, [topic_acl(f"lost-{number}")])
        may_read, read = threading.Event(), node.log.read

        def read_later(offset: int) -> Sequence[LogBatch]:
            may_read.wait(SOON_S)
            return read(offset)

        monkeypatch.setattr(node.log, "read", read_later)
        cluster.kill(1)
        cluster.start(2)
        wait_until(lambda: cluster.leader(topic) == 2, "an unclean leader")
        wanted = ["lost-0", "new"]
        futures = [node.authorizer.create_acls(CONTEXT, [topic_acl(name)])[0] for name in wanted]
        time.sleep(1)  # the subject is time: nothing may happen during it
        assert not any(future.done() for future in futures)
        may_read.set()
        failures = [future.result(SOON_S).exception for future in futures]
        wait_until(lambda: is_ready(node), "the new history")
        # A producer that wrote to the old one is refused once by the new leader, and given up.
        wait_until(partial(is_created, node, "later"), "a write")
        found = names(node.authorizer.acls(ANY_ACL))
        assert {"both", "later"} <= found <= {"both", "later", *wanted}
        for name, topic_errors in zip(wanted, failures, strict=True):
            assert name in found or topic_errors is not None, "a success that is not there"
        cluster.start(1)
        wait_until(lambda: cluster.in_sync(topic) == {1, 2}, "both replicas in sync")


# --- nodes ------------------------------------------------------------------------------------------------


def killed_writer(url: str, seed: int, acknowledged: int) -> list[str]:
    """Run a writing node until it has acknowledged so much, kill -9 it; what it said."""
    process = subprocess.Popen(
        [sys.executable, str(TESTS / "support" / "node_writer.py"), url, "3", str(seed)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    lines: list[str] = []
    with process.stdout:
        for line in process.stdout:
            lines.append(line)
            if sum(line[0] in "+-" for line in lines) >= acknowledged:
                process.send_signal(signal.SIGKILL)
                break
        lines += list(process.stdout)
    assert process.wait(SOON_S) == -signal.SIGKILL
    return [line for line in lines if line.endswith("\n")]


@seeded(1)
def test_a_killed_writing_node_loses_no_acknowledged_write(broker: Broker, seed: int) -> None:
    """kill -9 in the middle of transactions, twice: acknowledged is there, half a write is not.

    What the killed node left open ends with its transaction's timeout; others read on then.
    """
    servers, topic = broker.bootstrap_servers, unique_topic("killed-writer")
    url = raw_topic(servers, topic)
    history = TopicHistory(servers, topic)
    checker = TopicChecker(history, [f"s{seed}-t{thread}-n0" for thread in range(3)])
    outcomes = WriteOutcomes()
    with running_node(url) as node:
        with checker.watching(node, "reader"):
            for writer_seed, acknowledged in ((seed, 25), (seed + 1, 60)):
                unsure: set[str] = set()
                for kind, name in map(str.split, killed_writer(url, writer_seed, acknowledged)):
                    if kind == "?":
                        unsure.add(name)
                        continue
                    unsure.discard(name)
                    (outcomes.present.add if kind == "+" else outcomes.present.discard)(name)
                outcomes.unknown |= unsure
                outcomes.present -= unsure
            # Behind all that was left open.
            create(node, [topic_acl("last")])
            outcomes.present.add("last")
        history.wait_for(node.status().end_offset)
        assert_acknowledged([outcomes], history, [node])
    checker.verify()
    history.close()


@contextmanager
def serving(url: str, store: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`aclog serve` with snapshots after every change, and its address; it may have ended by itself."""
    config = tmp_path / "node.properties"
    config.write_text(
        "super.users=User:ANONYMOUS\naclog.listeners=PLAINTEXT://127.0.0.1:0\naclog.logging.format=json\n"
        "aclog.snapshot.max.bytes=1\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "authorizer.cli", "serve", "--config", str(config),
         "--log", url, "--snapshots", str(store)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=TESTS.parent,
    )  # fmt: skip
    assert process.stderr is not None
    # The pipe must be read, or the process blocks on its log output.
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    try:
        for line in process.stderr:
            if line.startswith("{") and (event := json.loads(line)).get("event") == "listening":
                reader.start()
                yield process, event["urls"][0]
                break
        else:
            pytest.fail("aclog serve ended early")
    finally:
        process.kill()
        process.wait(SOON_S)
        reader.join(SOON_S)
        process.stderr.close()


def send(address: str, path: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data=data, headers={"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=SOON_S) as response:
        return json.load(response)


def serves(address: str) -> bool:
    return bool(send(address, "/v1/state")["ready"])


def half_written(store: Path, *, for_s: float) -> bool:
    """Look closely for a while: whether a snapshot has parts, and no manifest yet."""
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        for part in store.rglob("part-*"):
            if not (part.parent / "manifest.json").exists():
                return True
    return False


@pytest.mark.long
def test_a_node_killed_in_replay_or_snapshot_recovers(broker: Broker, tmp_path: Path) -> None:
    """kill -9 before it is ready, then in the middle of a snapshot; the next start has the log's state."""
    servers, topic = broker.bootstrap_servers, unique_topic("killed-node")
    url = raw_topic(servers, topic)
    store = tmp_path / "store"
    records = [record_of(topic_acl(f"t-{number}")) for number in range(30_000)]
    produce_raw(servers, topic, list(records))
    with serving(url, store, tmp_path) as (process, address):
        assert send(address, "/v1/state")["ready"] in (False, True)
        process.kill()
    assert not list(store.rglob("manifest.json"))

    with serving(url, store, tmp_path) as (process, address):
        wait_until(partial(serves, address), "ready")
        while not half_written(store, for_s=1):
            # Whatever it is, a snapshot is due.
            extra = record_of(topic_acl(f"t-{len(records)}"))
            records.append(extra)
            produce_raw(servers, topic, [extra])
        process.kill()
        process.wait(SOON_S)
    history = TopicHistory(servers, topic)
    for _ in range(2):
        with serving(url, store, tmp_path) as (_process, address):
            wait_until(partial(serves, address), "ready")
            state = send(address, "/v1/state")
            history.wait_for(state["offset"])
            ((_end, acls, digest),) = folds(dict(history.by_offset), [state["offset"]])
            assert (state["acl_count"], state["digest"]) == (len(acls), digest_to_string(digest))
            assert state["acl_count"] == len(records)
            answer = send(address, "/access/v1/evaluation", SUPER_USER_READS)
            assert (answer["decision"], answer["context"]["offset"]) == (True, state["offset"])
            wait_until(lambda: bool(list(store.rglob("manifest.json"))), "a snapshot")
    history.close()
