"""Whose an open transaction is: asked of the brokers directly (KIP-664), as the client library cannot.

That is done where the listener is PLAINTEXT and `kio` is installed. Elsewhere it would take a client of our
own, with TLS and each SASL mechanism, for one line of one message: there the message names the command that
says it.
"""

from __future__ import annotations

import io
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from records.errors import LogError

if TYPE_CHECKING:
    from records.log.topic.topic_admin import TopicAdmin

#: One question to one broker.
_TIMEOUT_S: Final = 3.0
_LENGTH_BYTES: Final = 4
_CORRELATION_ID: Final = 1


@dataclass(frozen=True, slots=True)
class TransactionOwner:
    """A producer with an open transaction.

    Attributes:
        producer_id: as the leader of the topic knows it.
        producer_epoch: the same.
        transactional_id: None where no coordinator lists it for us.
        timeout_ms: after which its coordinator aborts it; None as above.
    """

    producer_id: int
    producer_epoch: int
    transactional_id: str | None
    timeout_ms: int | None


def owner_of(admin: TopicAdmin, topic: str, first_offset: int) -> TransactionOwner | None:
    """Who has the transaction open that begins there; None where that cannot be had.

    Nothing is raised: the message that it is for makes sense without it.
    """
    try:
        from kio.serial.errors import SerialError  # noqa: PLC0415  (an extra, and rarely needed)
    except ImportError:
        return None
    try:
        return _owner_of(admin, topic, first_offset)
    except (LogError, OSError, SerialError):
        return None


def _owner_of(admin: TopicAdmin, topic: str, first_offset: int) -> TransactionOwner | None:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest  # noqa: PLC0415
    from kio.schema.describe_producers.v0.response import DescribeProducersResponse  # noqa: PLC0415
    from kio.schema.types import TopicName  # noqa: PLC0415
    from kio.static.primitive import i32  # noqa: PLC0415

    asked = TopicRequest(name=TopicName(topic), partition_indexes=(i32(0),))
    request = DescribeProducersRequest(topics=(asked,))
    found = _send(admin.leader_address(), request, DescribeProducersResponse)
    for each in found.topics:
        for partition in each.partitions:
            for producer in partition.active_producers:
                if producer.current_txn_start_offset == first_offset:
                    owner = _known_to_a_coordinator(admin, producer.producer_id)
                    name, timeout_ms = (None, None) if owner is None else owner
                    return TransactionOwner(producer.producer_id, producer.producer_epoch, name, timeout_ms)
    return None


def _known_to_a_coordinator(admin: TopicAdmin, producer_id: int) -> tuple[str, int] | None:
    """The transactional id of a producer, and the timeout of its transaction."""
    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest  # noqa: PLC0415
    from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse  # noqa: PLC0415
    from kio.schema.list_transactions.v0.request import ListTransactionsRequest  # noqa: PLC0415
    from kio.schema.list_transactions.v0.response import ListTransactionsResponse  # noqa: PLC0415
    from kio.schema.types import ProducerId  # noqa: PLC0415

    for address in admin.broker_addresses():
        listing = ListTransactionsRequest(producer_id_filters=(ProducerId(producer_id),))
        for listed in _send(address, listing, ListTransactionsResponse).transaction_states:
            request = DescribeTransactionsRequest(transactional_ids=(listed.transactional_id,))
            (state,) = _send(address, request, DescribeTransactionsResponse).transaction_states
            return listed.transactional_id, round(state.transaction_timeout.total_seconds() * 1000)
    return None


def _send(address: tuple[str, int], request: Any, response_type: type[Any]) -> Any:
    """One question on a connection of its own: size, header and body, both ways."""
    from kio.schema.request_header.v2.header import RequestHeader  # noqa: PLC0415
    from kio.serial import entity_reader, entity_writer  # noqa: PLC0415
    from kio.static.primitive import i32  # noqa: PLC0415

    header = RequestHeader(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=i32(_CORRELATION_ID),
        client_id="aclog",
    )
    sent = io.BytesIO()
    entity_writer(RequestHeader)(sent, header)
    entity_writer(type(request))(sent, request)
    with socket.create_connection(address, _TIMEOUT_S) as connection:
        connection.sendall(len(sent.getvalue()).to_bytes(_LENGTH_BYTES, "big") + sent.getvalue())
        with connection.makefile("rb") as answers:
            size_bytes = int.from_bytes(answers.read(_LENGTH_BYTES), "big")
            received = answers.read(size_bytes)
    _, header_bytes = entity_reader(response_type.__header_schema__)(received, 0)
    response, _ = entity_reader(response_type)(received, header_bytes)
    return response
