"""kafka://HOST:PORT[,HOST:PORT...]/TOPIC: where a topic log is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from records.errors import LogError

SCHEME: Final = "kafka://"
_FORM: Final = "kafka://HOST:PORT[,HOST:PORT...]/TOPIC"

# org.apache.kafka.common.internals.Topic
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]@?#,]+):([0-9]{1,5})")
_PORT_MAX: Final = 65535


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
        raise LogError(f"`{url}` is not a topic: write {_FORM}")
    servers, _, topic = url[len(SCHEME) :].partition("/")
    check_servers(url, servers)
    if not topic:
        raise LogError(f"`{url}`: which topic? Write {_FORM}")
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        raise LogError(
            f"`{url}`: `{topic}` cannot be a topic: Kafka takes up to 249 letters, digits, `.`, `_` and `-`"
        )
    return TopicUrl(url, servers, topic)


def check_servers(url: str, servers: str) -> None:
    """See that these are ``HOST:PORT[,HOST:PORT...]``; ``url`` is where they were written.

    Raises:
        LogError: what is wrong with which one.
    """
    for server in servers.split(","):
        match = _SERVER.fullmatch(server)
        if match is None:
            what = f"`{server}` is not HOST:PORT" if server else "a server is missing"
            raise LogError(f"`{url}`: {what}; write {_FORM}")
        if not 1 <= int(match[2]) <= _PORT_MAX:
            raise LogError(f"`{url}`: there is no port {match[2]}")
