"""The logs that a job follows, and the binding of its checkpoint to them.

A log is named by its URL, or found by a pattern: all topics of one cluster whose names match. A log's
cluster id is its key everywhere. A pattern with a group finds the logs of a fleet: the group's match in a
topic's name is the id of the cluster whose ACLs the topic holds, which is not the cluster that hosts the
topic.

A checkpoint is bound to its logs by the file ``<checkpoint>/aclog-logs.json``: ``bind_checkpoint`` refuses
others, and a topic that was deleted and created again. Where Spark cannot continue its position, the job
continues in a new directory below its checkpoint, at its newest stored states: those are the commits of its
batches.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from records.errors import AclogError, LogError, LogNotFoundError
from records.ids import uuid_to_string
from records.java_pattern import JavaPattern
from records.log.base import LogIdentity
from records.log.client_keys import NamedSettings, keys_of
from records.log.open import matching_topics, open_log
from records.log.shared_clients import SharedClients
from records.log.url import DIRECTORY, POLLED, TOPIC, TOPIC_SCHEME, kind_of, parse_topic_url
from records.log.views import connect_logs
from snapshot.errors import CheckpointForeignError, SnapshotError
from snapshot.jobs.sources.log_failures import answered, caught, for_logs
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from records.log.base import MetadataLog
    from snapshot.jobs.sources.log_failures import LogFailures

_T = TypeVar("_T")

BINDING_NAME: Final = "aclog-logs.json"
#: Directories of later sets of logs in the checkpoint of a fleet.
_FLEET: Final = "fleet-"
_FLEET_NAME: Final = re.compile(r"fleet-[1-9][0-9]*")
#: The directory of Spark's offset log in a checkpoint.
_OFFSETS: Final = "offsets"
#: Version 1 had several sources, and topics by their names: Spark's position there has another form.
_VERSION: Final = 2
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLog:
    """One log of a job.

    Attributes:
        url: ``file:DIR``, a path, ``kafka://HOST:PORT/TOPIC``, or ``kraft://HOST:PORT``.
        identity: its identity when the job started; the cluster id is the log's key everywhere.
        kafka: client settings of its cluster, ``aclog.kafka.*`` without that prefix; may hold secrets.
        is_of_fleet: the cluster id comes from the topic's name; the topic is on another cluster.
        shared: clients of the job's logs.
        connection: what was queried for ``identity``; see MetadataLog.
    """

    url: str
    identity: LogIdentity
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_of_fleet: bool = False
    shared: SharedClients | None = field(default=None, repr=False, compare=False)
    connection: object | None = field(default=None, repr=False, compare=False)

    @property
    def topic(self) -> str | None:
        """The topic's name; None if the log is not in a topic."""
        return parse_topic_url(self.url).topic if kind_of(self.url) == TOPIC else None

    @property
    def bootstrap_servers(self) -> str | None:
        """The topic's ``HOST:PORT[,HOST:PORT...]``; None if the log is not in a topic."""
        return parse_topic_url(self.url).bootstrap_servers if kind_of(self.url) == TOPIC else None

    def open(self) -> MetadataLog:
        """Open the log for reading; a topic without ``connection`` is not connected yet (``connected``).

        The caller compares its identity (I9).

        Raises:
            LogError: it cannot be opened; see open_log.
        """
        return open_log(
            self.url,
            client=self.kafka,
            lazily=self.topic is not None,
            shared=self.shared,
            connection=self.connection,
        )


def resolve_logs(urls: Sequence[str], *, kafka: Mapping[str, str] = _NO_SETTINGS) -> list[FollowedLog]:
    """Open each log and return its identity with it.

    Args:
        urls: of logs; the result has the same order.
        kafka: ``aclog.kafka.*`` without that prefix, for all clusters.

    Raises:
        LogError: a log cannot be opened, or two logs have the same cluster id.
    """
    logs = [answered(found) for found in _identified(urls, kafka, SharedClients())]
    if not logs:
        raise LogError("no log to follow was named: give --log or --topics-pattern")
    require_distinct_clusters(logs)
    return logs


