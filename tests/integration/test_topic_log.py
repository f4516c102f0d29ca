"""records.log.topic on a real broker: what one reader and one writer see."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from records.codecs.avro import encode
from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.errors import (
    DecodeError,
    EncodeError,
    LogError,
    LogMissingError,
    LogNotFoundError,
    LogOutcomeUnknownError,
    LogReadOnlyError,
    LogStorageError,
    OffsetOutOfRangeError,
)
from records.ids import uuid_to_string
from records.log.topic import TopicLog, TopicSettings, create_topic
from records.log.topic.transaction_assembler import HEADER
from records.log_batch import LogBatch
from replay.load_image import load_image
from support.kafka_broker import Broker
from support.nodes import SOON_S
from support.sim_scenario import acl_named
from support.topic_operator import delete_topic, set_policy
from support.waiting import wait_until

pytestmark = pytest.mark.integration

ONE = TopicSettings(replication_factor=1, min_insync_replicas=1)
A, B, C = acl_named("a"), acl_named("b"), acl_named("c")
REMOVE_A = RemoveAccessControlEntryRecord(A.id)


@pytest.fixture
def url(broker: Broker) -> str:
    return f"kafka://{broker.bootstrap_servers}/log-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def log(url: str) -> Iterator[TopicLog]:
    with TopicLog.open(url, mode="create", settings=ONE) as opened:
        yield opened


def admin(log: TopicLog) -> AdminClient:
    return AdminClient({"bootstrap.servers": log.bootstrap_servers})


@contextmanager
def raw_producer(log: TopicLog) -> Iterator[Producer]:
    """A transactional producer of another program."""
    producer = Producer(
        {
            "bootstrap.servers": log.bootstrap_servers,
            "transactional.id": str(uuid.uuid4()),
            "transaction.timeout.ms": 20_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SOON_S)
    yield producer


def send(
    producer: Producer,
    log: TopicLog,
    record: MetadataRecord | bytes,
    key: bytes | None,
    tag: str | None = None,
) -> None:
    value = record if isinstance(record, bytes) else encode(record)  # type: ignore[arg-type]
    headers: list[tuple[str, bytes]] = [] if tag is None else [(HEADER, tag.encode())]
    producer.produce(log.topic, key=key, value=value, headers=headers)  # type: ignore[arg-type]
    producer.flush(SOON_S)


def key_of(record: object) -> bytes:
    return uuid_to_string(record.id).encode()  # type: ignore[attr-defined]


def records_of(batches: Sequence[LogBatch]) -> list[object]:
    return [logged.record for batch in batches for logged in batch.records]


def read_until(log: TopicLog, offset: int, count: int) -> list[LogBatch]:
    """Read on until so many records were seen."""
    batches: list[LogBatch] = []
    deadline_s = time.monotonic() + SOON_S
    while len(records_of(batches)) < count and time.monotonic() < deadline_s:
        found = log.read(offset)
        if found:
            batches += found
            offset = found[-1].end_offset
        else:
            log.wait(offset, 0.5)
    return batches


def test_appended_records_are_read(log: TopicLog, url: str) -> None:
    """Operations in order, each complete; the position reaches the last stable offset, after the markers."""
    with TopicLog.open(url) as reader:
        assert (reader.start_offset(), reader.high_watermark(), list(reader.read(0))) == (0, 0, [])
        assert log.append([A, B]) == 2
        assert log.append([REMOVE_A]) == 5
        batches = read_until(reader, 0, 4)
        assert records_of(batches) == [A, B, REMOVE_A, REMOVE_A]
        deadline_s = time.monotonic() + SOON_S
        end = batches[-1].end_offset
        while end < 6 and time.monotonic() < deadline_s:
            end = max([end, *(batch.end_offset for batch in reader.read(end))])
        assert (end, reader.high_watermark()) == (6, 6)
        assert reader.identity == log.identity
        with pytest.raises(LogReadOnlyError):
            reader.append([A])
        with pytest.raises(OffsetOutOfRangeError):
            reader.read(7)
        assert len(load_image(reader).image) == 1


def test_a_wait_ends_with_an_append_and_with_close(log: TopicLog, url: str) -> None:
    """Long before its timeout."""
    reader = TopicLog.open(url)
    reader.read(0)
    began_s = time.monotonic()
    timer = threading.Timer(0.3, log.append, [[A]])
    timer.start()
    assert reader.wait(0, SOON_S)
    assert time.monotonic() - began_s < SOON_S / 2
    timer.join()
    end = read_until(reader, 0, 1)[-1].end_offset
    time.sleep(0.2)  # a control record may follow
    end = max([end, *(batch.end_offset for batch in reader.read(end))])
    timer = threading.Timer(0.3, reader.close)
    timer.start()
    assert not reader.wait(end, SOON_S)
    timer.join()
    assert time.monotonic() - began_s < SOON_S / 2
    with pytest.raises(LogError, match="closed"):
        reader.read(0)


def test_half_of_an_interleaved_transaction_is_not_seen(log: TopicLog) -> None:
    """I2: the other transaction is open, so only the first half of the committed one is stable."""
    with raw_producer(log) as first, raw_producer(log) as second:
        first.begin_transaction()
        second.begin_transaction()
        send(first, log, A, key_of(A), "1:0:2")
        send(second, log, B, key_of(B), "2:0:1")
        send(first, log, C, key_of(C), "1:1:2")
        first.commit_transaction(SOON_S)
        deadline_s = time.monotonic() + SOON_S
        while log.high_watermark() != 1:
            assert time.monotonic() < deadline_s
        assert list(log.read(0)) == []
        second.commit_transaction(SOON_S)
        (batch,) = read_until(log, 0, 3)
        assert records_of([batch]) == [A, B, C]


def test_aborted_and_open_transactions_are_not_seen(log: TopicLog) -> None:
    """I3: an open one holds up what is behind it."""
    with raw_producer(log) as other:
        other.begin_transaction()
        send(other, log, A, key_of(A))
        log.append([B])
        assert (log.high_watermark(), list(log.read(0))) == (0, [])
        other.abort_transaction(SOON_S)
        assert records_of(read_until(log, 0, 1)) == [B]


def test_an_undecodable_record_stops_the_reader(log: TopicLog) -> None:
    """I7: what is before it is read, then every read says the offset."""
    log.append([A])
    with raw_producer(log) as other:
        other.begin_transaction()
        send(other, log, b"nonsense", key_of(B))
        other.commit_transaction(SOON_S)
    (batch,) = read_until(log, 0, 1)
    assert batch.end_offset == 1
    deadline_s = time.monotonic() + SOON_S
    met: list[str] = []
    while len(met) < 2 and time.monotonic() < deadline_s:
        try:
            log.read(1)
        except DecodeError as error:
            met.append(str(error))
    assert len(met) == 2
    assert all("neither Avro nor" in text and "offset 2" in text for text in met)


def test_a_recreated_topic_is_another_log(log: TopicLog, url: str) -> None:
    """I9: the reader sees another identity; the writer refuses, as what it knows is of the other log."""
    before = log.identity
    log.append([A])
    assert records_of(read_until(log, 0, 1)) == [A]
    with TopicLog.open(url, mode="write") as writer:
        client = admin(log)
        client.delete_topics([log.topic])[log.topic].result()

        def is_deleted() -> bool:
            try:
                log.read(0)
            except LogNotFoundError:
                return True
            except (LogStorageError, OffsetOutOfRangeError):
                pass
            return False

        wait_until(is_deleted, "the deletion")
        assert create_topic(url, settings=ONE) != before
        time.sleep(1.1)  # a writer asks once a second which topic it is
        with pytest.raises(LogNotFoundError, match="nothing was written"):
            writer.append([B])

        def is_another() -> bool:
            log.read(0)
            return log.identity != before

        wait_until(is_another, "the new topic")
        log.append([C])
        assert records_of(read_until(log, 0, 1)) == [C]


def test_the_writer_does_not_create_a_deleted_topic(log: TopicLog) -> None:
    """A broker creates topics that are asked for, unless the client says no; it would not be compacted."""
    log.append([A])
    client = admin(log)
    delete_topic(client, log.topic)
    # The producer asks once a second (topic.metadata.refresh.interval.ms).
    until_s = time.monotonic() + 3
    while time.monotonic() < until_s:
        assert log.topic not in client.list_topics(timeout=SOON_S).topics
        time.sleep(0.2)  # the subject is time: nothing may create the topic
    with pytest.raises(LogNotFoundError, match="there is no topic"):
        log.read(0)


def test_a_recreated_topic_is_checked_again(broker: Broker, log: TopicLog) -> None:
    """One that a broker made by itself is not compacted; what is known of a topic is known of this one."""
    before = log.identity
    log.append([A])
    assert records_of(read_until(log, 0, 1)) == [A]
    client = admin(log)
    delete_topic(client, log.topic)
    made_again = NewTopic(log.topic, 1, 1, config={"delete.retention.ms": "60000"})
    client.create_topics([made_again])[log.topic].result()
    producer = Producer({"bootstrap.servers": log.bootstrap_servers, "log_level": 0})
    producer.produce(log.topic, key=uuid_to_string(B.id), value=encode(B))
    assert producer.flush(SOON_S) == 0
    for ask in (lambda: log.read(0), log.high_watermark):
        with pytest.raises(LogError, match=r"cleanup\.policy is `delete`"):
            ask()
    assert log.identity == before
    set_policy(broker, log.topic, "compact")

    def is_followed() -> bool:
        with suppress(LogError):
            log.read(0)
        return log.identity != before

    wait_until(is_followed, "the topic that is compacted now")
    assert records_of(read_until(log, 0, 1)) == [B]
    assert log.removal_retention_ms == 60_000


def test_a_writer_stops_after_it_finds_another_topic(log: TopicLog, url: str) -> None:
    """I9: what one append found out by writing, the next one knows, however soon it comes."""
    log.append([A])
    log.read(0)  # so the topic was just looked up, and the first append asks afterwards only
    delete_topic(admin(log), log.topic)
    create_topic(url, settings=ONE)
    with pytest.raises((LogOutcomeUnknownError, LogNotFoundError), match="was created in its place"):
        log.append([B])
    with pytest.raises(LogNotFoundError, match="nothing was written"):
        log.append([C])


def test_records_for_another_topic_are_not_written(log: TopicLog, url: str) -> None:
    """I9: a read that comes between an append's beginning and its write sees the new topic."""
    log.append([A])
    meant = log.identity
    delete_topic(admin(log), log.topic)
    create_topic(url, settings=ONE)
    wait_until(lambda: not log.read(0) and log.identity != meant, "the other topic")
    with pytest.raises(LogNotFoundError, match="nothing was written"):
        log._require(meant, "nothing was written")


