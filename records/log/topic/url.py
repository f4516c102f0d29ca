"""TopicUrl: kafka://HOST:PORT[,HOST:PORT...]/TOPIC."""

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
    """URL of a topic log, whose only partition is 0."""

    text: str
    bootstrap_servers: str
    topic: str


def parse_topic_url(url: str) -> TopicUrl:
    """Parse a URL. Raises LogError: it is invalid; the text has the form of such a URL."""
    if url[: len(SCHEME)].lower() != SCHEME:
        raise LogError(f"`{url}` is not a topic: write {FORM}")
    servers, _, topic = url[len(SCHEME) :].partition("/")
    parse_bootstrap_servers(url, servers, FORM)
    if not topic:
        raise LogError(f"`{url}`: the topic is missing. Write {FORM}")
    if not is_topic_name(topic):
        raise LogError(
            f"`{url}`: `{topic}` cannot be a topic: use up to 249 letters, digits, `.`, `_` and `-`"
        )
    return TopicUrl(url, servers, topic)
