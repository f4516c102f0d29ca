"""A topic that results are appended to, on a real broker: each once, whenever its writer starts again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from records.errors import LogError, LogNotFoundError, LogStorageError
from records.log.open import open_exactly_once_producer
from records.log.topic import exactly_once_producer as feed
from support.feed_topics import feed_messages, new_feed_topic
from support.kafka_broker import Broker
from support.nodes import SOON_S
from support.topic_logs import topic_url
from support.topic_operator import delete_topic

pytestmark = [pytest.mark.slow, pytest.mark.integration]

Result = tuple[int, bytes, bytes]


@pytest.fixture
def url(broker: Broker) -> str:
    """Of a new topic with three partitions."""
    found = topic_url(broker, "feed")
    new_feed_topic(broker, found)
    return found


def results(start: int, end: int) -> list[Result]:
    """One for each position, two for each third."""
    each = [(at, f"k-{at % 7}".encode(), f"v-{at}".encode()) for at in range(start, end)]
    return sorted(each + [(at, key, value + b"-also") for at, key, value in each if at % 3 == 0])


def test_each_result_is_written_once(broker: Broker, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results sent again completely, in part and with more; in transactions that store the position."""
    monkeypatch.setattr(feed, "_MESSAGES_MAX", 4)
    assert open_exactly_once_producer(url, name="a").append(results(0, 10)) == 14
    assert open_exactly_once_producer(url, name="a").append(results(0, 10)) == 0
    assert open_exactly_once_producer(url, name="a").append(results(4, 20)) == 13
    found = feed_messages(broker, url.rpartition("/")[2])
    assert sorted(value for _, _, value in found) == sorted(value for _, _, value in results(0, 20))
    # One key, one partition, in order.
    assert len({(partition, key) for partition, key, _ in found}) == 7
    for key in {key for _, key, _ in found}:
        values = [value for _, other, value in found if other == key]
        assert values == [value for _, other, value in results(0, 20) if other == key]


def test_uncommitted_results_are_sent_again(
    broker: Broker, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that ended within a transaction: the next one aborts that, and writes what was in it."""
    monkeypatch.setattr(feed, "_MESSAGES_MAX", 2)
    first = open_exactly_once_producer(url, name="a")
    assert first.append(results(0, 4)) == 6
    died = Producer(first._producer_settings)
    died.init_transactions(10)
    died.begin_transaction()
    for _, key, value in results(4, 6):
        died.produce(first._where.topic, key=key, value=value)
    died.flush(10)
    assert open_exactly_once_producer(url, name="a").append(results(2, 8)) == len(results(4, 8))
    values = [value for _, _, value in feed_messages(broker, url.rpartition("/")[2])]
    assert sorted(values) == sorted(value for _, _, value in results(0, 8))


def test_a_deleted_topic_is_not_created_again(broker: Broker, url: str) -> None:
    """A broker creates topics that are asked for; and a log's topic, compacted, is not what is wanted."""
    writer = open_exactly_once_producer(url, name="a")
    assert writer.append(results(0, 4)) == 6
    client, topic = AdminClient({"bootstrap.servers": broker.bootstrap_servers}), url.rpartition("/")[2]
    delete_topic(client, topic)
    with pytest.raises(LogNotFoundError, match="create it with Kafka's own tools"):
        writer.append(results(4, 8))
    assert topic not in client.list_topics(timeout=SOON_S).topics
    new_feed_topic(broker, url)
    assert writer.append(results(0, 8)) == len(results(0, 8))


def test_a_replaced_writer_is_fenced(broker: Broker, url: str) -> None:
    """A task that Spark gave up, and that goes on."""
    writer = open_exactly_once_producer(url, name="a")

    def slow() -> Iterator[Result]:
        yield from results(0, 5)
        open_exactly_once_producer(url, name="a").append(results(0, 8))

    with pytest.raises(LogStorageError, match="writing"):
        writer.append(slow())
    assert len(feed_messages(broker, url.rpartition("/")[2])) == len(results(0, 8))


def test_two_writers_have_separate_positions(broker: Broker, url: str) -> None:
    """Results of two histories may go into one topic."""
    assert open_exactly_once_producer(url, name="a").append(results(0, 3)) == 4
    assert open_exactly_once_producer(url, name="b").append(results(0, 3)) == 4
    assert len(feed_messages(broker, url.rpartition("/")[2])) == 8


def test_a_missing_topic_is_an_error(broker: Broker) -> None:
    """The topic is not created; the error comes before any write."""
    missing = topic_url(broker, "no-feed")
    for _ in range(2):
        with pytest.raises(LogNotFoundError, match="create it with Kafka's own tools"):
            open_exactly_once_producer(missing, name="a")
    with pytest.raises(LogError, match="transactional\\.id cannot be set"):
        open_exactly_once_producer(missing, name="a", client={"transactional.id": "mine"})
