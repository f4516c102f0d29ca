"""AsyncTopicProducer: sends messages to any topic without waiting.

Messages wait in the client's bounded queue. Messages that do not fit, or cannot be delivered in time
(``message.timeout.ms``, five minutes), are dropped and counted. A message may be delivered twice if a
broker's acknowledgement is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from records.errors import LogError
from records.log.topic.client import ClientErrors
from records.log.url import TopicUrl

#: Of the client's queue; librdkafka's own bound is a gigabyte.
_QUEUE_KBYTES: Final = 32 * 1024
#: Time of collecting messages for one request to a broker.
_LINGER_MS: Final = 50

_OURS: Final = ("bootstrap.servers", "metadata.broker.list", "transactional.id")
#: Errors without the reason, which the errors of the connections have.
_WITHOUT_REASON: Final = (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


class AsyncTopicProducer:
    """A producer for one topic. Thread-safe.

    Attributes:
        reason: of the last drop.

    Raises:
        LogError: a setting that the client does not support.
    """

    def __init__(self, where: TopicUrl, client: Mapping[str, str], headers: Mapping[str, bytes]) -> None:
        for key in _OURS:
            if key in client:
                raise LogError(f"`{key}` cannot be set: the topic's URL has the servers")
        self.delivered = 0
        self.lost = 0
        self.reason = ""
        self._topic = where.topic
        self._headers: list[tuple[str, str | bytes | None]] = [*headers.items()]
        self._errors = ClientErrors()
        settings: dict[str, Any] = {
            "log_level": 0,
            "reconnect.backoff.max.ms": 1000,
            # A missing topic is an error, and not created with a broker's defaults.
            "allow.auto.create.topics": False,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            "linger.ms": _LINGER_MS,
            "compression.type": "lz4",
            **client,
            "bootstrap.servers": where.bootstrap_servers,
            "error_cb": self._errors,
            "on_delivery": self._on_delivery,
        }
        try:
            self._producer = Producer(settings)
        except KafkaException as error:
            raise LogError(f"{where.text}: {error.args[0].str()}") from error

    def put(self, messages: Iterable[bytes]) -> None:
        """Queue messages as far as there is room, and process earlier acknowledgements. Never waits."""
        self._producer.poll(0)
        for message in messages:
            try:
                self._producer.produce(self._topic, message, headers=self._headers)
            except BufferError:
                self._lose(f"the client's queue is full{self._why()}")
            except KafkaException as error:
                self._lose(error.args[0].str())

    def close(self, timeout_s: float) -> None:
        """Wait for queued messages up to the timeout; drop the others. Idempotent."""
        self._producer.flush(timeout_s)
        self._producer.purge()
        self._producer.flush(timeout_s)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self._lose(f"{error.str()}{self._why() if error.code() in _WITHOUT_REASON else ''}")

    def _lose(self, reason: str) -> None:
        self.lost += 1
        self.reason = reason

    def _why(self) -> str:
        return "" if self._errors.last is None else f" ({self._errors.last.str()})"
