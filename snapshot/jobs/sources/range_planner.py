"""RangePlanner: plans the ranges of all logs of a job. Runs on the driver, in the process of the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from records.errors import LogError, OffsetOutOfRangeError
from records.ids import uuid_from_string
from records.log.base import LogIdentity
from records.log.url import TOPIC, kind_of
from snapshot.jobs.sources.log_failures import LogFailures, PlanningFailedError, answered, for_logs
from snapshot.jobs.sources.log_ranges import LogRanges, OffsetAndEpoch, out_of_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from records.log.topic.topic_offsets import TopicOffsets

_T = TypeVar("_T")


class SourceLog(msgspec.Struct, frozen=True, rename="camel"):
    """A log of the source.

    Attributes:
        url: of the log; of a directory with an absolute path.
        topic_id: as Kafka's 22 characters.
        start: first offset for a checkpoint that does not have the log.
    """

    url: str
    cluster_id: str
    topic_id: str
    start: int

    @property
    def identity(self) -> LogIdentity:
        return LogIdentity(self.cluster_id, uuid_from_string(self.topic_id))

    @property
    def bootstrap_servers(self) -> str | None:
        """Of a topic; None: the log is not in a topic."""
        if kind_of(self.url) != TOPIC:
            return None
        # Loads the client library, which only topics need.
        from records.log.url import parse_topic_url  # noqa: PLC0415

        return parse_topic_url(self.url).bootstrap_servers


class RangePlanner:
    """The logs of a source. Not thread-safe; closed by ``close``.

    Args:
        logs: no two of one cluster id.
        client: client settings of the clusters that have logs.
        isolates_logs: errors of single logs are collected, and raised as one PlanningFailedError.

    Its methods raise:
        PlanningFailedError: some logs failed.
        CheckpointForeignError: a log was replaced.
        LogError: a log does not exist, or cannot be read.
        SparkJobError: a log does not have the requested offsets.
        DecodeError: a damaged batch.
    """

    def __init__(self, logs: Sequence[SourceLog], client: Mapping[str, str], *, isolates_logs: bool) -> None:
        self._logs = logs
        self._client = client
        self._isolates_logs = isolates_logs
        self._has_own_clusters = len({log.bootstrap_servers or log.url for log in logs}) > 1
        self._opened: dict[str, LogRanges] = {}
        self._clusters: dict[str, TopicOffsets] = {}

    def high_watermarks(self) -> dict[str, int]:
        """One past the last committed offset of each log, by cluster id."""
        return self._ends(self._logs)

    def next_ends(
        self,
        begins: Mapping[str, OffsetAndEpoch],
        *,
        below: Mapping[str, int] | None,
        max_offsets: int | None,
    ) -> dict[str, OffsetAndEpoch]:
        """The ends of the query's batch in the logs that have something new, by cluster id.

        Args:
            begins: of each log; ends found before, or the query's first offsets.
            below: the end of each log when the query started; None: the current ones.
            max_offsets: limit of the batch, which is divided among the logs by what they have; each gets at
                least one offset, or the batch that contains it. None: no limit.
        """
        ends = self._ends(self._logs)
        limits = {name: min(end, below[name]) for name, end in ends.items()} if below is not None else ends
        new = {name: limits[name] - begin.offset for name, begin in begins.items()}
        total = sum(count for count in new.values() if count > 0)

        def share(count: int) -> int | None:
            if max_offsets is None or total <= max_offsets:
                return None
            return max(max_offsets * count // total, 1)

        starts = self._starts([log for log in self._logs if new[log.cluster_id] > 0])

        def next_end(log: SourceLog) -> OffsetAndEpoch | None:
            name = log.cluster_id
            begin, limit = begins[name], limits[name]
            if log.bootstrap_servers is None:
                found = self._ranges(log).next_end(begin, below=limit, max_offsets=share(new[name]))
                return None if found == begin else found
            first = starts.get(name, 0)
            if not first <= begin.offset <= ends[name]:
                error = OffsetOutOfRangeError(begin.offset, start=first, end=ends[name])
                raise out_of_range(log.url, error)
            if new[name] <= 0:
                return None
            count = share(new[name])
            return OffsetAndEpoch(limit if count is None else min(limit, begin.offset + count), None)

        found = self._each(self._logs, next_end)
        return {name: end for name, end in found.items() if end is not None}

    def close(self) -> None:
        for opened in self._opened.values():
            opened.close()
        self._opened = {}

    def _ends(self, logs: Sequence[SourceLog]) -> dict[str, int]:
        of_topics = self._of_topics(logs, lambda cluster, urls: cluster.ends(urls))

        def end(log: SourceLog) -> int:
            if log.bootstrap_servers is None:
                return self._ranges(log).high_watermark()
            return answered(of_topics[log.url])

        return self._each(logs, end)

    def _starts(self, logs: Sequence[SourceLog]) -> dict[str, int]:
        """The first offsets of topics."""
        of_topics = self._of_topics(logs, lambda cluster, urls: cluster.starts(urls))
        return self._each(
            [log for log in logs if log.url in of_topics], lambda log: answered(of_topics[log.url])
        )

    def _of_topics(
        self,
        logs: Iterable[SourceLog],
        query: Callable[[TopicOffsets, list[str]], Mapping[str, int | LogError]],
    ) -> dict[str, int | LogError]:
        """Answers by URL, with one query for all topics of a cluster."""
        urls: dict[str, list[str]] = {}
        for log in logs:
            if (servers := log.bootstrap_servers) is not None:
                urls.setdefault(servers, []).append(log.url)
        found: dict[str, int | LogError] = {}
        for servers, of_cluster in urls.items():
            if servers not in self._clusters:
                from records.log.topic.topic_offsets import TopicOffsets  # noqa: PLC0415 - as above

                self._clusters[servers] = TopicOffsets(servers, self._client)
            found |= query(self._clusters[servers], of_cluster)
        return found

    def _each(self, logs: Sequence[SourceLog], function: Callable[[SourceLog], _T]) -> dict[str, _T]:
        """The results of a function for each log, by cluster id."""
        failures = LogFailures(is_collecting=self._isolates_logs)
        found: dict[str, _T] = {}

        def call(log: SourceLog) -> None:
            with failures.collect(log.cluster_id, has_own_cluster=self._has_own_clusters):
                found[log.cluster_id] = function(log)

        for_logs(call, logs)
        if failures.by_cluster:
            raise PlanningFailedError(failures.by_cluster)
        return found

    def _ranges(self, log: SourceLog) -> LogRanges:
        if log.cluster_id not in self._opened:
            self._opened[log.cluster_id] = LogRanges(log.url, log.identity, self._client)
        return self._opened[log.cluster_id]
