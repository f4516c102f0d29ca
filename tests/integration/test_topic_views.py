"""Queries of many topics of a real broker together: their requests, and topics that differ from others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from records.errors import LogError, LogMissingError
from records.log.base import LogView
from records.log.shared_clients import SharedClients
from records.log.topic import TopicLog
from records.log.views import confirmed_histories, connect_logs, view_logs
from snapshot.delta import AclsDelta
from snapshot.errors import LogsFailedError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.planning.log_states import LogStates, choose_starts, freshen_states
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.logs import FollowedLog, TopicsPattern
from snapshot.store.snapshot_store import SnapshotStore
from support.kafka_broker import Broker
from support.kafka_cluster import KafkaCluster
from support.node_acls import topic_acl
from support.topic_checker import CODEC
from support.topic_nodes import admin, key_of, produce_raw, raw_topic, record_of, unique_topic
from support.topic_operator import create_again, delete_records, delete_topic, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

#: librdkafka's debug line of each request, by any client.
SENT = re.compile(r"\bSent (\w+)Request \(")
PROTOCOL_LINES = {"debug": "protocol", "log_level": "7"}
#: The client checks each partition by a request.
FOR_EACH_TOPIC = "OffsetForLeaderEpoch"
#: Of connections and consumers, by time.
VARYING = {"ApiVersion", "Metadata", "Fetch", "FindCoordinator"}


def opened(on_exit: ExitStack, urls: Sequence[str], client: dict[str, str] | None = None) -> list[TopicLog]:
    """Logs with shared clients, not connected."""
    shared = SharedClients()
    logs = [TopicLog.open(url, client=client, lazily=True, shared=shared) for url in urls]
    for log in logs:
        on_exit.callback(log.close)
    return logs


def topics(broker: Broker, count: int, *names: str) -> list[str]:
    """URLs of topics with a record and a marker of each name."""
    prefix = unique_topic("views")
    urls = [raw_topic(broker.bootstrap_servers, f"{prefix}-{number}") for number in range(count)]
    producer = transactional(broker, prefix)
    for name in names:
        record = record_of(topic_acl(name))
        producer.begin_transaction()
        for number in range(count):
            producer.produce(f"{prefix}-{number}", key=key_of(record), value=CODEC.encode(record))
        producer.commit_transaction()

    def ends(logs: Sequence[TopicLog]) -> set[int]:
        return {view.high_watermark for view in view_logs(logs) if isinstance(view, LogView)}

    with ExitStack() as on_exit:
        logs = opened(on_exit, urls)
        wait_until(lambda: ends(logs) == {2 * len(names)}, "the markers")
    return urls


def confirmed(logs: Sequence[TopicLog], states: Sequence[Provenance]) -> list[bool]:
    views = view_logs(logs)
    assert all(isinstance(view, LogView) for view in views), views
    return confirmed_histories(
        [(log, view, state) for log, view, state in zip(logs, views, states, strict=True)]  # type: ignore[misc]
    )


def stored(log: FollowedLog, store: SnapshotStore, provenance: Provenance, *, log_end_time_ms: int) -> None:
    image = AclsDelta(AclsImage.EMPTY).apply(provenance)
    store.write(image, log.identity, log_end_time_ms=log_end_time_ms, keep=9)


def test_requests_do_not_grow_with_the_number_of_topics(
    broker: Broker, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the names of the topics to a job's first offsets, and a minute later for idle logs."""
    sent: dict[int, Counter[str]] = {}
    for count in (2, 12):
        urls, now_ms = topics(broker, count, "a"), 1_000_000_000
        store = SnapshotStore(f"{tmp_path}/{count}")
        capfd.readouterr()
        logs = resolve_logs_of_fleet(urls, PROTOCOL_LINES)
        for log in logs:
            stored(log, store, Provenance(2, 0, 0, 1), log_end_time_ms=now_ms)
        states = {
            log.identity.cluster_id: LogStates(log, store, lambda: now_ms + 60_000)  # noqa: B023
            for log in logs
        }
        starts = choose_starts(states, LogFailures(is_collecting=False), keep=3)
        assert set(starts.values()) == {2}
        freshen_states(list(states.values()))
        for log in logs:
            newest = store.newest_complete(log.identity)
            assert newest is not None
            assert newest.log_end_time_ms == now_ms + 60_000
        for each in states.values():
            each.close()
        sent[count] = Counter(SENT.findall(capfd.readouterr().err))
    few, many = sent[2], sent[12]
    assert (few.pop(FOR_EACH_TOPIC), many.pop(FOR_EACH_TOPIC)) == (2 * 2, 12 * 2)
    assert few["ListOffsets"] == 6
    assert few["DescribeConfigs"] == 2
    assert {name: few[name] for name in few.keys() - VARYING} == {
        name: many[name] for name in many.keys() - VARYING
    }
    assert sum(many.values()) <= sum(few.values()) + 12, (few, many)


def resolve_logs_of_fleet(urls: Sequence[str], client: dict[str, str]) -> list[FollowedLog]:
    """As a pattern with a group finds them: the cluster id is a part of the name."""
    pattern = urls[0].rpartition("/")[2].rpartition("-")[0]
    found = TopicsPattern(urls[0].split("/")[2], f"{pattern}-(.+)", client)
    return found.resolve(found.names(), LogFailures(is_collecting=False))