def require_distinct_clusters(logs: Sequence[FollowedLog]) -> None:
    """Raise LogError if two logs have the same cluster id."""
    by_cluster: dict[str, FollowedLog] = {}
    for log in logs:
        other = by_cluster.setdefault(log.identity.cluster_id, log)
        if other is not log:
            raise LogError(
                f"{other.url} and {log.url} are both logs of cluster {log.identity.cluster_id}; one job "
                "cannot separate them. Use two jobs, or follow topics of a fleet by a pattern whose group is "
                "the cluster id: --topics-pattern 'acls-(.+)'"
            )


def cluster_count(logs: Sequence[FollowedLog]) -> int:
    """The number of clusters and directories that have the logs."""
    return len({log.bootstrap_servers or log.url for log in logs})


def bind_checkpoint(checkpoint_url: str, logs: Sequence[FollowedLog]) -> str:
    """Check that a checkpoint belongs to these logs, bind a new one to them; returns Spark's directory.

    That is the checkpoint itself, or the newest directory below it. Call it before the query starts. A log
    may have moved, because it is identified by ids, and logs may join. None may be removed or replaced.

    Raises:
        CheckpointForeignError: it belongs to other logs, or was not made by aclog.
        SnapshotError: the checkpoint cannot be read or written.
    """
    root = Storage(checkpoint_url)
    numbers = _fleet_numbers(root)
    number = max(numbers, default=0)
    storage = Storage(_fleet_url(checkpoint_url, number))
    bound, bound_logs = _read_binding(storage), _bound_logs(logs)
    if bound is not None:
        _check_binding(storage.shown(""), bound.all_logs, bound_logs)
    elif storage.files(_OFFSETS):
        raise CheckpointForeignError(
            f"{storage.shown('')} is the checkpoint of a query that is not aclog's: it has no "
            f"{BINDING_NAME}. Start with another --checkpoint"
        )
    if bound is not None and bound.version < _VERSION:
        number += 1
    url = _fleet_url(checkpoint_url, number)
    binding = _Binding(version=_VERSION, logs=bound_logs, known={} if bound is None else bound.known)
    if bound != binding:
        _put_binding(Storage(url), binding)
        _remove_older(root, numbers, number)
    return url


def fleet_checkpoint(
    checkpoint_url: str, logs: Sequence[FollowedLog], failures: LogFailures, *, is_new: bool
) -> tuple[str, list[FollowedLog]]:
    """The checkpoint for these logs of a fleet, bound to them, and those of them that it may follow.

    A checkpoint continues with the same logs only. For others it is a new directory below the job's, in which
    the job starts at its newest stored states.

    Args:
        checkpoint_url: of the job.
        logs: to follow now.
        failures: takes those that were replaced by another log since an earlier run.
        is_new: use a new directory in any case. Older directories are removed.

    Raises:
        CheckpointForeignError: it was not made by aclog.
        SnapshotError: it cannot be read or written.
    """
    root = Storage(checkpoint_url)
    numbers = _fleet_numbers(root)
    number = max(numbers, default=0)
    bound = _read_binding(Storage(_fleet_url(checkpoint_url, number)))
    of_bound = [] if bound is None else bound.all_logs
    known = ({} if bound is None else bound.known) | {log.cluster_id: log.topic_id for log in of_bound}
    usable: list[FollowedLog] = []
    for log in logs:
        topic_id = uuid_to_string(log.identity.topic_id)
        if known.setdefault(log.identity.cluster_id, topic_id) == topic_id:
            usable.append(log)
        else:
            failures.by_cluster[log.identity.cluster_id] = (
                f"the checkpoint {root.shown('')} belongs to topic id {known[log.identity.cluster_id]}, but "
                f"{log.url} has {topic_id} (deleted and created again?). Start with another --checkpoint"
            )
    wanted = {log.identity.cluster_id for log in usable}
    if bound is not None and (
        is_new or bound.version < _VERSION or wanted != {log.cluster_id for log in of_bound}
    ):
        number += 1
    url = _fleet_url(checkpoint_url, number)
    if usable and (number or bound is not None):
        _put_binding(Storage(url), _Binding(version=_VERSION, logs=_bound_logs(usable), known=known))
        _remove_older(root, numbers, number)
    return url, usable


def _remove_older(root: Storage, numbers: Sequence[int], number: int) -> None:
    """Remove the directories before the newest one.

    Nothing refers to them: the newest binding has all that is known, and the stored states say where the job
    continues.
    """
    with suppress(SnapshotError):
        for older in numbers:
            if older < number:
                root.remove_tree(f"{_FLEET}{older}")


