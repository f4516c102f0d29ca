"""Valid names of topics. Source: org.apache.kafka.common.internals.Topic."""

from __future__ import annotations

from string import ascii_letters, digits
from typing import Final

TOPIC_CHARACTERS: Final = ascii_letters + digits + "._-"
TOPIC_LENGTH_MAX: Final = 249
#: Invalid names of valid characters.
NO_TOPICS: Final = frozenset(("", ".", ".."))


def is_topic_name(text: str) -> bool:
    """Whether this is a valid name of a topic."""
    return topic_name_problem(text) is None


def topic_name_problem(text: str) -> str | None:
    """Why this is not a valid name of a topic, in Kafka's words; None if it is one."""
    if not text:
        return "the empty string is not allowed"
    if text in NO_TOPICS:
        return f"'{text}' is not allowed"
    if len(text) > TOPIC_LENGTH_MAX:
        return f"the length of '{text}' is longer than the max allowed length {TOPIC_LENGTH_MAX}"
    if text.strip(TOPIC_CHARACTERS):
        return f"'{text}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
