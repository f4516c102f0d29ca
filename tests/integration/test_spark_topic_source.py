"""Spark's Kafka connector on a real broker: what is a row, what is refused, what Spark does not notice."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession

from records.errors import LogError
from records.ids import uuid_to_string
from records.log.topic import create_topic
from snapshot.errors import CheckpointForeignError
from snapshot.jobs.sources.logs import FollowedLog, bind_checkpoint, resolve_logs
from snapshot.jobs.sources.schema import SOURCE
from snapshot.jobs.sources.topic_source import read_topic, read_topics_stream
from support.kafka_broker import Broker, running_jvm
from support.nodes import SOON_S
from support.topic_logs import ONE_BROKER
from support.topic_nodes import pattern_logs, produce, raw_topic, unique_topic
from support.topic_operator import create_again, delete_records, transactional
from support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.slow]

PASSWORD = 'a "quoted" \\ one; and more'


@dataclass
class Batches:
    """What the batches of a query held: rows in the order in which they came."""

    rows: list[list[Row]] = field(default_factory=list)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        self.rows.append(batch.collect())

    @property
    def offsets(self) -> list[list[int]]:
        return [[row["offset"] for row in rows] for rows in self.rows]


def follow(spark: SparkSession, logs: list[FollowedLog], checkpoint: Path, **more: int) -> Batches:
    """Run a query over what there is, from its checkpoint on; raises what ends it."""
    rows = read_topics_stream(
        spark,
        logs,
        starting_offsets={str(log.topic): 0 for log in logs},
        kafka_options={},
        **more,
    )
    batches = Batches()
    query = (
        rows.writeStream.foreachBatch(batches)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return batches


def plain(broker: Broker) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})


def some(broker: Broker, topic: str, *values: str) -> None:
    produce(plain(broker), topic, [(value.encode(), value.encode()) for value in values])


def settled(log: FollowedLog, end: int) -> None:
    """A transaction's marker is written some time after its commit or abort was acknowledged."""
    with closing(log.open()) as opened:
        wait_until(lambda: opened.high_watermark() == end, f"a log that ends at {end}")


def values_of(rows: list[Row]) -> list[str]:
    return [bytes(row["value"]).decode() for row in rows]


@pytest.fixture
def topic(broker: Broker) -> str:
    name = unique_topic("spark")
    raw_topic(broker.bootstrap_servers, name)
    return name


@pytest.fixture
def log(broker: Broker, topic: str) -> FollowedLog:
    (found,) = resolve_logs([f"kafka://{broker.bootstrap_servers}/{topic}"])
    return found


