"""ExactlyOnceProducer: appends each result to any topic exactly once.

Results have positions that never decrease, such as offsets of their input. Each transaction also commits the
writer's position, as the offset of a consumer group. Results below it are in the topic already. So a
restarted writer may append results again, and a reader of committed messages sees each of them once.

The cluster deletes the offsets of a group that is idle for ``offsets.retention.minutes`` (a week). A writer
that dies just after a write, and restarts later than that, appends its last results twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from records.errors import LogNotFoundError
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_errors import TopicErrors
from records.log.url import parse_topic_url

#: Maximum number of messages of a transaction, which must be written well within its timeout.
_MESSAGES_MAX: Final = 10_000
_CALL_TIMEOUT_S: Final = 1.0
_TIMEOUT_S: Final = 15.0
_REMEDY: Final = "create it with Kafka's own tools, with as many partitions as its readers need"

_T = TypeVar("_T")


class ExactlyOnceProducer:
    """One writer of one topic, ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``, with librdkafka's settings.

    A new writer of the same name fences the previous one.

    Raises:
        LogNotFoundError: there is no such topic.
        LogError: an invalid setting.
        LogUnreachableError, LogRefusedError: the cluster does not answer, or denies access (``append``, too).
    """

    def __init__(self, url: str, *, name: str, client: Mapping[str, str]) -> None:
        self._where = parse_topic_url(url)
        self._errors = ClientErrors(client)
        self._topic_errors = TopicErrors(self._where, self._errors, remedy=_REMEDY)
        self._name = f"aclog-feed-{sha256(name.encode()).hexdigest()[:32]}"
        settings = ClientSettings(self._where, client, self._errors)
        # The partitioner of Java's clients.
        self._producer_settings = {"partitioner": "murmur2_random", **settings.producer(self._name)}
        self._consumer_settings = settings.group(self._name)
        self._check_topic()

    def append(self, messages: Iterable[tuple[int, bytes, bytes]]) -> int:
        """Append (position, key, value) in order of position; returns the number of new ones."""
        with self._topic_errors.translated("starting a transactional producer"):
            producer = Producer(self._producer_settings)
        # Completes or aborts the open transaction of an earlier writer, so that its position is final.
        self._retried(
            lambda: producer.init_transactions(_CALL_TIMEOUT_S), "starting a transactional producer"
        )
        with self._topic_errors.translated("asking for the position"):
            consumer = Consumer(self._consumer_settings)
        try:
            position = TopicPartition(self._where.topic, 0)
            # A negative offset: no position is stored.
            (committed,) = self._retried(
                lambda: consumer.committed([position], timeout=_CALL_TIMEOUT_S), "asking for the position"
            )
            new_messages = (message for message in messages if message[0] >= committed.offset)
            count = 0
            for transaction in _transactions(new_messages):
                position = TopicPartition(self._where.topic, 0, transaction[-1][0] + 1)
                self._write(producer, transaction, position, consumer.consumer_group_metadata())
                count += len(transaction)
            return count
        finally:
            consumer.close()

    def _check_topic(self) -> None:
        # List all topics: a query of one would create it on a broker with auto.create.topics.enable.
        with self._topic_errors.translated("looking for the topic"):
            consumer = Consumer(self._consumer_settings)
            try:
                topics = consumer.list_topics(timeout=_TIMEOUT_S).topics
            finally:
                consumer.close()
        if self._where.topic not in topics:
            raise LogNotFoundError(
                f"{self._where.text}: there is no topic `{self._where.topic}` to write to, or it may not be "
                f"described; {_REMEDY}"
            )

    def _write(
        self,
        producer: Producer,
        messages: list[tuple[int, bytes, bytes]],
        position: TopicPartition,
        group: Any,
    ) -> None:
        doing = "writing"
        with self._topic_errors.translated(doing):
            producer.begin_transaction()
        try:
            for _, key, value in messages:
                self._produce(producer, key, value)
            self._retried(
                lambda: producer.send_offsets_to_transaction([position], group, _CALL_TIMEOUT_S), doing
            )
        except BaseException:
            # Else readers wait until the next writer ends the transaction, or it times out.
            with suppress(KafkaException):
                producer.abort_transaction(_CALL_TIMEOUT_S)
            raise
        self._retried(lambda: producer.commit_transaction(_CALL_TIMEOUT_S), "committing")

    def _produce(self, producer: Producer, key: bytes, value: bytes) -> None:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                producer.produce(self._where.topic, key=key, value=value)
            except BufferError as error:
                producer.poll(_CALL_TIMEOUT_S)
                if time.monotonic() > deadline_s:
                    raise self._topic_errors.no_answer("writing", _TIMEOUT_S) from error
            except KafkaException as error:
                raise self._topic_errors.translate(error.args[0], "writing") from error
            else:
                return

    def _retried(self, call: Callable[[], _T], doing: str) -> _T:
        deadline_s = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                return call()
            except KafkaException as exception:
                error: KafkaError = exception.args[0]
                may_pass = error.retriable() or error.code() == KafkaError._TIMED_OUT
                if error.fatal() or not may_pass or time.monotonic() > deadline_s:
                    raise self._topic_errors.translate(error, doing) from exception


def _transactions(messages: Iterable[tuple[int, bytes, bytes]]) -> Iterable[list[tuple[int, bytes, bytes]]]:
    """Group messages into transactions; those of one position stay together, as it is committed with them."""
    transaction: list[tuple[int, bytes, bytes]] = []
    for message in messages:
        if len(transaction) >= _MESSAGES_MAX and message[0] != transaction[-1][0]:
            yield transaction
            transaction = []
        transaction.append(message)
    if transaction:
        yield transaction
