"""Opens logs of all kinds by their URLs, and other resources of a Kafka cluster.

The module of a kind of log is imported when such a log is opened.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from records.errors import LogError
from records.install_command import importing_extra
from records.log.client_keys import only
from records.log.url import BOOTSTRAP, kind_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from records.java_pattern import JavaPattern
    from records.log.base import BatchLog, MetadataLog, Mode
    from records.log.directory.committed import CommittedEnd
    from records.log.protocol.cluster_acls import ClusterAcls
    from records.log.shared_clients import SharedClients
    from records.log.topic.async_producer import AsyncTopicProducer
    from records.log.topic.exactly_once_producer import ExactlyOnceProducer

_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


def open_log(
    url: str,
    *,
    mode: Mode = "read",
    client: Mapping[str, str] = _NO_SETTINGS,
    lazily: bool = False,
    shared: SharedClients | None = None,
    connection: object | None = None,
) -> MetadataLog:
    """Open a log.

    Args:
        url: ``file:DIR``, a plain path, or a URL of another kind.
        mode: ``read``; ``write``; or ``create``, which is ``write`` if the log exists.
        client: settings for the Kafka client, by librdkafka's names. For a broker's directory, `BOOTSTRAP`
            names the cluster to ask (records.log.directory.committed).
        lazily: do not connect to a cluster yet, see TopicLog.open.
        shared: clients of a cluster, which its topics share.
        connection: of another object of this log, in place of queries; see TopicLog.open.

    Raises:
        LogError: see DirectoryLog.open, TopicLog.open, QuorumLog.open and PolledLog.open.
    """
    match kind_of(url):
        case "kafka":
            with _kafka_extra():
                from records.log.topic import TopicLog  # noqa: PLC0415
            return TopicLog.open(
                url, mode=mode, client=client, lazily=lazily, shared=shared, connection=connection
            )
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
                    log.use_committed_end(_committed_end(url, log.identity.cluster_id, client))
                except LogError:
                    log.close()
                    raise
            return log


def open_batches(url: str, *, client: Mapping[str, str] = _NO_SETTINGS) -> BatchLog:
    """As ``open_log``, for reading a log of batches: a directory, or a quorum's log.

    Raises:
        LogError: also for a topic, or polled ACLs.
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
            raise LogError(f"{url}: only file: and kraft:// logs can be read by batches")


def matching_topics(
    bootstrap_servers: str, pattern: JavaPattern, *, client: Mapping[str, str] = _NO_SETTINGS
) -> list[str]:
    """Names of a cluster's topics that match completely; see records.log.topic.topic_admin."""
    with _kafka_extra():
        from records.log.topic import topic_admin  # noqa: PLC0415
    return topic_admin.matching_topics(bootstrap_servers, pattern, client)


def open_cluster_acls(bootstrap_servers: str, *, client: Mapping[str, str] = _NO_SETTINGS) -> ClusterAcls:
    """Open the ACLs of a Kafka cluster for changes; it does not connect yet."""
    with _kraft_extra():
        from records.log.protocol.cluster_acls import ClusterAcls  # noqa: PLC0415
    return ClusterAcls(bootstrap_servers, only(client, lambda key: key != BOOTSTRAP))


def open_exactly_once_producer(
    url: str, *, name: str, client: Mapping[str, str] = _NO_SETTINGS
) -> ExactlyOnceProducer:
    """Open a producer that appends each result to a topic once, by its ``name``."""
    with _kafka_extra():
        from records.log.topic.exactly_once_producer import ExactlyOnceProducer  # noqa: PLC0415
    return ExactlyOnceProducer(url, name=name, client=client)


def open_async_producer(
    url: str, *, client: Mapping[str, str], headers: Mapping[str, bytes]
) -> AsyncTopicProducer:
    """Open a producer that sends messages without waiting; it does not connect yet."""
    with _kafka_extra():
        from records.log.topic.async_producer import AsyncTopicProducer  # noqa: PLC0415
        from records.log.url import parse_topic_url  # noqa: PLC0415
    return AsyncTopicProducer(parse_topic_url(url), client, headers)


def _committed_end(url: str, cluster_id: str, client: Mapping[str, str]) -> CommittedEnd:
    with _kraft_extra():
        from records.log.directory.committed import CommittedEnd  # noqa: PLC0415
    return CommittedEnd(url, cluster_id, client)


def _kafka_extra() -> AbstractContextManager[None]:
    return importing_extra("kafka", "a topic", LogError, "confluent_kafka", "fastavro")


def _kraft_extra() -> AbstractContextManager[None]:
    return importing_extra("kraft", "Kafka's protocol", LogError, "kio")
