"""Topics that results are appended to, read by a consumer of committed records."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from support.waiting import wait_until

if TYPE_CHECKING:
    from support.kafka_broker import Broker

PARTITIONS = 3


def new_feed_topic(broker: Broker, url: str) -> str:
    """Create the topic of this URL; its name."""
    name = url.rpartition("/")[2]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        future.result()
    # A controller answers before the broker has published the topic.
    wait_until(lambda: name in admin.list_topics(timeout=10).topics, "the broker to list the topic")
    return name


def feed_messages(broker: Broker, topic: str) -> list[tuple[int, bytes, bytes]]:
    """(partition, key, value) of all committed records, in partition order."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": f"reads-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])
    found: list[tuple[int, bytes, bytes]] = []
    ended: set[int] = set()
    try:
        while len(ended) < PARTITIONS:
            message = consumer.poll(20)
            assert message is not None
            partition, key, value = message.partition(), message.key(), message.value()
            assert partition is not None
            if message.error():
                ended.add(partition)
            else:
                assert key is not None
                assert value is not None
                found.append((partition, key, value))
    finally:
        consumer.close()
    return found
