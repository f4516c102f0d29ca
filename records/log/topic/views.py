"""The state and the history of many topics of one cluster, with the requests of one topic."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, Message

from records.errors import LogError
from records.log.base import LogIdentity, LogView
from records.log.topic.reader import history_anchor
from records.log.topic.topic_admin import TopicAdmin, TopicState, describe_topics, query_topics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.log.base import StateEnd
    from records.log.topic.log import TopicLog

_T = TypeVar("_T")

#: Maximum number of messages of one call of the client.
_MESSAGES_MAX: Final = 1000
#: Timeout of a check in which no topic answers.
_ANSWER_TIMEOUT_S: Final = 10.0
_CLOSE_CHECK_INTERVAL_S: Final = 0.1


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
        leader_epoch=state.end.leader_epoch,
    )


def _is_usual(message: Message, view: LogView) -> bool:
    """Whether it is a message of the leader that was asked before, or the end of its log."""
    error = message.error()
    if error is not None:
        return error.code() == KafkaError._PARTITION_EOF
    # A later leader may have another history.
    return view.leader_epoch is not None and (message.leader_epoch() or 0) <= view.leader_epoch


def confirmed_topics(checks: Sequence[tuple[TopicLog, LogView, StateEnd]]) -> set[TopicLog]:
    """The topics that have the history of a state; the answer about others is unknown.

    As TopicReader.is_history, by one new consumer for all. As it knows no leader yet, it lets the broker
    check the assigned epoch of each topic before it fetches messages (KIP-320). Two answers confirm the
    history: a message, or the end of the log, at the state's end or later.
    """
    waiting: dict[str, tuple[TopicLog, LogView, StateEnd]] = {}
    assignment = []
    for log, view, state in checks:
        anchor = history_anchor(state.end_offset, state.epoch, state.empty_tail, start=view.start_offset)
        if anchor.is_known and view.start_offset < state.end_offset <= view.high_watermark:
            waiting[log.topic] = log, view, state
            assignment.append(anchor.partition(log.topic))
    confirmed: set[TopicLog] = set()
    if not waiting:
        return confirmed
    first = checks[0][0]
    with first._topic_errors.translated("making a consumer"):
        consumer = Consumer(first._settings.history_checker())
    try:
        with first._topic_errors.translated("checking the history"):
            consumer.assign(assignment)
        answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
        while waiting and time.monotonic() < answer_by_s:
            for message in consumer.consume(_MESSAGES_MAX, 0) or consumer.consume(1, _CLOSE_CHECK_INTERVAL_S):
                found = waiting.pop(message.topic() or "", None)
                if found is None:
                    continue  # a later message of the same topic
                answer_by_s = time.monotonic() + _ANSWER_TIMEOUT_S
                log, view, state = found
                if _is_usual(message, view) and (message.offset() or 0) >= state.end_offset:
                    confirmed.add(log)
    finally:
        consumer.close()
    return confirmed
