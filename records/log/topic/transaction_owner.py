"""The producer of an open transaction, queried from the brokers (KIP-664); confluent-kafka has no API for it.

Needs `kio`, and client settings that records.log.protocol supports. Otherwise the message about the
transaction names the command that finds the producer.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from records.errors import LogError
from records.log.url import Address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from records.log.topic.topic_admin import TopicAdmin

    _Connect = Callable[[Address], AbstractContextManager[Any]]

#: Timeout of one request.
_TIMEOUT_S: Final = 3.0
#: Prefixes of the settings that decide whether a connection is secure.
_SECURITY_KEYS: Final = ("security.", "sasl.", "ssl.", "https.", "enable.ssl.")


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
        from records.log.protocol.settings import KEYS, protocol_settings  # noqa: PLC0415
    except ModuleNotFoundError:
        return None
    try:
        settings = protocol_settings(
            {key: client[key] for key in client if key in KEYS or key.startswith(_SECURITY_KEYS)}
        )
        settings = replace(settings, timeout_s=min(settings.timeout_s, _TIMEOUT_S))
        errors = ClusterErrors(url, settings)

        @contextmanager
        def connect(address: Address) -> Iterator[Connection]:
            connection = Connection(address, settings, errors)
            try:
                yield connection
            finally:
                connection.abort()

        return _find_owner(admin, topic, first_offset, connect)
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
