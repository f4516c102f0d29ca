"""Which logs a job follows, and that its checkpoint belongs to them.

A log is named by its URL, or found: all topics of one cluster whose names match. A log's cluster id is its
key everywhere. Topics that are found by a pattern with a group are the logs of a fleet: what the group
matches in a topic's name is the id of the cluster that the topic belongs to, for the cluster that holds the
topics is another one.

Spark binds a checkpoint to its sources by their number and order, and to a topic by its name. What it cannot
see, a topic that was deleted and created again or logs that changed places, is refused here:
``bind_checkpoint`` writes beside Spark's own files

    <checkpoint>/aclog-logs.json
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from records.errors import LogError, LogNotFoundError, LogUnreachableError
from records.ids import uuid_to_string
from records.java_pattern import JavaPattern
from records.log.base import LogIdentity
from records.log.open import DIRECTORY, POLLED, QUORUM, TOPIC, kind_of, matching_topics, open_log
from records.log.topic.url import SCHEME, parse_topic_url
from snapshot.errors import CheckpointForeignError, SparkJobError
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from records.log.base import MetadataLog

BINDING_NAME: Final = "aclog-logs.json"
#: Where Spark's own offset log is, below a checkpoint.
_OFFSETS: Final = "offsets"
_VERSION: Final = 1
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLog:
    """One log of a job. Goes to executors.

    Attributes:
        url: ``file:DIR``, a path, ``kafka://HOST:PORT/TOPIC``, or ``kraft://HOST:PORT``.
        identity: which log it was when the job started; its cluster id is the log's key everywhere.
        kafka: client settings for asking its cluster, ``aclog.kafka.*`` without that prefix; maybe secrets.
        is_of_fleet: the cluster id is from the topic's name, and not that of the cluster which has the topic.
    """

    url: str
    identity: LogIdentity
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_of_fleet: bool = False

    @property
    def topic(self) -> str | None:
        """Its topic's name; None where it is in none."""
        return parse_topic_url(self.url).topic if kind_of(self.url) == TOPIC else None

    @property
    def bootstrap_servers(self) -> str | None:
        """Where its topic is, ``HOST:PORT[,HOST:PORT...]``; None where it is in none."""
        return parse_topic_url(self.url).bootstrap_servers if kind_of(self.url) == TOPIC else None

    def open(self) -> MetadataLog:
        """Open it to read, and see that it still is the log that the job follows (I9).

        Raises:
            LogError: it cannot be had; as open_log.
            CheckpointForeignError: another log is in its place.
        """
        log = open_log(self.url, client=self.kafka)
        found = log.identity
        if found.topic_id != self.identity.topic_id or (
            found.cluster_id != self.identity.cluster_id and not self.is_of_fleet
        ):
            log.close()
            raise CheckpointForeignError(
                f"{self.url}: the job follows {_name(self.identity)}, and this is {_name(found)}: another "
                "log was made in its place. Start with another --checkpoint to follow that one"
            )
        return log


def resolve_logs(
    urls: Sequence[str],
    *,
    kafka: Mapping[str, str] = _NO_SETTINGS,
    topics_pattern: tuple[str, str] | None = None,
) -> list[FollowedLog]:
    """Look at each log and say which it is.

    Args:
        urls: of logs, in an order that decides nothing but the order of the answer.
        kafka: ``aclog.kafka.*`` without that prefix, for all clusters.
        topics_pattern: bootstrap servers, and a regular expression: all topics there whose whole names match.
            Its group, if it has one, gives the cluster id; without a group only one topic may match.

    Raises:
        LogError: a log cannot be had, the pattern makes no sense or matches nothing, or two logs are of one
            cluster.
    """
    logs = [_named(url, kafka) for url in urls]
    if topics_pattern is not None:
        logs += _found(*topics_pattern, kafka)
    if not logs:
        raise LogError("no log to follow was named")
    by_cluster: dict[str, FollowedLog] = {}
    for log in logs:
        other = by_cluster.setdefault(log.identity.cluster_id, log)
        if other is not log:
            raise LogError(
                f"{other.url} and {log.url} are both logs of cluster {log.identity.cluster_id}: one job "
                "would mix them. Follow them by two jobs, or topics of a fleet by a pattern whose group is "
                "the cluster id: --topics-pattern 'acls-(.+)'"
            )
    return logs


