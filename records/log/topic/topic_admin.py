"""Queries and creation of topics, and the settings that a log requires."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from records.errors import LogError, LogNotFoundError
from records.ids import Uuid, uuid_from_string
from records.log.base import LogIdentity
from records.log.topic.client import ClientErrors, ClientSettings
from records.log.topic.topic_errors import NoLeaderError, TopicErrors
from records.log.url import TOPIC_FORM, TOPIC_SCHEME, TopicUrl, parse_bootstrap_servers, parse_topic_url

if TYPE_CHECKING:
    from records.java_pattern import JavaPattern


#: Timeout of one request.
_REQUEST_TIMEOUT_S: Final = 5.0
#: Interval of checks whether the log was closed.
_CLOSE_CHECK_INTERVAL_S: Final = 0.1

# The client's stubs forgot to type these.
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST: Final[OffsetSpec] = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

_DESCRIBING: Final = "reading the topic's description"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The last stable offset, and the epoch of the leader that reported it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class _OffsetQuery:
    spec: OffsetSpec
    doing: str
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED


_START: Final = _OffsetQuery(_EARLIEST, "asking for the first offset")
_END: Final = _OffsetQuery(_LATEST, "asking for the last stable offset")
_UNCOMMITTED_END: Final = _OffsetQuery(_LATEST, "asking for the last offset", IsolationLevel.READ_UNCOMMITTED)


def admin_client(settings: ClientSettings, topic_errors: TopicErrors) -> AdminClient:
    """Make an admin client; it does not connect yet.

    Raises:
        LogError: a setting is invalid.
    """
    with topic_errors.translated("making a client"):
        return AdminClient(dict(settings.admin()))


class TopicAdmin:
    """Queries of one topic; every method raises LogError (TopicErrors). Thread-safe."""

    def __init__(
        self,
        client: AdminClient,
        topic: str,
        topic_errors: TopicErrors,
        is_closed: Callable[[], bool],
    ) -> None:
        self._topic = topic
        self._partition = TopicPartition(topic, 0)
        self._topic_errors = topic_errors
        self._is_closed = is_closed
        self._client = client

    def cluster_id(self) -> str:
        found = self._client.describe_cluster(request_timeout=_REQUEST_TIMEOUT_S)
        return str(self._result(found, "asking for the cluster's id").cluster_id)

    def broker_count(self) -> int:
        """Number of live brokers."""
        return len(self.broker_addresses())

    def broker_addresses(self) -> list[tuple[str, int]]:
        """Host and port of each live broker."""
        found = self._client.describe_cluster(request_timeout=_REQUEST_TIMEOUT_S)
        return [(node.host, node.port) for node in self._result(found, "asking for the brokers").nodes]

    def leader_address(self) -> tuple[str, int]:
        """Host and port of the topic's leader."""
        leader = self._description().partitions[0].leader
        if leader is None:
            raise self._topic_errors.no_leader(_DESCRIBING)
        return leader.host, leader.port

    def topic_id(self) -> Uuid:
        """Id of the topic that has this name now."""
        return _topic_id(self._description())

    def end(self) -> LogEnd:
        """The current end of committed records."""
        return _log_end(self._offset(_END))

    def uncommitted_end(self) -> int:
        """The current end with the records of open transactions."""
        return int(self._offset(_UNCOMMITTED_END).offset)

    def start(self) -> int:
        """The current first offset."""
        return int(self._offset(_START).offset)

    def create(self, topic: NewTopic) -> None:
        """Create the topic; returns when the cluster has acknowledged it."""
        found = self._client.create_topics([topic], request_timeout=_REQUEST_TIMEOUT_S)
        self._result(found[self._topic], "creating the topic")

    def _description(self) -> Any:
        (found,) = _pending_descriptions([self])
        return self._result(found, _DESCRIBING)

    def _offset(self, query: _OffsetQuery) -> Any:
        (found,) = _pending_offsets([self], query)
        return self._offset_result(found, query)

    def _offset_result(self, future: Future[Any], query: _OffsetQuery) -> Any:
        try:
            result = self._result(future, query.doing)
            if result.offset < 0:
                # The client may report a partition without a reachable leader like this.
                raise self._topic_errors.no_leader(query.doing)
        except NoLeaderError:
            # The client may report a deleted topic like this, so ask the cluster.
            self._description()
            raise
        return result

    def _result(self, future: Future[_T], doing: str) -> _T:
        deadline_s = time.monotonic() + 2 * _REQUEST_TIMEOUT_S
        while True:
            try:
                return future.result(_CLOSE_CHECK_INTERVAL_S)
            except FutureTimeoutError:
                if self._is_closed():
                    raise LogError("the log is closed") from None
                if time.monotonic() > deadline_s:
                    raise self._topic_errors.no_answer(doing, 2 * _REQUEST_TIMEOUT_S) from None
            except KafkaException as exception:
                self._client.poll(0)  # delivers the errors of the connections
                raise self._topic_errors.translate(exception.args[0], doing) from exception


