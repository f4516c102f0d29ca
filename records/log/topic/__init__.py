"""kafka://HOST:PORT[,...]/TOPIC: a log in a compacted topic, read and written by many nodes.

    url                     address of a topic            client        settings of the Kafka clients
    codec                   a record as a message         topic_errors       Kafka's errors -> LogError
    topic_admin             requests about topics, creation, required settings
    transaction_assembler   which messages become visible together
    reader                  complete batches in offset order
    writer                  one operation, one Kafka transaction
    transaction_owner       the producer of an open transaction
    open_transaction        describes the transaction that blocks readers
    log                     TopicLog, the MetadataLog made of these

    exactly_once_producer   appends each result once, to any topic
    async_producer          sends messages without waiting, to any topic

Committed: below the last stable offset, which is the high watermark of a topic log. The offsets just below it
may have only transaction markers, which no reader sees.
"""

from __future__ import annotations

from records.log.topic.log import TopicLog
from records.log.topic.topic_admin import TopicSettings, create_topic

__all__ = ["TopicLog", "TopicSettings", "create_topic"]
