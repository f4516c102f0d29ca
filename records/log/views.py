"""Queries of many logs at a time: the topics of one cluster are asked together.

A view is what a log answered at one time. Ask again where a later answer is needed.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import TYPE_CHECKING, Final, cast

from records.errors import LogError
from records.log.base import LogIdentity, LogView
from records.log.open import TOPIC

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from records.log.base import MetadataLog, StateEnd
    from records.log.topic.log import TopicLog

_AT_A_TIME: Final = 16


def view_logs(logs: Sequence[MetadataLog]) -> list[LogView | LogError]:
    """The view of each log, or its error; an error of one does not affect the others.

    Does not connect a topic that was opened lazily. All topics of one cluster are asked by one request of
    each kind if they have the same shared clients.
    """
    groups = _by_cluster(logs)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        found = dict(chain.from_iterable(pool.map(_views, groups)))
    return [found[id(log)] for log in logs]


def confirmed_histories(checks: Sequence[tuple[MetadataLog, LogView, StateEnd]]) -> list[bool]:
    """Whether each log has the history of a state, without a doubt; False: ask ``is_history`` of the log.

    Topics of one cluster are asked by one consumer. Other logs answer ``is_history`` from memory or a disk.

    Raises:
        LogError: the client's settings are invalid.
    """
    by_log = {id(log): (log, view, state) for log, view, state in checks}
    groups = [group for group in _by_cluster([log for log, _, _ in checks]) if _is_topic(group[0])]
    confirmed: set[int] = set()
    if groups:
        from records.log.topic.views import confirmed_topics  # noqa: PLC0415 - loads the client library

        for group in groups:
            of_topics = [by_log[id(log)] for log in group]
            found = confirmed_topics([(cast("TopicLog", log), view, state) for log, view, state in of_topics])
            confirmed |= {id(log) for log in found}
    return [id(log) in confirmed for log, _, _ in checks]


def _by_cluster(logs: Sequence[MetadataLog]) -> list[list[MetadataLog]]:
    groups: dict[Hashable, list[MetadataLog]] = {}
    for log in logs:
        key = id(cast("TopicLog", log).cluster) if _is_topic(log) else id(log)
        groups.setdefault(key, []).append(log)
    return list(groups.values())


def _is_topic(log: MetadataLog) -> bool:
    return log.url.partition(":")[0].lower() == TOPIC


def _views(logs: Sequence[MetadataLog]) -> list[tuple[int, LogView | LogError]]:
    views: list[LogView | LogError]
    if _is_topic(logs[0]):
        from records.log.topic.views import view_topics  # noqa: PLC0415 - loads the client library

        views = view_topics([cast("TopicLog", log) for log in logs])
    else:
        views = [_view(log) for log in logs]
    return [(id(log), view) for log, view in zip(logs, views, strict=True)]


def _view(log: MetadataLog) -> LogView | LogError:
    try:
        topic_id = log.current_topic_id()
        high_watermark = log.high_watermark()
        return LogView(
            identity=LogIdentity(log.identity.cluster_id, topic_id),
            removal_retention_ms=log.removal_retention_ms,
            start_offset=log.start_offset(),
            high_watermark=high_watermark,
            log_end_offset=log.log_end_offset(),
        )
    except LogError as error:
        return error
