"""Ranges of topics on a real broker: how the jobs plan and read them, and what fails.

Spark itself is left out: the test calls its source as Spark does, and reads as a task does.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadLimit

from records.entries import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from records.errors import AclogError, LogError, LogNotFoundError
from records.ids import uuid_to_string
from records.log.base import MetadataLog
from records.log.topic import TopicLog, create_topic, range_reader
from records.log.views import known_histories
from records.log_batch import LogRecord
from snapshot.errors import CheckpointForeignError, SparkJobError
from snapshot.image import Provenance
from snapshot.jobs.sources.log_range import LogRange, read_ranges, settings_without_files
from snapshot.jobs.sources.logs import FollowedLog, bind_checkpoint, resolve_logs
from snapshot.jobs.sources.range_source import RangeStreamReader, options_of
from support.column_logs import frame_of
from support.kafka_broker import Broker, running_jvm
from support.nodes import SOON_S
from support.snapshots import acl
from support.topic_logs import ONE_BROKER
from support.topic_nodes import pattern_logs, produce, raw_topic, unique_topic
from support.topic_operator import create_again, delete_records, delete_topic, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PASSWORD = 'a "quoted" \\ one; and more'


class Query:
    """The batches that Spark plans with a checkpoint, and that tasks read."""

    def __init__(self, logs: Sequence[FollowedLog], max_offsets: int | None = None) -> None:
        self._logs, self._max_offsets = logs, max_offsets
        self._checkpoint: dict[str, Any] | None = None

    def run(self) -> list[dict[str, list[LogRecord]]]:
        """Each batch of all that there is now: the records by cluster id."""
        with source(self._logs, self._max_offsets) as reader:
            if self._checkpoint is None:
                self._checkpoint = reader.initialOffset()
            reader.prepareForTriggerAvailableNow()
            batches: list[dict[str, list[LogRecord]]] = []
            while True:
                end = json.loads(json.dumps(reader.latestOffset(self._checkpoint, limit_of(reader))))
                if end == self._checkpoint:
                    return batches
                (partition,) = reader.partitions(self._checkpoint, end)
                found = {name: (first, last) for name, first, last in reader.read(partition)}
                batches.append(read(self._logs, found))
                self._checkpoint = end

    def offsets(self) -> list[list[int]]:
        """The same of a single log, by their offsets."""
        return [
            [logged.offset for (records,) in [batch.values()] for logged in records] for batch in self.run()
        ]


@contextmanager
def source(logs: Sequence[FollowedLog], max_offsets: int | None = None) -> Iterator[RangeStreamReader]:
    options = options_of(logs, {log.identity.cluster_id: 0 for log in logs})
    if max_offsets is not None:
        options["maxOffsetsPerTrigger"] = str(max_offsets)
    reader = RangeStreamReader(options)
    try:
        yield reader
    finally:
        reader.stop()


def limit_of(reader: RangeStreamReader) -> ReadLimit:
    return reader.getDefaultReadLimit()


def read(logs: Sequence[FollowedLog], ranges: dict[str, tuple[int, int]]) -> dict[str, list[LogRecord]]:
    """The records of ranges, as one task reads them, by cluster id."""
    by_cluster = {log.identity.cluster_id: log for log in logs}
    wanted = [
        LogRange(
            url=by_cluster[name].url,
            identity=by_cluster[name].identity,
            client=settings_without_files(by_cluster[name].kafka),
            start=start,
            end=end,
            end_epoch=None,
        )
        for name, (start, end) in ranges.items()
    ]
    return {
        cluster_id: [logged for batch in batches for logged in batch.records]
        for cluster_id, batches in read_ranges(wanted)
    }


def read_one(log: FollowedLog, start: int, end: int) -> list[LogRecord]:
    return read([log], {log.identity.cluster_id: (start, end)})[log.identity.cluster_id]


def plain(broker: Broker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def message(number: int) -> tuple[bytes, bytes]:
    """Key and value of an addition."""
    return bytes(acl(number).id), frame_of(acl(number))


def some(broker: Broker, topic: str, *numbers: int) -> None:
    produce(plain(broker), topic, [message(number) for number in numbers])


def settled(log: FollowedLog, end: int) -> None:
    """A transaction's marker is written some time after its commit or abort was acknowledged."""
    with closing(log.open()) as opened:
        wait_until(lambda: opened.high_watermark() == end, f"a log that ends at {end}")