def _fleet_numbers(storage: Storage) -> list[int]:
    names = storage.directories("")
    return [int(name.removeprefix(_FLEET)) for name in names if _FLEET_NAME.fullmatch(name)]


def _fleet_url(checkpoint_url: str, number: int) -> str:
    return f"{checkpoint_url.rstrip('/')}/{_FLEET}{number}" if number else checkpoint_url


def _bound_logs(logs: Sequence[FollowedLog]) -> list[_BoundLog]:
    return [
        _BoundLog(
            cluster_id=log.identity.cluster_id,
            topic_id=uuid_to_string(log.identity.topic_id),
            url=log.url,
            kind=kind_of(log.url),
        )
        for log in logs
    ]


class _BoundLog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A log in the binding."""

    cluster_id: str
    topic_id: str
    url: str
    kind: str


class _Binding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The binding file."""

    version: int
    logs: list[_BoundLog] = []
    #: The logs of version 1, by source.
    sources: list[list[_BoundLog]] = []
    #: Topic id by cluster id of all logs of a fleet, also of those that it does not have now.
    known: dict[str, str] = {}

    @property
    def all_logs(self) -> list[_BoundLog]:
        return self.logs or [log for source in self.sources for log in source]


def _put_binding(storage: Storage, binding: _Binding) -> None:
    storage.put(BINDING_NAME, msgspec.json.format(msgspec.json.encode(binding)) + b"\n")


def _read_binding(storage: Storage) -> _Binding | None:
    try:
        data = storage.read(BINDING_NAME)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=_Binding)
    except msgspec.MsgspecError as error:
        raise CheckpointForeignError(
            f"{storage.shown(BINDING_NAME)}, which binds the checkpoint to its logs, is damaged: {error}. "
            "Start with another --checkpoint"
        ) from error


def _check_binding(checkpoint: str, bound: Sequence[_BoundLog], wanted: Sequence[_BoundLog]) -> None:
    """Refuse logs that replace the bound ones, or lack one of them."""
    topic_ids = {log.cluster_id: log.topic_id for log in bound}
    for log in wanted:
        topic_id = topic_ids.get(log.cluster_id, log.topic_id)
        if topic_id != log.topic_id:
            raise CheckpointForeignError(
                f"the checkpoint {checkpoint} belongs to another log of cluster {log.cluster_id}: topic id "
                f"{topic_id}, but {log.url} has {log.topic_id} (deleted and created again?). Start with "
                "another --checkpoint"
            )
    if not topic_ids.keys() <= {log.cluster_id for log in wanted}:
        raise CheckpointForeignError(
            f"the checkpoint {checkpoint} belongs to {_names(bound)}, but the job follows {_names(wanted)}. "
            "A checkpoint continues the same logs, and more. Start with another --checkpoint; the job "
            "continues the snapshots in the store"
        )


def _names(logs: Sequence[_BoundLog]) -> str:
    return ", ".join(f"{log.url} ({log.cluster_id})" for log in logs)


def _identified(
    urls: Sequence[str], kafka: Mapping[str, str], shared: SharedClients
) -> list[FollowedLog | AclogError]:
    """Each log with its identity, or its error; the topics of a cluster are asked together."""

    def opened(url: str) -> MetadataLog:
        if kind_of(url) == POLLED:
            raise LogError(
                f"{url}: jobs do not poll brokers. Give the directory in which a node stores the polled ACLs "
                "(file:DIR), or the snapshots that it writes with `aclog serve --snapshots`"
            )
        return open_log(url, client=_client_of(url, kafka), lazily=kind_of(url) == TOPIC, shared=shared)

    def identified(url: str, found: MetadataLog | AclogError) -> FollowedLog | AclogError:
        if isinstance(found, AclogError):
            return found
        client = _client_of(url, kafka)
        settings = NamedSettings(client, keys_of(client))
        found.close()
        return FollowedLog(
            url=url, identity=found.identity, kafka=settings, shared=shared, connection=found.connection
        )

    return [identified(url, found) for url, found in zip(urls, connected(opened, urls), strict=True)]


def connected(open_one: Callable[[_T], MetadataLog], items: Sequence[_T]) -> list[MetadataLog | AclogError]:
    """The log of each item, connected, or its error; the topics of a cluster are asked together."""
    opened = for_logs(caught(open_one), items)
    logs = [log for log in opened if not isinstance(log, AclogError)]
    errors = {id(log): error for log, error in zip(logs, connect_logs(logs), strict=True)}
    return [errors.get(id(log)) or log for log in opened]


