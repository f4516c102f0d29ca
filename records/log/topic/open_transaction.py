"""The open transaction of a topic that blocks readers: since when it is open, and how to end it.

The last stable offset is the offset of its first record, which a reader of uncommitted records gets.
Its producer is queried from the brokers (KIP-664); confluent-kafka has no API for it. That needs `kio`, and
client settings that records.log.protocol supports. Otherwise the description names the command that finds
the producer.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from records.errors import LogError
from records.log.topic.client import ClientSettings
from records.log.topic.topic_admin import TopicAdmin
from records.log.topic.topic_errors import TopicErrors
from records.log.url import Address, TopicUrl

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from records.log.protocol.connection import Connection

    _Connect = Callable[[Address], Connection]


@dataclass(frozen=True, slots=True)
class TransactionOwner:
    """A producer with an open transaction.

    Attributes:
        transactional_id: None: no coordinator lists it for this principal.
        timeout_ms: after which its coordinator aborts it; None: unknown.
    """

    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    timeout_ms: int | None


def find_owner(
    admin: TopicAdmin, url: str, topic: str, first_offset: int, client: Mapping[str, str]
) -> TransactionOwner | None:
    """The producer whose transaction begins at ``first_offset``; None: it cannot be found.

    Raises nothing: the message about the transaction is useful without it.
    """
    try:
        from records.log.protocol.cluster_errors import ClusterErrors  # noqa: PLC0415
        from records.log.protocol.connection import Connection  # noqa: PLC0415 - kio is an extra
        from records.log.protocol.settings import settings_beside_client  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    try:
        settings = settings_beside_client(client)
        errors = ClusterErrors(url, settings)
        return _find_owner(admin, topic, first_offset, lambda address: Connection(address, settings, errors))
    except LogError:
        return None


def _find_owner(
    admin: TopicAdmin, topic: str, first_offset: int, connect: _Connect
) -> TransactionOwner | None:
    from records.log.protocol import transaction_queries as queries  # noqa: PLC0415

    with connect(Address(*admin.leader_address())) as leader:
        producers = leader.send(queries.describe_producers(topic), queries.DESCRIBE_PRODUCERS)
    for producer in producers:
        if producer.first_offset == first_offset:
            name, timeout_ms = _transaction_of(admin, producer.producer_id, connect)
            return TransactionOwner(producer.producer_id, producer.producer_epoch, name, timeout_ms)
    return None


def _transaction_of(admin: TopicAdmin, producer_id: int, connect: _Connect) -> tuple[str | None, int | None]:
    """The transactional id of a producer, and the timeout of its transaction."""
    from records.log.protocol import transaction_queries as queries  # noqa: PLC0415

    for host, port in admin.broker_addresses():
        with connect(Address(host, port)) as broker:
            listed = broker.send(queries.list_transactions(producer_id), queries.LIST_TRANSACTIONS)
            for transactional_id in listed:
                timeouts_ms = broker.send(
                    queries.describe_transaction(transactional_id), queries.DESCRIBE_TRANSACTIONS
                )
                return transactional_id, timeouts_ms[0] if timeouts_ms else None
    return None, None


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