@pytest.mark.slow
def test_an_append_to_a_deleted_topic_is_reported(log: TopicLog) -> None:
    """The client waits for it to come back, and says in the end only that a message timed out."""
    log.append([A])
    log.read(0)  # so the topic was just looked up, and the append does not ask
    client = admin(log)
    client.delete_topics([log.topic])[log.topic].result()
    with pytest.raises(LogNotFoundError, match="there is no topic"):
        log.append([B])


def test_epochs_identify_the_history(log: TopicLog) -> None:
    """I11: an epoch that this log never had, as after a truncation; nothing speaks against the start."""
    end = log.append([A])
    read_until(log, 0, 1)
    assert log.is_history(end, 0) is True
    assert log.is_history(end, 3) is False
    assert log.is_history(0, 3) is True


def test_the_tail_identifies_the_history(log: TopicLog) -> None:
    """Markers may be of later epochs, records may not: where one is now, it was another history."""
    log.append([A])
    end = log.append([B])  # A, marker, B, marker
    read_until(log, 0, 2)
    assert log.is_history(end + 1, 0, empty_tail=1) is True
    assert log.is_history(end + 1, 0, empty_tail=2) is False
    assert log.is_history(end + 1, 0, empty_tail=end + 1) is False
    assert log.is_history(2, 3, empty_tail=2) is False
    assert records_of(read_until(log, end - 1, 1)) == [B]


