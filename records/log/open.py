"""Opens a log by its URL, whatever kind it is; finds topics by their names.

A kind of log is imported when one is opened: this module itself is for everyone who has a URL.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from records.errors import LogError
from records.log.bootstrap_servers import BOOTSTRAP

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

    from records.java_pattern import JavaPattern
    from records.log.base import BatchLog, MetadataLog
    from records.log.directory.committed import CommittedEnd
    from records.log.directory.log import Mode
    from records.log.topic.async_producer import AsyncTopicProducer
    from records.log.topic.cluster_acls import ClusterAcls
    from records.log.topic.exactly_once_producer import ExactlyOnceProducer

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})

DIRECTORY: Final = "file"
TOPIC: Final = "kafka"
QUORUM: Final = "kraft"
POLLED: Final = "describe"


def kind_of(url: str) -> str:
    """``file``, ``kafka``, ``kraft`` or ``describe``: which kind of log; a plain path is a directory.

    Raises:
        LogError: there is no such kind.
    """
    scheme = match[1].lower() if (match := _SCHEME.match(url)) else DIRECTORY
    if scheme not in (DIRECTORY, TOPIC, QUORUM, POLLED):
        raise LogError(
            f"`{url}`: there is no such kind of log; a directory is file:DIR, a topic "
            "kafka://HOST:PORT/TOPIC, a cluster's own log kraft://HOST:PORT (of its controllers), what its "
            "brokers describe describe://HOST:PORT[/DIR]"
        )
    return scheme


def open_log(
    url: str, *, mode: Mode = "read", client: Mapping[str, str] = _NO_SETTINGS, lazily: bool = False
) -> MetadataLog:
    """The log at ``file:DIR``, a plain path, or a URL of another kind.

    Args:
        url: where it is.
        mode: ``read``; ``write``; or ``create``, which is ``write`` where there is a log already.
        client: settings for the Kafka client, by librdkafka's names; a directory needs none, and with
            `BOOTSTRAP` a broker's directory is asked about there, see records.log.directory.committed.
        lazily: do not ask a cluster yet, see TopicLog.open.

    Raises:
        LogError: there is none, it cannot be had, or its kind is not known; see DirectoryLog.open,
            TopicLog.open, QuorumLog.open and PolledLog.open.
    """
    match kind_of(url):
        case "kafka":
            with _kafka_extra():
                from records.log.topic import TopicLog  # noqa: PLC0415
            return TopicLog.open(url, mode=mode, client=client, lazily=lazily)
        case "kraft":
            with _kraft_extra():
                from records.log.quorum import QuorumLog  # noqa: PLC0415
            return QuorumLog.open(url, mode=mode, client=client, lazily=lazily)
        case "describe":
            with _kraft_extra():
                from records.log.polled import PolledLog  # noqa: PLC0415
            return PolledLog.open(url, mode=mode, client=client, lazily=lazily)
        case _:
            from records.log.directory import DirectoryLog  # noqa: PLC0415

            log = DirectoryLog.open(url, mode=mode)
            if log.is_cluster_metadata_log and BOOTSTRAP in client:
                try:
                    log.ask(_committed_end(url, log.identity.cluster_id, client))
                except LogError:
                    log.close()
                    raise
            return log


def open_batches(url: str, *, client: Mapping[str, str] = _NO_SETTINGS) -> BatchLog:
    """As ``open_log``, to read, a log that is made of batches: a directory's or a quorum's.

    Raises:
        LogError: it is a topic's, too.
    """
    match kind_of(url):
        case "file":
            from records.log.directory import DirectoryLog  # noqa: PLC0415

            return DirectoryLog.open(url)
        case "kraft":
            with _kraft_extra():
                from records.log.quorum import QuorumLog  # noqa: PLC0415
            return QuorumLog.open(url, client=client)
        case _:
            raise LogError(f"{url}: a topic's messages are no batches")


def matching_topics(
    bootstrap_servers: str, pattern: JavaPattern, *, client: Mapping[str, str] = _NO_SETTINGS
) -> list[str]:
    """The topics whose whole names match, of one cluster; see records.log.topic.topic_admin.

    Raises:
        LogError: the servers or a client setting make no sense, or the Kafka client is not installed.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    with _kafka_extra():
        from records.log.topic import topic_admin  # noqa: PLC0415
    return topic_admin.matching_topics(bootstrap_servers, pattern, client)


def open_cluster_acls(bootstrap_servers: str, *, client: Mapping[str, str] = _NO_SETTINGS) -> ClusterAcls:
    """The ACLs of a Kafka cluster itself; nothing is asked of it yet.

    Raises:
        LogError: the servers or a client setting make no sense, or the Kafka client is not installed.
    """
    with _kafka_extra():
        from records.log.topic.cluster_acls import ClusterAcls  # noqa: PLC0415
    return ClusterAcls(bootstrap_servers, {key: client[key] for key in client if key != BOOTSTRAP})


def open_exactly_once_producer(
    url: str, *, name: str, client: Mapping[str, str] = _NO_SETTINGS
) -> ExactlyOnceProducer:
    """A topic that results are appended to, each once, by the writer of this name.

    Raises:
        LogNotFoundError: there is no such topic.
        LogError: the URL or a setting makes no sense, or the Kafka client is not installed.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    with _kafka_extra():
        from records.log.topic.exactly_once_producer import ExactlyOnceProducer  # noqa: PLC0415
    return ExactlyOnceProducer(url, name=name, client=client)


def open_async_producer(
    url: str, *, client: Mapping[str, str], headers: Mapping[str, bytes]
) -> AsyncTopicProducer:
    """A topic that messages are put on without waiting; nothing is asked of its cluster yet.

    Raises:
        LogError: the URL or a setting makes no sense, or the Kafka client is not installed.
    """
    with _kafka_extra():
        from records.log.topic.async_producer import AsyncTopicProducer  # noqa: PLC0415
        from records.log.topic.url import parse_topic_url  # noqa: PLC0415
    return AsyncTopicProducer(parse_topic_url(url), client, headers)


def _committed_end(url: str, cluster_id: str, client: Mapping[str, str]) -> CommittedEnd:
    with _kraft_extra():
        from records.log.directory.committed import CommittedEnd  # noqa: PLC0415
    return CommittedEnd(url, cluster_id, client)


def _kafka_extra() -> AbstractContextManager[None]:
    return _extra("confluent_kafka", "a topic needs confluent-kafka: pip install 'aclog[kafka]'")


def _kraft_extra() -> AbstractContextManager[None]:
    return _extra("kio", "to ask a cluster in Kafka's own protocol takes kio: pip install 'aclog[kraft]'")


@contextmanager
def _extra(package: str, remedy: str) -> Iterator[None]:
    """Around imports that are made when they are needed: what is an extra, and takes its time."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise LogError(remedy) from error
