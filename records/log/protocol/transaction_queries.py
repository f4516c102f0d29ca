"""Queries of producers and transactions (KIP-664), each in version 0."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple

from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.describe_transactions.v0.response import DescribeTransactionsResponse
from kio.schema.list_transactions.v0.request import ListTransactionsRequest
from kio.schema.list_transactions.v0.response import ListTransactionsResponse
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import i32

from records.log.protocol.responses import schema_decoder

_MILLISECOND: Final = dt.timedelta(milliseconds=1)


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


def _active_producers(found: DescribeProducersResponse) -> list[ActiveProducer]:
    return [
        ActiveProducer(producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset)
        for topic in found.topics
        for partition in topic.partitions
        for producer in partition.active_producers
    ]


def _transactional_ids(found: ListTransactionsResponse) -> list[str]:
    return [state.transactional_id for state in found.transaction_states]


def _timeouts_ms(found: DescribeTransactionsResponse) -> list[int]:
    return [state.transaction_timeout // _MILLISECOND for state in found.transaction_states]


DESCRIBE_PRODUCERS: Final = schema_decoder(DescribeProducersResponse, _active_producers)
LIST_TRANSACTIONS: Final = schema_decoder(ListTransactionsResponse, _transactional_ids)
DESCRIBE_TRANSACTIONS: Final = schema_decoder(DescribeTransactionsResponse, _timeouts_ms)
