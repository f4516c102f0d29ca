"""kafka://HOST:PORT[,...]/TOPIC: a log in a compacted topic, read and written by many nodes.

Committed: below the last stable offset, which is the high watermark of a topic log. The offsets just below it
may have only transaction markers, which no reader sees.
"""

from __future__ import annotations

from records.log.topic.log import TopicLog
from records.log.topic.topic_admin import TopicSettings, create_topic

__all__ = ["TopicLog", "TopicSettings", "create_topic"]