def test_only_a_topic_with_suitable_settings_is_opened(broker: Broker) -> None:
    """One partition, compacted; the error says what it has."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    name = f"bad-{uuid.uuid4().hex[:8]}"
    topics = [
        NewTopic(f"{name}-3", 3, 1, config={"cleanup.policy": "compact"}),
        NewTopic(f"{name}-d", 1, 1, config={"cleanup.policy": "delete"}),
    ]
    for future in client.create_topics(topics).values():
        future.result()
    wanted = {topic.topic for topic in topics}
    wait_until(lambda: wanted <= client.list_topics(timeout=SOON_S).topics.keys(), "the topics")
    base = f"kafka://{broker.bootstrap_servers}/{name}"
    with pytest.raises(LogError, match="3 partitions"):
        TopicLog.open(f"{base}-3")
    with pytest.raises(LogError, match=r"cleanup\.policy is `delete`"):
        TopicLog.open(f"{base}-d", mode="create", settings=ONE)
    with pytest.raises(LogMissingError, match="there is no topic"):
        TopicLog.open(f"{base}-none")
    with pytest.raises(LogError, match="3 copies of the log need as many brokers"):
        create_topic(f"{base}-new")
    with pytest.raises(LogError, match="already"):
        create_topic(f"{base}-3", settings=ONE)


def test_a_created_topic_has_the_settings_of_a_log(log: TopicLog) -> None:
    """`create` leaves a topic alone that is there; removals can be seen for a week; only ACLs are taken."""
    assert log.removal_retention_ms == 7 * 24 * 3600 * 1000
    with TopicLog.open(log.url, mode="create") as again:
        assert again.identity == log.identity
    with pytest.raises(EncodeError):
        log.append([A, "x"])  # type: ignore[list-item]
    assert log.high_watermark() == 0


def test_an_unreachable_cluster_is_reported() -> None:
    """An unreachable cluster is reported within a few seconds, with the reason."""
    with pytest.raises(LogStorageError, match=r"kafka://127\.0\.0\.1:1/acls"):
        TopicLog.open("kafka://127.0.0.1:1/acls")
