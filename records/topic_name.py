"""Valid names of topics.

Source: org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Final

TOPIC_CHARACTERS: Final = ascii_letters + digits + "._-"
TOPIC_LENGTH_MAX: Final = 249
#: Invalid names of valid characters.
NO_TOPICS: Final = frozenset(("", ".", ".."))


def is_topic_name(text: str) -> bool:
    """Whether this is a valid name of a topic."""
    return len(text) <= TOPIC_LENGTH_MAX and text not in NO_TOPICS and not text.strip(TOPIC_CHARACTERS)
