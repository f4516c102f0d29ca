"""The state of many topics of one cluster, with the requests of one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from records.errors import LogError
from records.log.base import LogIdentity, LogView
from records.log.topic.topic_admin import TopicAdmin, TopicState, describe_topics, query_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
                log.use(found, cluster_id)
            except LogError as error:
                errors[log] = error
    return [errors.get(log) for log in logs]


def view_topics(logs: Sequence[TopicLog]) -> list[LogView | LogError]:
    """Query topics with the same clients; see records.log.views.view_logs."""
    cluster_id, states = _queried(logs, query_topics)
    return [state if isinstance(state, LogError) else _view(cluster_id, state) for state in states]


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