def test_rows_are_the_committed_records(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Not what was aborted, and no markers, also where the log ends with one; a restart adds nothing."""
    producer = transactional(broker, "spark")
    for value, is_kept in (("kept", True), ("dropped", False), ("last", True)):
        producer.begin_transaction()
        produce(producer, topic, [(b"key", value.encode())])
        (producer.commit_transaction if is_kept else producer.abort_transaction)(SOON_S)
    settled(log, 6)
    some(broker, topic, "plain")
    produce(plain(broker), topic, [(b"key", None)])
    producer.begin_transaction()
    produce(producer, topic, [(b"key", b"dropped too")])
    producer.abort_transaction(SOON_S)
    settled(log, 10)
    with_markers = follow(spark, [log], tmp_path)
    assert with_markers.offsets == [[0, 4, 6, 7]]
    (rows,) = with_markers.rows
    assert [row["value"] and bytes(row["value"]) for row in rows] == [b"kept", b"last", b"plain", None]
    assert [bytes(row["key"]) for row in rows] == [b"key", b"key", b"plain", b"key"]
    assert {(row["cluster_id"], row["topic_id"], row["partition"]) for row in rows} == {
        (log.identity.cluster_id, uuid_to_string(log.identity.topic_id), 0)
    }
    assert follow(spark, [log], tmp_path).rows == []
    some(broker, topic, "more")
    assert follow(spark, [log], tmp_path).offsets == [[10]]
    batch = read_topic(spark, log, 0, 10, {})
    assert batch.schema.simpleString() == spark.createDataFrame([], SOURCE).schema.simpleString()
    assert batch.collect() == rows
    assert [row["offset"] for row in read_topic(spark, log, 5, 7, {}).collect()] == [6]


@pytest.mark.long
def test_an_open_transaction_delays_rows(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Nothing beyond the last stable offset is planned; all comes once it has ended."""
    some(broker, topic, "before")
    producer = transactional(broker, "spark-open")
    producer.begin_transaction()
    produce(producer, topic, [(b"key", b"open")])
    some(broker, topic, "behind")
    assert follow(spark, [log], tmp_path).offsets == [[0]]
    assert follow(spark, [log], tmp_path).rows == []
    producer.commit_transaction(SOON_S)
    settled(log, 4)
    assert follow(spark, [log], tmp_path).offsets == [[1, 2]]


@pytest.mark.long
def test_a_batch_has_at_most_the_maximum_of_offsets(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Offsets, not rows: batches over markers only are empty, and still batches."""
    producer = transactional(broker, "spark-limit")
    for value in ("a", "b"):
        producer.begin_transaction()
        produce(producer, topic, [(b"key", value.encode())])
        producer.commit_transaction(SOON_S)
    settled(log, 4)
    assert follow(spark, [log], tmp_path, max_offsets=1).offsets == [[0], [], [2], []]


@pytest.mark.long
def test_topic_names_distinguish_the_clusters_of_a_fleet(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Rows have the cluster id of their topic's name and that topic's id; so has a topic that joins."""
    prefix = unique_topic("fleet")
    pattern = f"{prefix}-(.+)"
    for cluster in ("east", "west"):
        raw_topic(broker.bootstrap_servers, f"{prefix}-{cluster}")
        some(broker, f"{prefix}-{cluster}", f"{cluster}-0", f"{cluster}-1")
    raw_topic(broker.bootstrap_servers, f"other-{prefix}-north")

    def fleet() -> list[FollowedLog]:
        return pattern_logs(broker.bootstrap_servers, pattern)

    logs = fleet()
    topic_ids = {log.identity.cluster_id: uuid_to_string(log.identity.topic_id) for log in logs}
    assert sorted(topic_ids) == ["east", "west"]
    bind_checkpoint(str(tmp_path), logs)
    (rows,) = follow(spark, logs, tmp_path).rows
    assert sorted((row["cluster_id"], row["topic_id"], row["offset"], *values_of([row])) for row in rows) == [
        (cluster, topic_ids[cluster], offset, f"{cluster}-{offset}")
        for cluster in ("east", "west")
        for offset in (0, 1)
    ]
    for log in logs:
        log.open().close()
    raw_topic(broker.bootstrap_servers, f"{prefix}-south")
    some(broker, f"{prefix}-south", "south-0")
    logs = fleet()
    bind_checkpoint(str(tmp_path), logs)
    (rows,) = follow(spark, logs, tmp_path).rows
    assert [(row["cluster_id"], *values_of([row])) for row in rows] == [("south", "south-0")]


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


@pytest.mark.long
def test_a_recreated_topic_is_refused_although_spark_continues(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Spark follows a name: it takes the new topic's records for the old one's. The ids tell."""
    bind_checkpoint(str(tmp_path), [log])
    some(broker, topic, "old-0", "old-1")
    assert follow(spark, [log], tmp_path).offsets == [[0, 1]]
    create_again(broker, topic)
    some(broker, topic, "new-0", "new-1", "new-2")
    (again,) = resolve_logs([log.url])
    with pytest.raises(CheckpointForeignError) as refused:
        bind_checkpoint(str(tmp_path), [again])
    for each in (log, again):
        assert uuid_to_string(each.identity.topic_id) in str(refused.value)
    (rows,) = follow(spark, [log], tmp_path).rows
    assert values_of(rows) == ["new-2"]


@pytest.mark.long
def test_a_shorter_recreated_topic_fails_the_query(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Its end is below the checkpoint: Spark notices that much."""
    some(broker, topic, "old-0", "old-1")
    follow(spark, [log], tmp_path)
    create_again(broker, topic)
    some(broker, topic, "new-0")
    with pytest.raises(StreamingQueryException, match=r"offset was changed from 2 to 1"):
        follow(spark, [log], tmp_path)


@pytest.mark.long
def test_a_task_does_not_create_a_deleted_topic(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog
) -> None:
    """A broker creates topics that are asked for, unless the client says no; it would not be compacted."""
    some(broker, topic, "a", "b")
    # Planned: its tasks have their offsets. Counted in the JVM, so that no worker has to start first.
    rows = read_topic(spark, log, 0, 2, {})._jdf.queryExecution().toRdd()
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    client.delete_topics([topic])[topic].result()

    def count() -> None:
        spark.sparkContext.setJobGroup(topic, "reads a topic that is gone", interruptOnCancel=True)
        rows.count()

    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count)
        try:
            until_s = time.monotonic() + 5
            while time.monotonic() < until_s:
                assert topic not in client.list_topics(timeout=SOON_S).topics
                time.sleep(0.2)  # the subject is time: no topic may appear within five seconds
        finally:
            spark.sparkContext.cancelJobGroup(topic)
        assert type(counting.exception()).__name__ == "Py4JJavaError"


@pytest.mark.long
def test_records_deleted_past_the_checkpoint_fail_the_query(
    spark: SparkSession, broker: Broker, topic: str, log: FollowedLog, tmp_path: Path
) -> None:
    """Nothing is skipped silently (failOnDataLoss)."""
    some(broker, topic, *"abc")
    follow(spark, [log], tmp_path)
    some(broker, topic, *"defg")
    delete_records(broker, topic, 5)
    with pytest.raises(StreamingQueryException, match=r"(?i)data may have been lost|data loss|out of range"):
        follow(spark, [log], tmp_path)


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_a_nodes_client_settings_reach_a_secured_cluster(spark: SparkSession, tmp_path: Path) -> None:
    """SASL over TLS: one configuration for librdkafka and for Spark, with a password full of quotes."""
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
        produce(Producer({**guarded}), name, [(b"key", b"value")])
        (log,) = resolve_logs([url], kafka=client)
        rows = read_topic(spark, log, 0, 1, {})
        assert values_of(rows.collect()) == ["value"]
        assert PASSWORD not in rows._jdf.queryExecution().toString()


def answers(client: AdminClient, why_ended: Callable[[], str | None]) -> bool:
    assert why_ended() is None, why_ended()
    try:
        return bool(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return False
