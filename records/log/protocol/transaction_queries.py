"""Queries of producers and transactions (KIP-664), each in version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i32

from records.log.protocol.responses import ResponseDecoder

if TYPE_CHECKING:
    from records.flexible import MessageReader


class ActiveProducer(NamedTuple):
    """A producer of a partition; ``first_offset``: of its open transaction, -1: it has none."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def describe_producers(topic: str) -> Any:
    """Producers of partition 0 of a topic, as its leader knows them."""
    partition = TopicRequest(name=TopicName(topic), partition_indexes=(i32(0),))
    return DescribeProducersRequest(topics=(partition,))


def list_transactions(producer_id: int) -> Any:
    """Transactional ids of a producer, as the coordinator knows them."""
    return ListTransactionsRequest(producer_id_filters=(ProducerId(producer_id),))


def describe_transaction(transactional_id: str) -> Any:
    """State of a transaction, as its coordinator knows it."""
    return DescribeTransactionsRequest(transactional_ids=(TransactionalId(transactional_id),))


def _active_producers(reader: MessageReader) -> list[ActiveProducer]:
    reader.signed(4, "throttle time")
    producers = []
    for _ in reader.array("topics"):
        reader.string("topic")
        for _ in reader.array("partitions"):
            reader.signed(4, "partition")
            reader.signed(2, "error code")
            reader.nullable_string("error message")
            producers += [_active_producer(reader) for _ in reader.array("producers")]
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return producers


def _active_producer(reader: MessageReader) -> ActiveProducer:
    producer_id, producer_epoch = reader.signed(8, "producer id"), reader.signed(4, "producer epoch")
    reader.signed(4, "last sequence")
    reader.signed(8, "last timestamp")
    reader.signed(4, "coordinator epoch")
    first_offset = reader.signed(8, "first offset")
    reader.skip_tagged_fields()
    return ActiveProducer(producer_id, producer_epoch, first_offset)


def _transactional_ids(reader: MessageReader) -> list[str]:
    reader.signed(4, "throttle time")
    reader.signed(2, "error code")
    for _ in reader.array("unknown filters"):
        reader.string("filter")
    transactional_ids = []
    for _ in reader.array("transactions"):
        transactional_ids.append(reader.string("transactional id"))
        reader.signed(8, "producer id")
        reader.string("state")
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return transactional_ids


def _timeouts_ms(reader: MessageReader) -> list[int]:
    reader.signed(4, "throttle time")
    timeouts_ms = []
    for _ in reader.array("transactions"):
        reader.signed(2, "error code")
        reader.string("transactional id")
        reader.string("state")
        timeouts_ms.append(reader.signed(4, "timeout"))
        reader.signed(8, "start time")
        reader.signed(8, "producer id")
        reader.signed(2, "producer epoch")
        for _ in reader.array("topics"):
            reader.string("topic")
            for _ in reader.array("partitions"):
                reader.signed(4, "partition")
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return timeouts_ms


DESCRIBE_PRODUCERS: Final = ResponseDecoder(
    "DescribeProducers", has_tagged_header=True, read=_active_producers
)
LIST_TRANSACTIONS: Final = ResponseDecoder(
    "ListTransactions", has_tagged_header=True, read=_transactional_ids
)
DESCRIBE_TRANSACTIONS: Final = ResponseDecoder(
    "DescribeTransactions", has_tagged_header=True, read=_timeouts_ms
)
