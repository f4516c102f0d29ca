"""A broker's additional listener for authenticated users, and a real client of it.

Each check sends real requests over a new connection, so that no cached metadata can replace the broker's
answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

PASSWORD: Final = "secret"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_NOT_ALLOWED: Final = KafkaError.TOPIC_AUTHORIZATION_FAILED
_WAIT_S: Final = 60.0


def with_sasl_listener(properties: Mapping[str, str], address: str, users: Sequence[str]) -> dict[str, str]:
    """A broker's properties, with a listener at ``HOST:PORT`` for these users, by PLAIN."""
    listener = f",SASL://{address}"
    known = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    return {
        **properties,
        "listeners": properties["listeners"] + listener,
        "advertised.listeners": properties["advertised.listeners"] + listener,
        "listener.security.protocol.map": properties["listener.security.protocol.map"]
        + ",SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {known};",
    }


def sasl_client(servers: str, user: str) -> dict[str, Any]:
    """Settings of a client that authenticates as this user."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": PASSWORD,
        "log_level": 0,
    }


class LiveClient:
    """A user at the broker's SASL listener; the checked topics must exist."""

    def __init__(self, servers: str, user: str) -> None:
        self._client = sasl_client(servers, user)

    def can_describe(self, topic: str) -> bool:
        """Whether the broker describes the topic."""
        return _can_see(AdminClient(self._client), topic)

    def can_produce(self, topic: str) -> bool:
        """Whether a record was accepted."""
        errors: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            errors.append(error)

        producer = Producer({**self._client, "linger.ms": 0})
        producer.produce(topic, b"a record", partition=0, on_delivery=delivered)
        assert producer.flush(_WAIT_S) == 0
        return _is_allowed(errors[0])

    def can_consume(self, topic: str) -> bool:
        """Whether the topic's partition 0 was read up to its end."""
        consumer = Consumer(
            {
                **self._client,
                "group.id": "not joined",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            if not _can_see(consumer, topic):  # the consumer would retry without an error
                return False
            consumer.assign([TopicPartition(topic, 0, 0)])
            message = consumer.poll(_WAIT_S)
            assert message is not None, "no answer"
            error = message.error()
            return (error is not None and error.code() == KafkaError._PARTITION_EOF) or _is_allowed(error)
        finally:
            consumer.close()


def _can_see(client: AdminClient | Consumer, topic: str) -> bool:
    return _is_allowed(client.list_topics(topic, timeout=_WAIT_S).topics[topic].error)


def _is_allowed(error: KafkaError | None) -> bool:
    if error is None:
        return True
    if error.code() == _NOT_ALLOWED:
        return False
    raise KafkaException(error)
