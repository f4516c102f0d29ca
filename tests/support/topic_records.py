"""The committed records of a topic as a consumer of its own reads them, for folds beside the product's."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaError, TopicPartition

from records.entries import RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from support.topic_checker import TRANSIENT, raw_consumer_settings, removed_id, seen


def topic_records(bootstrap_servers: str, topic: str) -> list[LogRecord]:
    """All records up to the end of the topic; a removal by key is a record of removal."""
    consumer = Consumer(raw_consumer_settings(bootstrap_servers))
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[LogRecord] = []
    try:
        while True:
            for message in consumer.consume(1000, timeout=1):
                error, offset = message.error(), message.offset()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return found
                    assert error.retriable() or error.code() in TRANSIENT, error
                    continue
                assert offset is not None
                each = seen(message)
                record = each.record or RemoveAccessControlEntryRecord(removed_id(each))
                found.append(LogRecord(offset, message.timestamp()[1], record))
    finally:
        consumer.close()
