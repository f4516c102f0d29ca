"""Queries of many logs at a time: the topics of one cluster are asked together.

A view is what a log answered at one time. Ask again where a later answer is needed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeVar, cast

from records.errors import LogError
from records.log.base import LogIdentity, LogView
from records.log.url import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from records.log.base import MetadataLog, StateEnd
    from records.log.topic.log import TopicLog

_AT_A_TIME: Final = 16
_T = TypeVar("_T")


def connect_logs(logs: Sequence[MetadataLog]) -> list[LogError | None]:
    """Connect topics that were opened lazily, to read; the error of each log. Others are connected.

    All topics of one cluster are asked by one request of each kind if they have the same shared clients. An
    error of one does not affect the others.
    """

    def connect(group: Sequence[MetadataLog]) -> Sequence[LogError | None]:
        if not _is_topic(group[0]):
            return [None] * len(group)
        from records.log.topic.views import connect_topics  # noqa: PLC0415 - loads the client library

        return connect_topics([cast("TopicLog", log) for log in group])

    return _for_clusters(logs, connect)


def view_logs(logs: Sequence[MetadataLog]) -> list[LogView | LogError]:
    """The view of each log, or its error; otherwise as ``connect_logs``. They must be connected."""

    def view(group: Sequence[MetadataLog]) -> Sequence[LogView | LogError]:
        if not _is_topic(group[0]):
            return [_view(log) for log in group]
        from records.log.topic.views import view_topics  # noqa: PLC0415 - loads the client library

        return view_topics([cast("TopicLog", log) for log in group])

    return _for_clusters(logs, view)


def known_histories(logs: Sequence[MetadataLog], ends: Sequence[StateEnd]) -> list[bool]:
    """Whether each log is known to have the history of a state; False: ask it by ``is_history``.

    Known of topics, by two requests to each leader: an epoch has one leader, which appends one sequence of
    records, and the log has this epoch from the last record of the state to its end. The logs must be
    connected.
    """
    end_of = {id(log): end for log, end in zip(logs, ends, strict=True)}

    def query(group: Sequence[MetadataLog]) -> Sequence[bool]:
        if not _is_topic(group[0]):
            return [False] * len(group)
        from records.log.topic import views  # noqa: PLC0415 - loads the client library

        topics = [cast("TopicLog", log) for log in group]
        return views.known_histories(topics, [end_of[id(log)] for log in group])

    return _for_clusters(logs, query)


def _by_cluster(logs: Sequence[MetadataLog]) -> list[list[MetadataLog]]:
    groups: dict[Hashable, list[MetadataLog]] = {}
    for log in logs:
        key = id(cast("TopicLog", log).cluster) if _is_topic(log) else id(log)
        groups.setdefault(key, []).append(log)
    return list(groups.values())


def _is_topic(log: MetadataLog) -> bool:
    return log.url.partition(":")[0].lower() == TOPIC


def _for_clusters(
    logs: Sequence[MetadataLog], query: Callable[[Sequence[MetadataLog]], Sequence[_T]]
) -> list[_T]:
    """The answers about the logs, from queries of the logs of one cluster."""
    groups = _by_cluster(logs)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        answers = zip(chain(*groups), chain.from_iterable(pool.map(query, groups)), strict=True)
        found = {id(log): answer for log, answer in answers}
    return [found[id(log)] for log in logs]


def _view(log: MetadataLog) -> LogView | LogError:
    try:
        high_watermark, start_offset = log.high_watermark(), log.start_offset()
        log_end_offset = log.log_end_offset()
        # Last, so that the offsets are not those of another log in its place.
        topic_id = log.current_topic_id()
        return LogView(
            identity=LogIdentity(log.identity.cluster_id, topic_id),
            start_offset=start_offset,
            high_watermark=high_watermark,
            log_end_offset=log_end_offset,
        )
    except LogError as error:
        return error
