"""How an own topic comes to be: one partition, compacted, with settings that suit a log of ACLs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from confluent_kafka.admin import NewTopic

from records.errors import LogError, LogNotFoundError
from records.log.base import LogIdentity
from records.log.topic.admin import TopicAdmin
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.failure import Failure
from records.log.topic.url import TopicUrl, parse_topic_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.ids import Uuid

REPLICATION_FACTOR: Final = 3
MIN_INSYNC_REPLICAS: Final = 2
_DAY_MS: Final = 24 * 3600 * 1000
#: A week: a node that was away for up to half of it goes on where it was.
DELETE_RETENTION_MS: Final = 7 * _DAY_MS

# Brokers learn of a new topic one after the other.
_VISIBLE_TIMEOUT_S: Final = 10.0
_VISIBLE_LOOK_S: Final = 0.05

_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # An acknowledged ACL must not be lost for the sake of being available.
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "CreateTime",
    # Only closed segments are compacted. A million ACLs are some 200 MB: a few segments, the last one closed
    # once a day at the latest.
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(_DAY_MS),
    # Such a log is compacted in seconds, and a shorter log is a quicker start of each node: do not wait for
    # half of it to be superseded.
    "min.cleanable.dirty.ratio": "0.1",
    # What was removed is gone from the log after this and delete.retention.ms, however little is written.
    "max.compaction.lag.ms": str(_DAY_MS),
    # Nodes that are up to date never meet a hole.
    "min.compaction.lag.ms": str(10 * 60 * 1000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What a new topic gets.

    Attributes:
        replication_factor: copies of the log.
        min_insync_replicas: of them, how many must have a write before it counts; at most as many.
        delete_retention_ms: for how long a removal can be seen. Nodes and snapshots that are older than half
            of it start again from the beginning of the log (I10).
        config: further topic settings of Kafka's, or others than ours (`segment.ms`, ...).
    """

    replication_factor: int = REPLICATION_FACTOR
    min_insync_replicas: int = MIN_INSYNC_REPLICAS
    delete_retention_ms: int = DELETE_RETENTION_MS
    config: Mapping[str, str] | None = None


def make_topic(where: TopicUrl, admin: TopicAdmin, settings: TopicSettings) -> Uuid:
    """Create the topic, which is not there; returns its id once it can be seen.

    Raises:
        LogError: settings that contradict one another, or more copies than brokers; or as TopicAdmin.
    """
    copies, in_sync = settings.replication_factor, settings.min_insync_replicas
    if not 1 <= in_sync <= copies:
        raise LogError(
            f"{where.text}: min.insync.replicas must be within 1 and the replication factor {copies}, "
            f"not {in_sync}"
        )
    if settings.delete_retention_ms <= 0:
        raise LogError(
            f"{where.text}: delete.retention.ms must be above 0, not {settings.delete_retention_ms}"
        )
    brokers = admin.broker_count()
    if brokers < copies:
        raise LogError(
            f"{where.text}: {copies} copies of the log need as many brokers, and {brokers} can be seen; "
            f"start more, or ask for fewer copies: a replication factor of {brokers} and min.insync.replicas "
            f"of {max(1, brokers - 1)}"
        )
    config = {
        **_CONFIG,
        "min.insync.replicas": str(in_sync),
        "delete.retention.ms": str(settings.delete_retention_ms),
        **(settings.config or {}),
    }
    admin.create(NewTopic(where.topic, num_partitions=1, replication_factor=copies, config=config))
    deadline_s = time.monotonic() + _VISIBLE_TIMEOUT_S
    while True:
        try:
            topic_id = admin.topic_id()
            admin.end()  # it has a leader
        except LogError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(_VISIBLE_LOOK_S)
        else:
            return topic_id


def topic_exists(admin: TopicAdmin) -> bool:
    """Whether there is a topic of that name; raises as TopicAdmin."""
    try:
        admin.topic_id()
    except LogNotFoundError:
        return False
    return True


def create_topic(
    url: str, *, client: Mapping[str, str] | None = None, settings: TopicSettings | None = None
) -> LogIdentity:
    """Create the topic at ``kafka://HOST:PORT[,...]/TOPIC``; returns which log it is.

    Args:
        url: where.
        client: settings for the Kafka clients (``aclog.kafka.*`` without that prefix).
        settings: by default those of TopicSettings.

    Raises:
        LogError: it is there already; fewer brokers than copies; Kafka refused.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    where, errors = parse_topic_url(url), ClientErrors(client)
    clients = ClientSettings(where, client or {}, errors)
    admin = TopicAdmin(clients.admin(), where.topic, Failure(where, errors), lambda: False)
    if topic_exists(admin):
        raise LogError(f"{url}: there is a topic `{where.topic}` already; nothing was changed")
    topic_id = make_topic(where, admin, settings or TopicSettings())
    return LogIdentity(admin.cluster_id(), topic_id)