def _client_of(url: str, kafka: Mapping[str, str]) -> Mapping[str, str]:
    return {} if kind_of(url) == DIRECTORY else kafka


class NamedLogs:
    """Logs by their URLs, and the topics of a pattern, of a job in which one may fail."""

    def __init__(
        self,
        urls: Sequence[str],
        kafka: Mapping[str, str] = _NO_SETTINGS,
        pattern: TopicsPattern | None = None,
    ) -> None:
        self._urls, self._kafka, self._pattern = tuple(urls), kafka, pattern
        self._shared = SharedClients()

    def names(self) -> list[str]:
        """The URLs, and the topics that match now; errors as TopicsPattern."""
        return [*self._urls, *(self._pattern.names() if self._pattern is not None else ())]

    def resolve(self, names: Sequence[str], failures: LogFailures) -> list[FollowedLog]:
        """Open each log and return its identity with it; ``failures`` takes the errors, by name."""
        urls = [name for name in names if name in self._urls]
        named: list[FollowedLog] = []
        for url, log in zip(urls, _identified(urls, self._kafka, self._shared), strict=True):
            with failures.collect(url, has_own_cluster=True):
                named.append(answered(log))
        topics = [name for name in names if name not in self._urls]
        found = [] if self._pattern is None else self._pattern.resolve(topics, failures)
        return [*named, *found]


class TopicsPattern:
    """All topics of a cluster whose complete name matches a regular expression.

    Args:
        bootstrap_servers: of the cluster.
        regex: its group, if it has one, is the cluster id; without a group only one topic may match.
        kafka: client settings, ``aclog.kafka.*`` without that prefix.

    Raises:
        LogError: the pattern is invalid.
    """

    def __init__(self, bootstrap_servers: str, regex: str, kafka: Mapping[str, str] = _NO_SETTINGS) -> None:
        try:
            self._pattern = JavaPattern.compile_for_java(regex)
        except ValueError as error:
            raise LogError(f"invalid topics pattern: {error}") from error
        if self._pattern.groups > 1:
            raise LogError(
                f"the topics pattern `{regex}` has {self._pattern.groups} groups, but only the cluster id "
                "may be one. Write (?:...) for the others"
            )
        self._bootstrap_servers, self._regex, self._kafka = bootstrap_servers, regex, kafka
        self._shared = SharedClients()

    def names(self) -> list[str]:
        """The topics that match now.

        Raises:
            LogError: none, or several without a group.
            LogUnreachableError, LogRefusedError: see matching_topics.
        """
        names = matching_topics(self._bootstrap_servers, self._pattern, client=self._kafka)
        if not names:
            raise LogNotFoundError(
                f"{TOPIC_SCHEME}{self._bootstrap_servers}: no topic name matches the pattern `{self._regex}` "
                "completely"
            )
        if not self._pattern.groups and len(names) > 1:
            raise LogError(
                f"{len(names)} topics match `{self._regex}` ({_some(names)}), but their clusters are "
                "unknown: put the part of the name that is the cluster id into a group, as in 'acls-(.+)'"
            )
        return names

    def resolve(self, topics: Sequence[str], failures: LogFailures) -> list[FollowedLog]:
        """Open each topic and return its identity with it; ``failures`` takes the errors, by topic."""
        urls = [f"{TOPIC_SCHEME}{self._bootstrap_servers}/{topic}" for topic in topics]
        found: list[FollowedLog] = []
        for topic, log in zip(topics, _identified(urls, self._kafka, self._shared), strict=True):
            with failures.collect(topic):
                found.append(self._resolved(topic, answered(log)))
        return found

    def _resolved(self, topic: str, log: FollowedLog) -> FollowedLog:
        if not self._pattern.groups:
            return log
        match = self._pattern.fullmatch(topic)
        cluster_id = match.group(1) if match else None
        if not cluster_id:
            raise LogError(f"the group of the topics pattern `{self._regex}` is empty in topic `{topic}`")
        return replace(log, identity=LogIdentity(cluster_id, log.identity.topic_id), is_of_fleet=True)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _name(identity: LogIdentity) -> str:
    return f"topic id {uuid_to_string(identity.topic_id)} of cluster {identity.cluster_id}"
