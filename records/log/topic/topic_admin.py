"""Topics of a log: requests about one topic, its creation and required settings, and topics by name."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from records.errors import LogError, LogNotFoundError
from records.ids import Uuid, uuid_from_string
from records.log.base import LogIdentity
from records.log.bootstrap_servers import parse_bootstrap_servers
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_errors import NoLeaderError, TopicErrors
from records.log.topic.url import FORM, SCHEME, TopicUrl, parse_topic_url

if TYPE_CHECKING:
    from records.java_pattern import JavaPattern


#: So long one question may take.
REQUEST_TIMEOUT_S: Final = 5.0
#: Between two looks at whether the log was closed meanwhile.
_CLOSE_CHECK_INTERVAL_S: Final = 0.1

# The client's stubs forgot to type these.
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last stable offset, and the epoch of the leader that said so."""

    offset: int
    leader_epoch: int


class TopicAdmin:
    """Asks about one topic. Thread-safe.

    Args:
        settings: of the client.
        topic: its name.
        topic_errors: makes the errors.
        is_closed: asked while waiting for an answer.

    Raises:
        LogError: as TopicErrors says; from every method too.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topic: str,
        topic_errors: TopicErrors,
        is_closed: Callable[[], bool],
    ) -> None:
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._topic_errors = topic_errors
        self._is_closed = is_closed
        with topic_errors.translated("making a client"):
            self._client = AdminClient(dict(settings))

    def cluster_id(self) -> str:
        """The cluster's id."""
        found = self._client.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return str(self._result(found, "asking for the cluster's id").cluster_id)

    def broker_count(self) -> int:
        """Brokers that are alive."""
        return len(self.broker_addresses())

    def broker_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each broker that is alive."""
        found = self._client.describe_cluster(request_timeout=REQUEST_TIMEOUT_S)
        return [(node.host, node.port) for node in self._result(found, "asking for the brokers").nodes]

    def leader_address(self) -> tuple[str, int]:
        """Host and port of the topic's leader."""
        leader = self._description().partitions[0].leader
        if leader is None:
            raise self._topic_errors.no_leader("looking at the topic")
        return leader.host, leader.port

    def topic_id(self) -> Uuid:
        """The id of the topic that has the name now."""
        text = str(self._description().topic_id)
        # The client writes the other base64 alphabet.
        return uuid_from_string(text.replace("+", "-").replace("/", "_"))

    def partition_count(self) -> int:
        """How many partitions the topic has."""
        return len(self._description().partitions)

    def config(self) -> dict[str, str]:
        """All settings of the topic, defaults too."""
        resource = ConfigResource(ResourceType.TOPIC, self._topic)
        found = self._client.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        entries = self._result(found[resource], "asking for the topic's settings")
        return {name: entry.value for name, entry in entries.items() if entry.value is not None}

    def end(self) -> LogEnd:
        """Where committed records end now."""
        found = self._offset(_LATEST, "asking for the last stable offset")
        return LogEnd(found.offset, -1 if found.leader_epoch is None else found.leader_epoch)

    def uncommitted_end(self) -> int:
        """Where records end now, those of open transactions too."""
        doing = "asking for the last offset"
        return int(self._offset(_LATEST, doing, IsolationLevel.READ_UNCOMMITTED).offset)

    def start(self) -> int:
        """First offset that the topic holds now."""
        return int(self._offset(_EARLIEST, "asking for the first offset").offset)

    def create(self, topic: NewTopic) -> None:
        """Make the topic; returns when the cluster says that it has."""
        found = self._client.create_topics([topic], request_timeout=REQUEST_TIMEOUT_S)
        self._result(found[self._topic], "creating the topic")

    def _description(self) -> Any:
        names = TopicCollection([self._topic])
        found = self._client.describe_topics(names, request_timeout=REQUEST_TIMEOUT_S)
        return self._result(found[self._topic], "looking at the topic")

    def _offset(
        self, spec: OffsetSpec, doing: str, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    ) -> Any:
        found = self._client.list_offsets(
            {self._partition: spec}, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            result = self._result(found[self._partition], doing)
            if result.offset < 0:
                # While the partition has no leader that can be reached, the client may answer so, too.
                raise self._topic_errors.no_leader(doing)
        except NoLeaderError:
            # So it says of a topic that is gone, as well, once it has heard that; the cluster knows.
            self._description()
            raise
        return result

    def _result(self, future: Future[_T], doing: str) -> _T:
        deadline_s = time.monotonic() + 2 * REQUEST_TIMEOUT_S
        while True:
            try:
                return future.result(_CLOSE_CHECK_INTERVAL_S)
            except FutureTimeoutError:
                if self._is_closed():
                    raise LogError("the log is closed") from None
                if time.monotonic() > deadline_s:
                    raise self._topic_errors.no_answer(doing, 2 * REQUEST_TIMEOUT_S) from None
            except KafkaException as exception:
                self._client.poll(0)  # what went wrong with the connections comes here
                raise self._topic_errors.translate(exception.args[0], doing) from exception


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


REPLICATION_FACTOR: Final = 3
MIN_INSYNC_REPLICAS: Final = 2
_DAY_MS: Final = 24 * 3600 * 1000
#: A week: a node that was away for up to half of it goes on where it was.
DELETE_RETENTION_MS: Final = 7 * _DAY_MS

# Brokers learn of a new topic one after the other.
_VISIBLE_TIMEOUT_S: Final = 10.0
_VISIBLE_CHECK_INTERVAL_S: Final = 0.05

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
            time.sleep(_VISIBLE_CHECK_INTERVAL_S)
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
    admin = TopicAdmin(clients.admin(), where.topic, TopicErrors(where, errors), lambda: False)
    if topic_exists(admin):
        raise LogError(f"{url}: there is a topic `{where.topic}` already; nothing was changed")
    topic_id = make_topic(where, admin, settings or TopicSettings())
    return LogIdentity(admin.cluster_id(), topic_id)


def matching_topics(bootstrap_servers: str, pattern: JavaPattern, client: Mapping[str, str]) -> list[str]:
    """Names that match as a whole, sorted; Kafka's internal topics are not among them.

    Args:
        bootstrap_servers: ``HOST:PORT[,HOST:PORT...]``.
        pattern: of names.
        client: settings for the Kafka client: ``aclog.kafka.*`` without that prefix.

    Raises:
        LogError: the servers or a client setting make no sense.
        LogUnreachableError, LogRefusedError: the cluster is out of reach, or does not let us in.
    """
    url = f"{SCHEME}{bootstrap_servers}"
    parse_bootstrap_servers(url, bootstrap_servers, FORM)
    errors = ClientErrors(client)
    where = TopicUrl(url, bootstrap_servers, "")
    topic_errors = TopicErrors(where, errors)
    settings = ClientSettings(where, client, errors).admin()
    with topic_errors.translated("listing the topics"):
        admin = AdminClient(settings)
        try:
            names = sorted(filter(pattern.fullmatch, admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics))
            if not names:
                return []
            found = admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S)
            return [name for name in names if not found[name].result().is_internal]
        except KafkaException:
            admin.poll(0)  # what went wrong with the connections comes here
            raise