def sources_of(logs: Sequence[FollowedLog]) -> list[tuple[FollowedLog, ...]]:
    """The logs by the source that reads them: each log of batches by one, all topics of one bootstrap by one.

    The order of the sources in a job's plan, and so in Spark's checkpoint, is the order of this list.
    """
    sources: dict[str, list[FollowedLog]] = {}
    for log in logs:
        sources.setdefault(log.bootstrap_servers or f"{kind_of(log.url)}:{log.url}", []).append(log)
    return [tuple(source) for source in sources.values()]


def ends_early(url: str, end: int, wanted: int) -> LogUnreachableError | SparkJobError:
    """The error where a log has less than it had: a controller's word may be that of a leader of the past."""
    if kind_of(url) == QUORUM:
        return LogUnreachableError(
            f"{url}: the controller that answered says that the log is committed up to offset {end}, and "
            f"{wanted} was: it leads no more, which passes, or the cluster was put back from a backup. Start "
            "again; with another checkpoint only if this stays"
        )
    return SparkJobError(
        f"{url}: the log was truncated: it ends at offset {end}, and {wanted} was to be read next. Start "
        "again with another checkpoint"
    )


def bind_checkpoint(checkpoint_url: str, logs: Sequence[FollowedLog]) -> None:
    """See that a checkpoint belongs to these logs; a fresh one does from now on.

    To be called before the query is started. A directory or cluster may have moved: its log is known by its
    identity. A topic may join those of its cluster (Spark reads it from its first offset); nothing else may
    come, go, or change places.

    Raises:
        CheckpointForeignError: it belongs to other logs, or to none that aclog knows; with the way out.
        SnapshotError: the checkpoint's storage refused.
    """
    storage = Storage(checkpoint_url)
    sources = [
        [
            _BoundLog(
                cluster_id=log.identity.cluster_id,
                topic_id=uuid_to_string(log.identity.topic_id),
                url=log.url,
                kind=kind_of(log.url),
            )
            for log in source
        ]
        for source in sources_of(logs)
    ]
    bound = _read_binding(storage)
    if bound is not None:
        _check_binding(storage.shown(""), bound.sources, sources)
    elif storage.files(_OFFSETS):
        raise CheckpointForeignError(
            f"{storage.shown('')} is the checkpoint of a query that is none of aclog's: it has no "
            f"{BINDING_NAME}. Start with another --checkpoint"
        )
    binding = _Binding(version=_VERSION, sources=sources)
    if bound != binding:
        storage.put(BINDING_NAME, msgspec.json.format(msgspec.json.encode(binding)) + b"\n")


