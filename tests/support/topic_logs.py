"""Topics on the tests' broker as logs."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from records.log.topic import TopicSettings, create_topic

if TYPE_CHECKING:
    from support.kafka_broker import Broker

_numbers = itertools.count(1)

#: One broker cannot keep more.
ONE_BROKER = TopicSettings(replication_factor=1, min_insync_replicas=1)


def topic_url(broker: Broker, prefix: str = "acls") -> str:
    """The URL of a topic that does not exist yet."""
    return f"kafka://{broker.bootstrap_servers}/{prefix}-{os.getpid()}-{next(_numbers)}"


def new_topic(broker: Broker, settings: TopicSettings = ONE_BROKER) -> str:
    """The URL of a new, empty log."""
    url = topic_url(broker)
    create_topic(url, settings=settings)
    return url
