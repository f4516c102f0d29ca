"""The state of many topics of one cluster, with the requests of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from records.errors import LogError
from records.log.base import LogIdentity, LogView
from records.log.topic.topic_admin import (
    TopicAdmin,
    TopicConnection,
    TopicState,
    describe_topics,
    query_topics,
)
from records.log.url import TOPIC_FORM, parse_bootstrap_servers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.base import StateEnd
    from records.log.topic.log import TopicLog

_T = TypeVar("_T")


def connect_topics(logs: Sequence[TopicLog]) -> list[LogError | None]:
    """Connect topics with the same clients; see records.log.views.connect_logs."""
    unconnected = [log for log in logs if not log._is_connected]
    errors: dict[TopicLog, LogError] = {}
    if unconnected:
        cluster_id, described = _queried(unconnected, describe_topics)
        for log, found in zip(unconnected, described, strict=True):
            try:
                if isinstance(found, LogError):
                    raise found
                log.use(TopicConnection(cluster_id, found))
            except LogError as error:
                errors[log] = error
    return [errors.get(log) for log in logs]


def view_topics(logs: Sequence[TopicLog]) -> list[LogView | LogError]:
    """Query topics with the same clients; see records.log.views.view_logs."""
    cluster_id, states = _queried(logs, query_topics)
    return [state if isinstance(state, LogError) else _view(cluster_id, state) for state in states]


def known_histories(logs: Sequence[TopicLog], ends: Sequence[StateEnd]) -> list[bool]:
    """Query topics with the same clients; see records.log.views.known_histories."""
    try:
        from records.log.protocol.leader_epochs import LeaderEpochs  # noqa: PLC0415 - kio is an extra
        from records.log.protocol.settings import settings_beside_client  # noqa: PLC0415
    except ModuleNotFoundError:
        return [False] * len(logs)
    url, servers = logs[0].url, logs[0].bootstrap_servers
    try:
        settings = settings_beside_client(logs[0]._settings.user)
        epochs = LeaderEpochs(url, parse_bootstrap_servers(url, servers, TOPIC_FORM), settings)
        found = epochs.ranges({log.topic: end.epoch for log, end in zip(logs, ends, strict=True)})
    except LogError:
        return [False] * len(logs)

    def is_known(log: TopicLog, end: StateEnd) -> bool:
        epoch, last_record = found.get(log.topic), end.end_offset - end.empty_tail - 1
        return (
            epoch is not None
            and epoch.topic_id == log.identity.topic_id
            and epoch.epoch == end.epoch
            and last_record >= 0
            and epoch.start <= last_record
            and end.end_offset <= epoch.end
        )

    return [is_known(*each) for each in zip(logs, ends, strict=True)]


def _queried(
    logs: Sequence[TopicLog], query: Callable[[Sequence[TopicAdmin]], list[_T | LogError]]
) -> tuple[str, Sequence[_T | LogError]]:
    """The cluster's id, and a query's answers."""
    try:
        # Another cluster may have its address now.
        cluster_id = logs[0].cluster.cluster_id(logs[0]._admin, age_s=0)
    except LogError as error:
        return "", [error] * len(logs)
    return cluster_id, query([log._admin for log in logs])


def _view(cluster_id: str, state: TopicState) -> LogView:
    return LogView(
        identity=LogIdentity(cluster_id, state.topic_id),
        start_offset=state.start,
        high_watermark=state.end.offset,
        log_end_offset=max(state.uncommitted_end, state.end.offset),
    )