class ClusterClient:
    """An admin client, the last errors of its connections, and its cluster's id. Thread-safe.

    Raises:
        LogError: see admin_client.
    """

    def __init__(self, where: TopicUrl, client: Mapping[str, str] | None) -> None:
        self.errors = ClientErrors(client)
        settings = ClientSettings(where, client or {}, self.errors)
        self.client = admin_client(settings, TopicErrors(where, self.errors))
        self._id: tuple[str, float] | None = None

    def cluster_id(self, admin: TopicAdmin, age_s: float) -> str:
        """The cluster's id, queried at most ``age_s`` ago: another cluster may have its address now."""
        if self._id is None or time.monotonic() - self._id[1] >= age_s:
            queried_at_s = time.monotonic()
            self._id = admin.cluster_id(), queried_at_s
        return self._id[0]


_COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """The relevant settings of a topic.

    Attributes:
        topic_id: its id.
        partitions: their number; a log has one.
        cleanup_policy: ``compact`` for a log.
        delete_retention_ms: minimum time that a removal remains in the log.
        message_bytes_max: of one record.
    """

    topic_id: Uuid
    partitions: int
    cleanup_policy: str
    delete_retention_ms: int
    message_bytes_max: int


@dataclass(frozen=True, slots=True)
class TopicConnection:
    """What connecting to a topic has queried."""

    cluster_id: str
    topic: TopicDescription


@dataclass(frozen=True, slots=True)
class TopicState:
    """Id and offsets of a topic.

    Attributes:
        end: of committed records.
        uncommitted_end: with the records of open transactions.
    """

    topic_id: Uuid
    start: int
    end: LogEnd
    uncommitted_end: int


def describe_topic(admin: TopicAdmin) -> TopicDescription:
    """Query the relevant settings; raises as TopicAdmin."""
    (found,) = describe_topics([admin])
    if isinstance(found, LogError):
        raise found
    return found


def describe_topics(admins: Sequence[TopicAdmin]) -> list[TopicDescription | LogError]:
    """Query the relevant settings of topics, with one request of each kind for all of them.

    ``admins``: with the same client. A topic's error does not affect the others.
    """
    resources = [ConfigResource(ResourceType.TOPIC, admin._topic) for admin in admins]
    configs = admins[0]._client.describe_configs(
        list(dict.fromkeys(resources)), request_timeout=_REQUEST_TIMEOUT_S
    )
    topics = _pending_descriptions(admins)

    def described(admin: TopicAdmin, resource: ConfigResource, topic: Future[Any]) -> TopicDescription:
        entries = admin._result(configs[resource], "asking for the topic's settings")
        config = {name: entry.value for name, entry in entries.items() if entry.value is not None}
        found = admin._result(topic, _DESCRIBING)
        return TopicDescription(
            topic_id=_topic_id(found),
            partitions=len(found.partitions),
            cleanup_policy=config["cleanup.policy"],
            delete_retention_ms=int(config["delete.retention.ms"]),
            message_bytes_max=int(config["max.message.bytes"]),
        )

    return [_caught(partial(described, *each)) for each in zip(admins, resources, topics, strict=True)]