def has_no_transaction(log: MetadataLog) -> bool:
    return log.open_transaction() is None


def numbers_of(records: Sequence[LogRecord]) -> list[int]:
    found = []
    for logged in records:
        assert isinstance(logged.record, AccessControlEntryRecord)
        found.append(int(logged.record.resource_name.removeprefix("t-")))
    return found


@pytest.fixture
def topic(broker: Broker) -> str:
    name = unique_topic("ranges")
    raw_topic(broker.bootstrap_servers, name)
    return name


@pytest.fixture
def log(broker: Broker, topic: str) -> FollowedLog:
    (found,) = resolve_logs([f"kafka://{broker.bootstrap_servers}/{topic}"])
    return found


def test_the_committed_records_are_read(broker: Broker, topic: str, log: FollowedLog) -> None:
    """Not what was aborted, and no markers, also where the log ends with one; a restart adds nothing."""
    producer = transactional(broker, "ranges")
    for number, is_committed in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        produce(producer, topic, [message(number)])
        (producer.commit_transaction if is_committed else producer.abort_transaction)(SOON_S)
    settled(log, 6)
    some(broker, topic, 4)
    produce(plain(broker), topic, [(bytes(acl(4).id), None)])
    producer.begin_transaction()
    produce(producer, topic, [message(5)])
    producer.abort_transaction(SOON_S)
    settled(log, 10)
    query = Query([log])
    ((records,),) = [batch.values() for batch in query.run()]
    assert [logged.offset for logged in records] == [0, 4, 6, 7]
    assert numbers_of(records[:3]) == [1, 3, 4]
    assert records[3].record == RemoveAccessControlEntryRecord(acl(4).id)
    assert query.run() == []
    some(broker, topic, 6)
    assert query.offsets() == [[10]]
    assert [logged.offset for logged in read_one(log, 5, 7)] == [6]
    assert read_one(log, 8, 10) == []


def test_ranges_in_any_split_equal_the_whole(broker: Broker) -> None:
    """Of several topics with one consumer, in groups and alone, with markers and gaps at any place."""
    draw, prefix = random.Random(7), unique_topic("split")
    for name in "abc":
        raw_topic(broker.bootstrap_servers, f"{prefix}-{name}")
        producer, number = transactional(broker, f"split-{name}"), 0
        for _ in range(12):
            producer.begin_transaction()
            count = draw.randint(1, 5)
            produce(producer, f"{prefix}-{name}", [message(number + at) for at in range(count)])
            number += count
            is_aborted = draw.random() < 0.3
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(SOON_S)
    logs = pattern_logs(broker.bootstrap_servers, f"{prefix}-(.+)")
    ends = {}
    for log in logs:
        with closing(log.open()) as opened:
            wait_until(partial(has_no_transaction, opened), "the last marker")
            ends[log.identity.cluster_id] = opened.high_watermark()
    whole = read(logs, {name: (0, end) for name, end in ends.items()})
    assert sum(map(len, whole.values())) > 50
    for group_offsets in (1, 30, 10_000):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(range_reader, "GROUP_OFFSETS_MAX", group_offsets)
            cuts = {name: sorted(draw.sample(range(1, end), 3)) for name, end in ends.items()}
            found: dict[str, list[LogRecord]] = {name: [] for name in ends}
            for part in range(4):
                places = {name: (0, *cuts[name], end) for name, end in ends.items()}
                bounds = {name: (at[part], at[part + 1]) for name, at in places.items()}
                for name, records in read(logs, bounds).items():
                    assert all(bounds[name][0] <= each.offset < bounds[name][1] for each in records)
                    found[name] += records
            assert found == whole


@pytest.mark.long
def test_an_open_transaction_delays_records(broker: Broker, topic: str, log: FollowedLog) -> None:
    """Nothing beyond the last stable offset is planned; all comes once it has ended."""
    some(broker, topic, 0)
    producer = transactional(broker, "ranges-open")
    producer.begin_transaction()
    produce(producer, topic, [message(1)])
    some(broker, topic, 2)
    query = Query([log])
    assert query.offsets() == [[0]]
    assert query.offsets() == []
    producer.commit_transaction(SOON_S)
    settled(log, 4)
    assert query.offsets() == [[1, 2]]


