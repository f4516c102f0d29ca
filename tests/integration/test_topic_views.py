"""Queries of many topics of a real broker together: their requests, and topics that differ from others."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from records.errors import LogError, LogMissingError
from records.log.base import LogView
from records.log.protocol.connection import Connection
from records.log.protocol.leader_epochs import LeaderEpochs
from records.log.protocol.responses import ResponseDecoder
from records.log.protocol.settings import settings_beside_client
from records.log.shared_clients import SharedClients
from records.log.topic import TopicLog
from records.log.topic.reader import TopicReader
from records.log.url import TOPIC_FORM, parse_bootstrap_servers, parse_topic_url
from records.log.views import connect_logs, known_histories, view_logs
from snapshot.delta import AclsDelta
from snapshot.errors import LogsFailedError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.planning.log_states import LogStates, choose_starts, freshen_states
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.jobs.sources.logs import FollowedLog, TopicsPattern
from snapshot.store.snapshot_store import SnapshotStore
from support.kafka_broker import Broker
from support.node_acls import topic_acl
from support.topic_checker import CODEC
from support.topic_nodes import admin, key_of, raw_topic, record_of, unique_topic
from support.topic_operator import create_again, delete_records, delete_topic, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.xdist_group("broker")]

#: librdkafka's debug line of each request, by any client.
SENT = re.compile(r"\bSent (\w+)Request \(")
PROTOCOL_LINES = {"debug": "protocol", "log_level": "7"}
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
        states = {
            log.identity.cluster_id: LogStates(log, store, lambda: now_ms + 60_000)  # noqa: B023
            for log in logs
        }
        starts = choose_starts(states, LogFailures(is_collecting=False), keep=3)
        assert set(starts.values()) == {0}
        freshen_states(list(states.values()))
        for each in states.values():
            each.close()
        sent[count] = Counter(SENT.findall(capfd.readouterr().err))
    few, many = sent[2], sent[12]
    assert few["ListOffsets"] == 6
    assert few["DescribeConfigs"] == 1
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


def connected(on_exit: ExitStack, urls: Sequence[str]) -> list[TopicLog]:
    logs = opened(on_exit, urls)
    assert connect_logs(logs) == [None] * len(logs)
    return logs


def test_histories_are_known_by_requests_to_each_leader(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I11: never that of an epoch that the log does not have there, nor of another topic."""
    urls = topics(broker, 5, "a")
    sent, send = list[str](), Connection.send

    def counted(connection: Connection, request: Any, decoder: ResponseDecoder[Any], **given: Any) -> Any:
        sent.append(decoder.name)
        return send(connection, request, decoder, **given)

    def known(logs: Sequence[TopicLog], *end: int) -> list[bool]:
        return known_histories(logs, [Provenance(*end)] * len(logs))

    with ExitStack() as on_exit:
        logs = connected(on_exit, urls)
        monkeypatch.setattr(Connection, "send", counted)
        assert known(logs, 2, 0, 0, 1) == known(logs, 1, 0, 0) == [True] * 5
        assert Counter(sent) == {"ApiVersions": 4, "Metadata": 2, "OffsetForLeaderEpoch": 4}
        assert known(logs, 2, 3, 0, 1) == known(logs, 3, 0, 0, 2) == known(logs, 2, 0, 0, 2) == [False] * 5
        delete_topic(admin(broker.bootstrap_servers), logs[1].topic)
        create_again(broker, logs[3].topic)
        assert known(logs, 2, 0, 0, 1) == [True, False, True, False, True]


def test_a_broker_with_another_leader_epoch_gives_no_answer(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata, or the client's, are old: either may know another history."""
    (url,) = topics(broker, 1, "a")
    topic = parse_topic_url(url).topic
    servers = parse_bootstrap_servers(url, broker.bootstrap_servers, TOPIC_FORM)
    epochs, leaders = LeaderEpochs(url, servers, settings_beside_client({})), LeaderEpochs._leaders
    assert epochs.ranges({topic: 0})[topic][1:] == (0, -1, 2)
    monkeypatch.setattr(
        LeaderEpochs, "_leaders", lambda *given: [each._replace(epoch=7) for each in leaders(*given)]
    )
    assert epochs.ranges({topic: 0}) == {}


def test_states_of_a_fleet_are_checked_without_a_consumer_for_each_log(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a log whose history is not known by that is checked by its own reader, as one of a wrong epoch."""
    store = SnapshotStore(str(tmp_path))
    logs = resolve_logs_of_fleet(topics(broker, 3, "a"), {})
    for log, epoch in zip(logs, (0, 9, 0), strict=True):
        image = AclsDelta(AclsImage.EMPTY).apply(Provenance(2, epoch, 0, 1))
        store.write(image, log.identity, log_end_time_ms=time.time_ns() // 1_000_000, keep=9)
    checked, is_history = list[int](), TopicReader.is_history

    def counted(reader: TopicReader, end_offset: int, epoch: int, empty_tail: int) -> bool:
        checked.append(epoch)
        return is_history(reader, end_offset, epoch, empty_tail)

    monkeypatch.setattr(TopicReader, "is_history", counted)
    states = {log.identity.cluster_id: LogStates(log, store) for log in logs}
    assert choose_starts(states, LogFailures(is_collecting=False), keep=3) == {"0": 2, "1": 0, "2": 2}
    assert checked == [9]
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
        logs = connected(on_exit, urls)
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