def query_topics(admins: Sequence[TopicAdmin]) -> list[TopicState | LogError]:
    """Query the ids and offsets of topics; otherwise as ``describe_topics``."""

    def described(admin: TopicAdmin, topic: Future[Any]) -> Any:
        found = admin._result(topic, _DESCRIBING)
        if found.partitions[0].leader is None:
            # The client would wait for it, before it answers about any topic.
            raise admin._topic_errors.no_leader(_DESCRIBING)
        return found

    topics = [
        _caught(partial(described, *each)) for each in zip(admins, _pending_descriptions(admins), strict=True)
    ]
    led = [admin for admin, found in zip(admins, topics, strict=True) if not isinstance(found, LogError)]
    queries = (_START, _END, _UNCOMMITTED_END)
    pending = [_pending_offsets(led, query) for query in queries]
    offsets = dict(zip(led, zip(*pending, strict=True), strict=True))

    def state(admin: TopicAdmin, topic: Any) -> TopicState:
        if isinstance(topic, LogError):
            raise topic
        start, end, uncommitted_end = map(admin._offset_result, offsets[admin], queries)
        return TopicState(_topic_id(topic), int(start.offset), _log_end(end), int(uncommitted_end.offset))

    return [_caught(partial(state, *each)) for each in zip(admins, topics, strict=True)]


def query_ends(admins: Sequence[TopicAdmin]) -> list[int | LogError]:
    """Query the ends of the committed records of topics; otherwise as ``describe_topics``."""
    return _query_offsets(admins, _END)


def query_starts(admins: Sequence[TopicAdmin]) -> list[int | LogError]:
    """Query the first offsets of topics; otherwise as ``describe_topics``."""
    return _query_offsets(admins, _START)


def _query_offsets(admins: Sequence[TopicAdmin], query: _OffsetQuery) -> list[int | LogError]:
    def offset(admin: TopicAdmin, pending: Future[Any]) -> int:
        return int(admin._offset_result(pending, query).offset)

    pending = _pending_offsets(admins, query)
    return [_caught(partial(offset, *each)) for each in zip(admins, pending, strict=True)]


def _pending_descriptions(admins: Sequence[TopicAdmin]) -> list[Future[Any]]:
    topics = TopicCollection(list(dict.fromkeys(admin._topic for admin in admins)))
    found = admins[0]._client.describe_topics(topics, request_timeout=_REQUEST_TIMEOUT_S)
    return [found[admin._topic] for admin in admins]


def _pending_offsets(admins: Sequence[TopicAdmin], query: _OffsetQuery) -> list[Future[Any]]:
    if not admins:
        return []
    found = admins[0]._client.list_offsets(
        {admin._partition: query.spec for admin in admins},
        isolation_level=query.isolation,
        request_timeout=_REQUEST_TIMEOUT_S,
    )
    return [found[admin._partition] for admin in admins]


def _topic_id(description: Any) -> Uuid:
    # The client uses the standard base64 alphabet, not the URL-safe one.
    return uuid_from_string(str(description.topic_id).replace("+", "-").replace("/", "_"))


def _log_end(found: Any) -> LogEnd:
    return LogEnd(int(found.offset), -1 if found.leader_epoch is None else found.leader_epoch)


def _caught(function: Callable[[], _T]) -> _T | LogError:
    try:
        return function()
    except LogError as error:
        return error


def check_topic(where: TopicUrl, topic: TopicDescription) -> None:
    """Check that the topic can be a log. Raises LogError: the setting that prevents it, and the way out."""
    if topic.partitions != 1:
        raise LogError(
            f"{where.text}: the topic has {topic.partitions} partitions, and a log is one: records of "
            "several partitions have no order. Make another topic with `aclog log create`"
        )
    if topic.cleanup_policy != _COMPACT:
        raise LogError(
            f"{where.text}: cleanup.policy is `{topic.cleanup_policy}`, which deletes ACLs that are in "
            f"force; it must be `{_COMPACT}`: {_alter(where, f'cleanup.policy={_COMPACT}')}"
        )
    if topic.delete_retention_ms <= 0:
        raise LogError(
            f"{where.text}: delete.retention.ms is {topic.delete_retention_ms}: a log that deletes removals "
            f"immediately cannot be followed: {_alter(where, 'delete.retention.ms=604800000')}"
        )