def test_a_batch_has_at_most_the_maximum_of_offsets(broker: Broker, topic: str, log: FollowedLog) -> None:
    """Offsets, not records: a batch of markers only has none, and is a batch."""
    producer = transactional(broker, "ranges-limit")
    for number in range(2):
        producer.begin_transaction()
        produce(producer, topic, [message(number)])
        producer.commit_transaction(SOON_S)
    settled(log, 4)
    assert Query([log], 1).offsets() == [[0], [], [2], []]


def test_topic_names_distinguish_the_clusters_of_a_fleet(broker: Broker, tmp_path: Path) -> None:
    """A topic that joins begins at its start; the others continue."""
    prefix = unique_topic("fleet")
    pattern = f"{prefix}-(.+)"
    for number, cluster in enumerate(("east", "west")):
        raw_topic(broker.bootstrap_servers, f"{prefix}-{cluster}")
        some(broker, f"{prefix}-{cluster}", number, number + 10)
    raw_topic(broker.bootstrap_servers, f"other-{prefix}-north")
    logs = pattern_logs(broker.bootstrap_servers, pattern)
    assert sorted(log.identity.cluster_id for log in logs) == ["east", "west"]
    bind_checkpoint(str(tmp_path), logs)
    query = Query(logs)
    (batch,) = query.run()
    assert {name: numbers_of(records) for name, records in batch.items()} == {
        "east": [0, 10],
        "west": [1, 11],
    }
    raw_topic(broker.bootstrap_servers, f"{prefix}-south")
    some(broker, f"{prefix}-south", 7)
    query._logs = pattern_logs(broker.bootstrap_servers, pattern)
    bind_checkpoint(str(tmp_path), query._logs)
    (batch,) = query.run()
    assert {name: numbers_of(records) for name, records in batch.items()} == {"south": [7]}


def test_several_topics_need_a_group(broker: Broker) -> None:
    """Nothing else could tell whose they are; one alone belongs to the cluster that has it."""
    prefix = unique_topic("group")
    raw_topic(broker.bootstrap_servers, f"{prefix}-a")
    (log,) = pattern_logs(broker.bootstrap_servers, f"{prefix}-.+")
    with_url = resolve_logs([f"kafka://{broker.bootstrap_servers}/{prefix}-a"])
    assert [log] == with_url
    raw_topic(broker.bootstrap_servers, f"{prefix}-b")
    with pytest.raises(LogError, match=r"2 topics match .*-a, .*-b.*put the part of the name"):
        pattern_logs(broker.bootstrap_servers, f"{prefix}-.+")
    with pytest.raises(LogError, match=r"are both logs of cluster"):
        resolve_logs([f"kafka://{broker.bootstrap_servers}/{prefix}-{name}" for name in "ab"])
    with pytest.raises(LogError, match=r"the group of the topics pattern .* is empty in topic"):
        pattern_logs(broker.bootstrap_servers, f"{prefix}-.(.*)")
    with pytest.raises(LogError, match="no topic name matches"):
        pattern_logs(broker.bootstrap_servers, prefix)


def test_a_recreated_topic_is_refused(broker: Broker, topic: str, log: FollowedLog, tmp_path: Path) -> None:
    """By its id, at the start of a job and when it is opened; a shorter one fails the planning, too."""
    bind_checkpoint(str(tmp_path), [log])
    some(broker, topic, 0, 1)
    query = Query([log])
    assert query.offsets() == [[0, 1]]
    create_again(broker, topic)
    some(broker, topic, 2)
    (again,) = resolve_logs([log.url])
    with pytest.raises(CheckpointForeignError) as refused:
        bind_checkpoint(str(tmp_path), [again])
    for each in (log, again):
        assert uuid_to_string(each.identity.topic_id) in str(refused.value)
    with pytest.raises(
        SparkJobError, match="was truncated: it ends at offset 1, but the next one to read is 2"
    ):
        query.run()
    with pytest.raises(SparkJobError, match="was truncated: it ends at offset 1"):
        read_one(log, 0, 2)


def test_a_task_does_not_create_a_deleted_topic(broker: Broker, topic: str, log: FollowedLog) -> None:
    """A broker creates topics that are asked for, unless the client says no; it would not be compacted."""
    some(broker, topic, 0, 1)
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    delete_topic(client, topic)
    with pytest.raises(LogNotFoundError, match=f"there is no topic `{topic}`"):
        read_one(log, 0, 2)
    with pytest.raises(LogNotFoundError, match=f"there is no topic `{topic}`"):
        Query([log]).run()
    assert topic not in client.list_topics(timeout=SOON_S).topics