class _BoundLog(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A log as the binding names it."""

    cluster_id: str
    topic_id: str
    url: str
    kind: str


class _Binding(msgspec.Struct, frozen=True, kw_only=True):
    """The file: the logs by source, in the order of Spark's checkpoint."""

    version: int
    sources: list[list[_BoundLog]]


def _read_binding(storage: Storage) -> _Binding | None:
    try:
        data = storage.read(BINDING_NAME)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(data, type=_Binding)
    except msgspec.MsgspecError as error:
        raise CheckpointForeignError(
            f"{storage.shown(BINDING_NAME)} does not say which logs the checkpoint belongs to: {error}. "
            "Start with another --checkpoint"
        ) from error


def _check_binding(
    checkpoint: str, bound: Sequence[Sequence[_BoundLog]], wanted: Sequence[Sequence[_BoundLog]]
) -> None:
    """Refuse what Spark would take for the same sources, or cannot go on from."""
    topic_ids = {log.cluster_id: log.topic_id for source in bound for log in source}
    for log in (log for source in wanted for log in source):
        topic_id = topic_ids.get(log.cluster_id, log.topic_id)
        if topic_id != log.topic_id:
            raise CheckpointForeignError(
                f"the checkpoint {checkpoint} belongs to another log of cluster {log.cluster_id}: topic id "
                f"{topic_id}, and {log.url} has {log.topic_id} (deleted and created again?). Start with "
                "another --checkpoint"
            )
    if len(bound) != len(wanted) or not all(map(_continues, bound, wanted)):
        raise CheckpointForeignError(
            f"the checkpoint {checkpoint} is of {_names(bound)}, and the job is to follow {_names(wanted)}. "
            "Spark goes on with the same logs in the same order, or with more topics of the same cluster. "
            "Start with another --checkpoint; the snapshots in the store are used further"
        )


def _continues(bound: Sequence[_BoundLog], wanted: Sequence[_BoundLog]) -> bool:
    """Whether a source is the one that it was, or the same topics and more."""
    before, now = ({log.cluster_id for log in logs} for logs in (bound, wanted))
    return before == now or (wanted[0].kind == TOPIC and bool(before) and before < now)


def _names(sources: Sequence[Sequence[_BoundLog]]) -> str:
    return ", ".join(f"{log.url} ({log.cluster_id})" for source in sources for log in source)


def _named(url: str, kafka: Mapping[str, str]) -> FollowedLog:
    if kind_of(url) == POLLED:
        raise LogError(
            f"{url}: jobs do not poll brokers; give them the directory that a node keeps the answers in "
            "(file:DIR), or what it writes with `aclog serve --snapshots`"
        )
    client = {} if kind_of(url) == DIRECTORY else kafka
    log = open_log(url, client=client)
    try:
        return FollowedLog(url=url, identity=log.identity, kafka=dict(client))
    finally:
        log.close()


def _found(bootstrap_servers: str, regex: str, kafka: Mapping[str, str]) -> list[FollowedLog]:
    try:
        pattern = JavaPattern.compile_for_java(regex)  # Spark finds topics that come later by it
    except ValueError as error:
        raise LogError(f"the topics pattern cannot be used: {error}") from error
    if pattern.groups > 1:
        raise LogError(
            f"the topics pattern `{regex}` has {pattern.groups} groups: which of them is the cluster id? "
            "Write (?:...) for those that are not"
        )
    names = matching_topics(bootstrap_servers, pattern, client=kafka)
    if not names:
        raise LogNotFoundError(
            f"{SCHEME}{bootstrap_servers}: no topic's whole name matches the pattern `{regex}`"
        )
    if not pattern.groups:
        if len(names) > 1:
            raise LogError(
                f"{len(names)} topics match `{regex}` ({_some(names)}), and nothing tells whose they are: "
                "put the part of the name that is the cluster id into a group, as in 'acls-(.+)'"
            )
        return [_named(f"{SCHEME}{bootstrap_servers}/{names[0]}", kafka)]
    return [_of_fleet(bootstrap_servers, name, pattern, kafka) for name in names]


def _of_fleet(
    bootstrap_servers: str, name: str, pattern: JavaPattern, kafka: Mapping[str, str]
) -> FollowedLog:
    match = pattern.fullmatch(name)
    cluster_id = match.group(1) if match else None
    if not cluster_id:
        raise LogError(f"the group of the topics pattern `{pattern.text}` is empty in topic `{name}`")
    log = _named(f"{SCHEME}{bootstrap_servers}/{name}", kafka)
    identity = LogIdentity(cluster_id, log.identity.topic_id)
    return FollowedLog(url=log.url, identity=identity, kafka=log.kafka, is_of_fleet=True)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _name(identity: LogIdentity) -> str:
    return f"topic id {uuid_to_string(identity.topic_id)} of cluster {identity.cluster_id}"
