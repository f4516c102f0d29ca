"""A transaction that is open in the topic, and holds up whoever reads: since when, and how to end it.

The last stable offset is that of its first record, which anybody sees who reads what is not committed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, TopicPartition

from records.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from records.log.topic.client import ClientSettings
    from records.log.topic.failure import Failure
    from records.log.topic.url import TopicUrl

#: So long the look at the first record may take.
_ANSWER_TIMEOUT_S: Final = 10.0
#: Between two looks at whether the log was closed meanwhile.
_CLOSE_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """``first_offset``: of its first record; ``since_ms``: that record's time, since the epoch."""

    first_offset: int
    since_ms: int


class OpenTransactions:
    """Looks at the open transaction that holds up readers. Not thread-safe.

    Args:
        where: the topic.
        settings: of the clients.
        failure: makes the errors.
        is_closed: asked while waiting.
    """

    def __init__(
        self, where: TopicUrl, settings: ClientSettings, failure: Failure, is_closed: Callable[[], bool]
    ) -> None:
        self._where = where
        self._settings = settings
        self._failure = failure
        self._is_closed = is_closed
        self._seen: OpenTransaction | None = None

    def at(self, last_stable_offset: int) -> OpenTransaction | None:
        """The one that keeps the last stable offset there; None if there is nothing behind it.

        Raises:
            LogError: the cluster cannot be asked.
        """
        if self._seen is None or self._seen.first_offset != last_stable_offset:
            first = self._first_message(last_stable_offset)
            self._seen = None if first is None else OpenTransaction(last_stable_offset, first.timestamp()[1])
        return self._seen

    def described(self, transaction: OpenTransaction) -> str:
        """What it is and how to end it, for people."""
        tool = f"kafka-transactions.sh --bootstrap-server {self._where.bootstrap_servers}"
        partition = f"--topic {self._where.topic} --partition 0"
        since = datetime.fromtimestamp(transaction.since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return (
            f"a transaction is open since {since}, from offset {transaction.first_offset} on. "
            f"`{tool} describe-producers {partition}` says whose: the producer with "
            f"CurrentTransactionStartOffset {transaction.first_offset}, and `{tool} list` has its "
            f"transactional id. It ends when its producer commits or aborts, or with its timeout. If the "
            f"producer is gone: `{tool} abort {partition} --start-offset {transaction.first_offset}`"
        )

    def _first_message(self, offset: int) -> Message | None:
        """The first message at an offset or later, committed or not."""
        doing = "looking at the open transaction"
        with self._failure.translated(doing):
            consumer = Consumer(self._settings.looker())
            try:
                consumer.assign([TopicPartition(self._where.topic, 0, offset)])
                return self._polled(consumer, doing)
            finally:
                consumer.close()

    def _polled(self, consumer: Consumer, doing: str) -> Message | None:
        deadline_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while time.monotonic() < deadline_s:
            if self._is_closed():
                raise LogError(f"{self._where.text}: the log is closed")
            message = consumer.poll(_CLOSE_LOOK_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            raise self._failure.of(error, doing)
        raise self._failure.no_answer(doing, _ANSWER_TIMEOUT_S)
