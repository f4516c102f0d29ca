"""Changes of a topic by other programs: transactions, cleanup policy, record deletion, re-creation."""

from __future__ import annotations

import time

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from support.kafka_broker import Broker
from support.nodes import SOON_S
from support.topic_nodes import admin, raw_topic
from support.waiting import wait_until


def transactional(broker: Broker, name: str) -> Producer:
    """A raw transactional producer without an open transaction."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": f"{name}-{time.monotonic_ns()}",
            "transaction.timeout.ms": 60_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(SOON_S)
    return producer


def set_policy(broker: Broker, topic: str, policy: str) -> None:
    """Change cleanup.policy; the broker follows soon after."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in admin(broker.bootstrap_servers).incremental_alter_configs([resource]).values():
        future.result()


def delete_records(broker: Broker, topic: str, before: int) -> None:
    """Delete records as an operator could; a compacted topic refuses it, so its policy changes meanwhile."""
    client = admin(broker.bootstrap_servers)
    set_policy(broker, topic, "delete")

    def deleted() -> bool:
        try:
            for future in client.delete_records([TopicPartition(topic, 0, before)]).values():
                return future.result().low_watermark == before
        except Exception:  # noqa: BLE001 - the broker does not know the new policy yet
            pass
        return False

    wait_until(deleted, "deleteRecords")
    set_policy(broker, topic, "compact")


def delete_topic(client: AdminClient, topic: str) -> None:
    """Delete the topic, and wait until the brokers know of it, which is after the controller's answer."""
    client.delete_topics([topic])[topic].result()
    wait_until(lambda: topic not in client.list_topics(timeout=SOON_S).topics, "the deletion")


def create_again(broker: Broker, topic: str) -> None:
    """Delete the topic, and create another one with its name."""
    delete_topic(admin(broker.bootstrap_servers), topic)
    raw_topic(broker.bootstrap_servers, topic)
