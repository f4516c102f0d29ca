"""The open transaction of a topic that blocks readers: since when it is open, and how to end it.

The last stable offset is the offset of its first record, which a reader of uncommitted records gets.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from records.errors import LogError
from records.log.topic.client import ClientSettings
from records.log.topic.topic_admin import TopicAdmin
from records.log.topic.topic_errors import TopicErrors
from records.log.topic.transaction_owner import TransactionOwner, find_owner
from records.log.url import TopicUrl

#: Timeout of reading the first record.
_ANSWER_TIMEOUT_S: Final = 10.0
#: Interval of checks whether the log was closed.
_CLOSE_CHECK_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that determines the last stable offset.

    Attributes:
        since_ms: time of that record, since the epoch.
        owner: its producer; None: unknown.
    """

    first_offset: int
    since_ms: int
    owner: TransactionOwner | None

    def described(self, where: TopicUrl) -> str:
        """Describe it and how to end it, for people."""
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        tool = f"kafka-transactions.sh --bootstrap-server {where.bootstrap_servers}"
        partition = f"--topic {where.topic} --partition 0"
        timeout, ways = "its timeout", [f"`{tool} abort {partition} --start-offset {self.first_offset}`"]
        owner = self.owner
        if owner is None:
            whose = (
                f"`{tool} describe-producers {partition}` says whose: the producer with "
                f"CurrentTransactionStartOffset {self.first_offset}, and `{tool} list` has its "
                "transactional id"
            )
        elif owner.transactional_id is None:
            whose = (
                f"It is that of producer id {owner.producer_id}, epoch {owner.producer_epoch}, for which no "
                "transactional id is listed: it hangs, or aclog may not see the id"
            )
        else:
            name = owner.transactional_id
            whose = (
                f"It is that of transactional id {name!r}, producer id {owner.producer_id}, "
                f"epoch {owner.producer_epoch}"
            )
            if name.isprintable():
                ways.insert(0, f"`{tool} forceTerminateTransaction --transactionalId {shlex.quote(name)}`")
        if owner is not None and owner.timeout_ms is not None:
            timeout += f" of {owner.timeout_ms / 1000:g} s"
        return (
            f"a transaction is open since {since}, from offset {self.first_offset} on. {whose}. It ends when "
            f"its producer commits or aborts, or with {timeout}. If the producer is gone: {' or '.join(ways)}"
        )


class OpenTransactions:
    """Finds the open transaction that blocks readers. Not thread-safe."""

    def __init__(
        self,
        where: TopicUrl,
        settings: ClientSettings,
        admin: TopicAdmin,
        topic_errors: TopicErrors,
        is_closed: Callable[[], bool],
    ) -> None:
        self._where = where
        self._settings = settings
        self._admin = admin
        self._topic_errors = topic_errors
        self._is_closed = is_closed
        self._seen: OpenTransaction | None = None

    def at(self, last_stable_offset: int) -> OpenTransaction | None:
        """The transaction that begins at the last stable offset; None: there is none.

        Raises:
            LogError: the cluster does not answer.
        """
        if self._seen is None or self._seen.first_offset != last_stable_offset:
            self._seen = self._find(last_stable_offset)
        return self._seen

    def _find(self, offset: int) -> OpenTransaction | None:
        first = self._first_message(offset)
        if first is None or first.offset() != offset:
            return None
        owner = find_owner(self._admin, self._where.text, self._where.topic, offset, self._settings.user)
        if self._admin.end().offset != offset:
            return None  # it ended meanwhile
        return OpenTransaction(offset, first.timestamp()[1], owner)

    def _first_message(self, offset: int) -> Message | None:
        """The first message at an offset or later, committed or not."""
        doing = "reading the open transaction"
        with self._topic_errors.translated(doing):
            consumer = Consumer(self._settings.uncommitted_reader())
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
            message = consumer.poll(_CLOSE_CHECK_INTERVAL_S)
            if message is None:
                continue
            error = message.error()
            if error is None:
                return message
            if error.code() == KafkaError._PARTITION_EOF:
                return None
            raise self._topic_errors.translate(error, doing)
        raise self._topic_errors.no_answer(doing, _ANSWER_TIMEOUT_S)