def _alter(where: TopicUrl, config: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {where.bootstrap_servers} --alter --entity-type topics "
        f"--entity-name {where.topic} --add-config {config}"
    )


REPLICATION_FACTOR: Final = 3
MIN_INSYNC_REPLICAS: Final = 2
_DAY_MS: Final = 24 * 3600 * 1000
#: A week: a node that was offline for up to half of it continues from its last position.
DELETE_RETENTION_MS: Final = 7 * _DAY_MS

# A new topic is not visible at all brokers immediately.
_VISIBLE_TIMEOUT_S: Final = 10.0
_VISIBLE_CHECK_INTERVAL_S: Final = 0.05

_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    # An acknowledged ACL must not be lost in favour of availability.
    "unclean.leader.election.enable": "false",
    "message.timestamp.type": "CreateTime",
    # Only closed segments are compacted. A million ACLs are some 200 MB: a few segments. The last one is
    # closed at least once a day.
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(_DAY_MS),
    # Such a log is compacted in seconds, and nodes start faster with a shorter log: do not wait until half of
    # it is superseded.
    "min.cleanable.dirty.ratio": "0.1",
    # Bounds the time until a removed ACL is deleted from the log, together with delete.retention.ms.
    "max.compaction.lag.ms": str(_DAY_MS),
    # Nodes that are up to date never see a gap.
    "min.compaction.lag.ms": str(10 * 60 * 1000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Settings of a new topic.

    Attributes:
        min_insync_replicas: number of copies that must have a write before it is acknowledged.
        delete_retention_ms: how long a removal remains in the log. Nodes and snapshots older than half of it
            start from the beginning of the log (I10).
        config: more topic settings of Kafka, which override the defaults (`segment.ms`, ...).
    """

    replication_factor: int = REPLICATION_FACTOR
    min_insync_replicas: int = MIN_INSYNC_REPLICAS
    delete_retention_ms: int = DELETE_RETENTION_MS
    config: Mapping[str, str] | None = None


def make_topic(where: TopicUrl, admin: TopicAdmin, settings: TopicSettings) -> Uuid:
    """Create the topic; returns its id once it is visible.

    Raises:
        LogError: inconsistent settings, or more copies than brokers; or as TopicAdmin.
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
    """Create the topic at ``kafka://HOST:PORT[,...]/TOPIC``; returns the log's identity.

    Raises:
        LogError: it exists already; fewer brokers than copies; Kafka refused.
        LogUnreachableError, LogRefusedError: the cluster does not answer, or denies access.
    """
    where, errors = parse_topic_url(url), ClientErrors(client)
    topic_errors = TopicErrors(where, errors)
    made = admin_client(ClientSettings(where, client or {}, errors), topic_errors)
    admin = TopicAdmin(made, where.topic, topic_errors, lambda: False)
    if topic_exists(admin):
        raise LogError(f"{url}: there is a topic `{where.topic}` already; nothing was changed")
    topic_id = make_topic(where, admin, settings or TopicSettings())
    return LogIdentity(admin.cluster_id(), topic_id)


def matching_topics(bootstrap_servers: str, pattern: JavaPattern, client: Mapping[str, str]) -> list[str]:
    """Names that match completely, sorted, without Kafka's internal topics.

    Raises:
        LogError: invalid servers or client settings.
        LogUnreachableError, LogRefusedError: the cluster does not answer, or denies access.
    """
    url = f"{TOPIC_SCHEME}{bootstrap_servers}"
    parse_bootstrap_servers(url, bootstrap_servers, TOPIC_FORM)
    errors = ClientErrors(client)
    where = TopicUrl(url, bootstrap_servers, "")
    topic_errors = TopicErrors(where, errors)
    admin = admin_client(ClientSettings(where, client, errors), topic_errors)
    with topic_errors.translated("listing the topics"):
        try:
            names = sorted(filter(pattern.fullmatch, admin.list_topics(timeout=_REQUEST_TIMEOUT_S).topics))
            if not names:
                return []
            found = admin.describe_topics(TopicCollection(names), request_timeout=_REQUEST_TIMEOUT_S)
            return [name for name in names if not found[name].result().is_internal]
        except KafkaException:
            admin.poll(0)  # delivers the errors of the connections
            raise
