"""Opens a log by its URL, whatever kind it is; finds topics by their names.

A kind of log is imported when one is opened: this module itself is for everyone who has a URL.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from records.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.log.base import MetadataLog
    from records.log.directory.log import Mode
    from records.log.topic.feed import TopicFeed

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

DIRECTORY: Final = "file"
TOPIC: Final = "kafka"
QUORUM: Final = "kraft"


def kind_of(url: str) -> str:
    """``file``, ``kafka`` or ``kraft``: which kind of log a URL names; a plain path is a directory.

    Raises:
        LogError: there is no such kind.
    """
    scheme = match[1].lower() if (match := _SCHEME.match(url)) else DIRECTORY
    if scheme not in (DIRECTORY, TOPIC, QUORUM):
        raise LogError(
            f"`{url}`: there is no such kind of log; a directory is file:DIR, a topic kafka://HOST:PORT/TOPIC"
        )
    return scheme


def open_log(
    url: str, *, mode: Mode = "read", client: Mapping[str, str] = _NO_SETTINGS, lazily: bool = False
) -> MetadataLog:
    """The log at ``file:DIR``, at a plain path, or at ``kafka://HOST:PORT[,HOST:PORT...]/TOPIC``.

    Args:
        url: where it is.
        mode: ``read``; ``write``; or ``create``, which is ``write`` where there is a log already.
        client: settings for the Kafka client, by librdkafka's names; a directory needs none.
        lazily: do not ask a topic's cluster yet, see TopicLog.open.

    Raises:
        LogError: there is none, it cannot be had, or its kind is not known; see DirectoryLog.open and
            TopicLog.open.
    """
    match kind_of(url):
        case "kafka":
            with _kafka_extra():
                from records.log.topic import TopicLog  # noqa: PLC0415
            return TopicLog.open(url, mode=mode, client=client, lazily=lazily)
        case "kraft":
            raise LogError(f"`{url}`: not built yet: a log in a real KRaft quorum (kraft://)")
        case _:
            from records.log.directory import DirectoryLog  # noqa: PLC0415

            return DirectoryLog.open(url, mode=mode)


def matching_topics(
    bootstrap_servers: str, pattern: re.Pattern[str], *, client: Mapping[str, str] = _NO_SETTINGS
) -> list[str]:
    """The topics whose whole names match, of one cluster; see records.log.topic.listing.

    Raises:
        LogError: the servers or a client setting make no sense, or the Kafka client is not installed.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    with _kafka_extra():
        from records.log.topic import listing  # noqa: PLC0415
    return listing.matching_topics(bootstrap_servers, pattern, client)


def open_feed(url: str, *, name: str, client: Mapping[str, str] = _NO_SETTINGS) -> TopicFeed:
    """A topic that results are appended to, each once, by the writer of this name.

    Raises:
        LogNotFoundError: there is no such topic.
        LogError: the URL or a setting makes no sense, or the Kafka client is not installed.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    with _kafka_extra():
        from records.log.topic.feed import TopicFeed  # noqa: PLC0415
    return TopicFeed(url, name=name, client=client)


@contextmanager
def _kafka_extra() -> Iterator[None]:
    """Around imports that are made when they are needed: confluent-kafka is an extra, and takes its time."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        raise LogError("a topic log needs confluent-kafka: pip install 'aclog[kafka]'") from error