def test_records_deleted_past_the_checkpoint_fail_the_query(
    broker: Broker, topic: str, log: FollowedLog
) -> None:
    """Nothing is skipped silently, neither when it is planned nor when it is read."""
    some(broker, topic, 0, 1, 2)
    query = Query([log])
    query.run()
    some(broker, topic, 3, 4, 5, 6)
    delete_records(broker, topic, 5)
    trimmed = "was trimmed: it starts at offset 5, but the next one to read is 3"
    with pytest.raises(SparkJobError, match=trimmed):
        query.run()
    with pytest.raises(SparkJobError, match=trimmed):
        read_one(log, 3, 7)


def test_a_topic_that_fails_does_not_fail_the_other_ones_of_a_task(broker: Broker) -> None:
    prefix = unique_topic("fails")
    for name in ("bad", "deleted", "good", "trimmed"):
        raw_topic(broker.bootstrap_servers, f"{prefix}-{name}")
        some(broker, f"{prefix}-{name}", 0, 1)
    logs = pattern_logs(broker.bootstrap_servers, f"{prefix}-(.+)")
    produce(plain(broker), f"{prefix}-bad", [(b"key", b"what is this?")])
    delete_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), f"{prefix}-deleted")
    delete_records(broker, f"{prefix}-trimmed", 1)
    found: dict[str, object] = {}
    wanted = [
        LogRange(url=log.url, identity=log.identity, start=0, end=2 + ("bad" in log.url), end_epoch=None)
        for log in logs
    ]
    for name, batches in read_ranges(wanted):
        try:
            found[name] = [logged.offset for batch in batches for logged in batch.records]
        except AclogError as error:
            found[name] = str(error)
    assert found.pop("good") == [0, 1]
    assert "neither Avro nor a KRaft frame" in str(found["bad"])
    assert "there is no topic" in str(found["deleted"])
    assert "was trimmed: it starts at offset 1" in str(found["trimmed"])


@pytest.mark.long
def test_a_nodes_client_settings_reach_a_secured_cluster(tmp_path: Path) -> None:
    """SASL over TLS: one configuration for the driver and the tasks, with a password full of quotes."""
    store, certificate = tmp_path / "broker.p12", tmp_path / "broker.pem"
    keytool = ["keytool", "-keystore", str(store), "-storepass", "changeit", "-alias", "broker"]
    subprocess.run(
        [*keytool, "-genkeypair", "-keyalg", "RSA", "-storetype", "PKCS12", "-validity", "30",
         "-dname", "CN=aclog", "-ext", "SAN=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    subprocess.run(
        [*keytool, "-exportcert", "-rfc", "-file", str(certificate)], check=True, capture_output=True
    )
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    users = f'username="admin" password="admin" user_admin="admin" user_reader="{escaped}";'
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required " + users
        ).replace("\\", "\\\\"),
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": "changeit",
        "ssl.truststore.location": str(certificate),
        "ssl.truststore.type": "PEM",
        "super.users": "User:ANONYMOUS;User:admin;User:reader",
    }
    client = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "reader",
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(certificate),
    }
    with running_jvm(tmp_path / "kafka", settings) as (broker, why_ended):
        guarded = {**client, "bootstrap.servers": broker.bootstrap_servers, "log_level": "0"}
        asking = AdminClient({**guarded})
        wait_until(lambda: answers(asking, why_ended), "the broker")
        name = unique_topic("guarded")
        url = f"kafka://{broker.bootstrap_servers}/{name}"
        create_topic(url, client=client, settings=ONE_BROKER)
        produce(Producer({**guarded}), name, [message(3)])
        (log,) = resolve_logs([url], kafka=client)
        ((records,),) = [batch.values() for batch in Query([log]).run()]
        assert numbers_of(records) == [3]
        assert "ssl.ca.location" not in settings_without_files(client)
        with closing(TopicLog.open(url, client=client)) as topic:
            assert known_histories([topic], [Provenance(1, 0, 0)]) == [True]
            assert known_histories([topic], [Provenance(1, 1, 0)]) == [False]


def answers(client: AdminClient, why_ended: Callable[[], str | None]) -> bool:
    assert why_ended() is None, why_ended()
    try:
        return bool(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return False