def test_a_deleted_and_a_replaced_topic_are_reported_alone(broker: Broker, tmp_path: Path) -> None:
    urls = topics(broker, 5, "a")
    logs = resolve_logs_of_fleet(urls, {})
    store = SnapshotStore(str(tmp_path))
    states = {log.identity.cluster_id: LogStates(log, store) for log in logs}
    deleted, replaced = (urls[number].rpartition("/")[2] for number in (1, 3))
    delete_topic(admin(broker.bootstrap_servers), deleted)
    create_again(broker, replaced)
    failures = LogFailures(is_collecting=True)
    with pytest.raises(LogsFailedError):
        choose_starts(states, failures, keep=3)
    assert sorted(failures.by_cluster) == ["1", "3"]
    assert f"there is no topic `{deleted}`" in failures.by_cluster["1"]
    assert "was deleted and created again: the job follows topic id" in failures.by_cluster["3"]
    with ExitStack() as on_exit:
        views = view_logs(opened(on_exit, urls))
    assert [type(view) for view in views] == [LogView, LogMissingError, LogView, LogView, LogView]
    for each in states.values():
        each.close()


def test_a_view_has_the_answers_of_the_log(broker: Broker) -> None:
    """Also with records of an open transaction, and without the first records."""
    urls = topics(broker, 3, "a", "b")
    name = urls[1].rpartition("/")[2]
    producer = transactional(broker, name)
    producer.begin_transaction()
    producer.produce(name, key=b"k", value=b"open")
    producer.flush()
    delete_records(broker, urls[2].rpartition("/")[2], 2)
    with ExitStack() as on_exit:
        logs = opened(on_exit, urls)
        assert connect_logs(logs) == [None] * 3
        views = view_logs(logs)
        for log, view in zip(logs, views, strict=True):
            assert isinstance(view, LogView)
            assert view.identity == log.identity
            assert view.start_offset == log.start_offset()
            assert view.high_watermark == log.high_watermark()
            assert view.log_end_offset == log.log_end_offset()
    assert [(view.start_offset, view.high_watermark, view.log_end_offset) for view in views] == [  # type: ignore[union-attr]
        (0, 4, 4),
        (0, 4, 5),
        (2, 4, 4),
    ]
    producer.abort_transaction()


def test_a_topic_that_cannot_be_a_log_has_its_error(broker: Broker) -> None:
    (good,) = topics(broker, 1, "a")
    bad = raw_topic(broker.bootstrap_servers, unique_topic("deleting"), {"cleanup.policy": "delete"})
    with ExitStack() as on_exit:
        first, second = connect_logs(opened(on_exit, [good, bad]))
    assert first is None
    assert isinstance(second, LogError)
    assert "cleanup.policy is `delete`" in str(second)


def test_only_histories_that_the_log_confirms_are_confirmed(broker: Broker) -> None:
    """As ``is_history`` of each log; where it has doubts, too, it answers itself."""
    states = [
        Provenance(4, 0, 0, 1),  # the log's end: a, marker, b, marker
        Provenance(2, 0, 0, 1),
        Provenance(2, 0, 0, 0),
        Provenance(1, 0, 0, 0),
        Provenance(4, 0, 0, 2),  # b is in its tail
        Provenance(4, 3, 0, 1),  # an epoch that the log does not have
        Provenance(2, 3, 0, 0),
        Provenance(2, 3, 0, 2),  # no record, so there is no epoch
        Provenance(3, 7, 0, 0),
    ]
    urls = topics(broker, len(states), "a", "b")
    with ExitStack() as on_exit:
        logs = opened(on_exit, urls)
        found = confirmed(logs, states)
        alone = [
            log.is_history(state.end_offset, state.epoch, empty_tail=state.empty_tail)
            for log, state in zip(logs, states, strict=True)
        ]
    assert alone == [True, True, True, True, False, False, False, False, False]
    assert found == alone


@pytest.mark.long
def test_unclean_election_is_found_among_many_topics(cluster: KafkaCluster) -> None:
    """The offsets of the states are in the new history, too."""
    servers = cluster.bootstrap_servers
    names = [unique_topic("unclean-view") for _ in range(4)]
    config = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
    for name in names:
        unclean = {"unclean.leader.election.enable": "true"} if name in names[:2] else {}
        cluster.create_topic(name, [1, 2], config | unclean)
    for name in names:
        produce_raw(servers, name, [record_of(topic_acl("both"))])
    cluster.stop(2)
    for name in names:
        wait_until(lambda name=name: cluster.in_sync(name) == {1}, "one replica in sync")  # type: ignore[misc]
    (lost,) = {produce_raw(servers, name, [record_of(topic_acl("lost"))]) for name in names[:2]}
    with TopicLog.open(f"kafka://{servers}/{names[0]}") as log:
        batch = log.read(0)[-1]
        assert (batch.end_offset, lost) == (2, 2)
        state = Provenance(lost, batch.epoch, 0)
    cluster.kill(1)
    cluster.start(2)
    for name in names[:2]:
        wait_until(lambda name=name: cluster.leader(name) == 2, "an unclean leader")  # type: ignore[misc]
        produce_raw(servers, name, [record_of(topic_acl(f"new-{number}")) for number in range(3)])
    with ExitStack() as on_exit:
        urls = [f"kafka://{servers}/{name}" for name in names]
        logs = opened(on_exit, urls)
        # The others have no leader now.
        assert [isinstance(view, LogView) for view in view_logs(logs)] == [True, True, False, False]
        cluster.start(1)
        cluster.wait_for_brokers()
        for name in names:
            wait_until(lambda name=name: cluster.in_sync(name) == {1, 2}, "both replicas in sync")  # type: ignore[misc]
        states = [state, state, Provenance(1, 0, 0), Provenance(1, 0, 0)]
        assert confirmed(logs, states) == [False, False, True, True]
        assert logs[0].is_history(state.end_offset, state.epoch) is False
        assert logs[2].is_history(1, 0) is True
