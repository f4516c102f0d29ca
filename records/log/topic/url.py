"""kafka://HOST:PORT[,HOST:PORT...]/TOPIC: where a topic log is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from records.errors import LogError
from records.log.bootstrap_servers import parse_bootstrap_servers
from records.topic_name import is_topic_name

SCHEME: Final = "kafka://"
FORM: Final = "kafka://HOST:PORT[,HOST:PORT...]/TOPIC"


@dataclass(frozen=True, slots=True)
class TopicUrl:
    """``bootstrap_servers`` as Kafka's clients take them; partition 0 of ``topic`` is the log."""

    text: str
    bootstrap_servers: str
    topic: str


def parse_topic_url(url: str) -> TopicUrl:
    """Take a URL apart.

    Raises:
        LogError: what is wrong with it, and the form that it must have.
    """
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a topic: write {FORM}")
    servers, _, topic = url[len(SCHEME) :].partition("/")
    parse_bootstrap_servers(url, servers, FORM)
    if not topic:
        raise LogError(f"`{url}`: which topic? Write {FORM}")
    if not is_topic_name(topic):
        raise LogError(
            f"`{url}`: `{topic}` cannot be a topic: Kafka takes up to 249 letters, digits, `.`, `_` and `-`"
        )
    return TopicUrl(url, servers, topic)
