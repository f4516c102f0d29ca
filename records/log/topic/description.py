"""What a topic must be to hold a log: one partition, compacted and never trimmed by age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records.errors import LogError

if TYPE_CHECKING:
    from records.log.topic.admin import TopicAdmin
    from records.log.topic.url import TopicUrl

_COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """What matters of a topic.

    Attributes:
        partitions: how many; a log has one.
        cleanup_policy: ``compact`` in a log.
        delete_retention_ms: for how long a removal can be seen at least.
        message_bytes_max: of one record.
    """

    partitions: int
    cleanup_policy: str
    delete_retention_ms: int
    message_bytes_max: int


def describe_topic(admin: TopicAdmin) -> TopicDescription:
    """Ask the cluster; raises as TopicAdmin."""
    config = admin.config()
    return TopicDescription(
        partitions=admin.partition_count(),
        cleanup_policy=config["cleanup.policy"],
        delete_retention_ms=int(config["delete.retention.ms"]),
        message_bytes_max=int(config["max.message.bytes"]),
    )


def check_topic(where: TopicUrl, topic: TopicDescription) -> None:
    """Refuse what cannot hold a log.

    Raises:
        LogError: what it has, and the way out.
    """
    if topic.partitions != 1:
        raise LogError(
            f"{where.text}: the topic has {topic.partitions} partitions, and a log is one: records of "
            "several partitions have no order. Make another topic with `aclog log create`"
        )
    if topic.cleanup_policy != _COMPACT:
        raise LogError(
            f"{where.text}: cleanup.policy is `{topic.cleanup_policy}`, which forgets ACLs that are in "
            f"force; it must be `{_COMPACT}`: {_alter(where, f'cleanup.policy={_COMPACT}')}"
        )
    if topic.delete_retention_ms <= 0:
        raise LogError(
            f"{where.text}: delete.retention.ms is {topic.delete_retention_ms}: a log that forgets removals "
            f"at once cannot be followed: {_alter(where, 'delete.retention.ms=604800000')}"
        )


def _alter(where: TopicUrl, config: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {where.bootstrap_servers} --alter --entity-type topics "
        f"--entity-name {where.topic} --add-config {config}"
    )
