"""kafka://HOST:PORT[,...]/TOPIC: a log in a compacted topic of its own, read and written by many nodes.

What belongs to whom, from the bytes up:

    url            where it is                         client        settings of the Kafka clients
    message        a record as key, value and headers  transactions  which records become visible together
    failure        Kafka's errors -> LogError          admin         what the cluster says about the topic
    description    what a topic is                     creation      how an own one comes to be
    reader         whole batches in offset order       writer        one operation, one transaction
    producers      whose a transaction is              open_transaction  what holds readers up, in words
    log            TopicLog, the MetadataLog made of these
    listing        which topics of a cluster have a name of some form
    feed           any topic that results are appended to, each once
    outlet         any topic that messages are put on without waiting

Committed: below the last stable offset, which is the high watermark of a topic log. The offsets just below it
may hold nothing but transaction markers, which no reader sees.
"""

from __future__ import annotations

from records.log.topic.creation import TopicSettings, create_topic
from records.log.topic.log import TopicLog

__all__ = ["TopicLog", "TopicSettings", "create_topic"]
