"""Prometheus metrics of running jobs: the progress of their queries, and collectors that a job adds.

Spark reports every batch to a listener; a scrape does not call Spark. A job has one query, with the job's
name. The number of records of a batch comes from the job's report, because for Spark a batch of a directory
is one row.

The lag of a log is what its end was when the last batch was planned, minus what the job has stored, and
published if it publishes tables. It is known while a batch runs or fails, because the job reports its plan.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryListener

from snapshot.errors import SparkJobError
from snapshot.jobs.planning.planned_offsets import ends_of
from snapshot.jobs.running.job import JobObserver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from uuid import UUID

    from prometheus_client import Metric
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )

    from snapshot.jobs.planning.log_states import LogBacklog
    from snapshot.jobs.running.job import BatchReport
    from snapshot.jobs.sources.logs import FollowedLog

#: By default only this machine can read the metrics.
LOOPBACK: Final = "127.0.0.1"
#: Logs of a job with series of their own. If a job has more, those that lag most have them: a fleet of
#: hundreds would cost Prometheus more than it shows, and the totals of the job count all logs.
LOGS_SHOWN: Final = 50


class JobMetrics(Collector):
    """The metrics of the jobs of one session, while they are served; ``port``: where."""

    def __init__(
        self, logs: Sequence[FollowedLog], jobs: Sequence[str], clock_s: Callable[[], float] = time.time
    ) -> None:
        self.port = 0
        self.queries = {job: QueryProgress(logs, job, clock_s) for job in jobs}
        self._added: dict[type[Collector], Collector] = {}

    def done(self, job: str, report: BatchReport) -> None:
        """A job has stored the result of a batch."""
        self.queries[job].done(report)

    def add(self, collector: Collector) -> None:
        """Serve further metrics; a job that starts again replaces its earlier ones."""
        self._added[type(collector)] = collector

    def describe(self) -> list[Metric]:
        """Empty: the registry has no other metrics of these names."""
        return []

    def collect(self) -> Iterator[Metric]:
        metrics: dict[str, Metric] = {}
        for query in self.queries.values():
            for metric in query.collect():
                of_name = metrics.setdefault(metric.name, metric)
                if of_name is not metric:
                    of_name.samples += metric.samples
        yield from metrics.values()
        for collector in self._added.values():
            yield from collector.collect()


@contextmanager
def serve_metrics(
    spark: SparkSession, logs: Sequence[FollowedLog], jobs: Sequence[str], *, port: int, host: str = LOOPBACK
) -> Iterator[JobMetrics]:
    """Serve ``/metrics`` while the block runs. Start the jobs' queries in the block.

    Raises:
        SparkJobError: the port is in use or not permitted.
    """
    metrics = JobMetrics(logs, jobs)
    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise SparkJobError(
            f"cannot serve metrics on {host}:{port}: {error.strerror or error}. Choose another "
            "--metrics-port, or 0 for any free one"
        ) from error
    metrics.port = server.server_port
    listener = _Listener(tuple(metrics.queries.values()))
    for query in metrics.queries.values():
        query.listener = listener
    try:
        spark.streams.addListener(listener)
        try:
            yield metrics
        finally:
            spark.streams.removeListener(listener)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """The progress so far; immutable, so that a scrape is consistent."""

    is_active: bool = False
    batches: int = 0
    rows: int = 0
    batch_rows: int | None = None
    input_rate: float = 0.0
    processed_rate: float = 0.0
    trigger_s: float | None = None
    phases_s: Mapping[str, float]
    logs: Mapping[str, _LogProgress]


@dataclass(frozen=True, slots=True)
class _LogProgress:
    """The progress in one log.

    Attributes:
        end: offset up to which the job has stored, and published, its results.
        oldest_s: time of the record at ``end``, or when the lag was seen; None: there is no lag.
        next_s: ``oldest_s`` when the running batch is done; None as there.
    """

    end: int
    log_end: int
    oldest_s: float | None = None
    next_s: float | None = None

    @property
    def lag(self) -> int:
        return max(self.log_end - self.end, 0)

    def age_s(self, now_s: float) -> float:
        """The age of the oldest record that is not stored; 0 without a lag."""
        return 0.0 if self.oldest_s is None or not self.lag else max(now_s - self.oldest_s, 0.0)


class QueryProgress(JobObserver):
    """The progress of one job's query over ``logs``, as metrics."""

    wants_backlogs = True

    def __init__(self, logs: Sequence[FollowedLog], job: str, clock_s: Callable[[], float]) -> None:
        self._job = job
        self._clock_s = clock_s
        self._cluster_ids = {log.identity.cluster_id for log in logs}
        self._lock = threading.Lock()
        self._run_id: UUID | None = None
        # By batch, until Spark reports that it is done.
        self._records: dict[int, int] = {}
        self._progress = _Progress(phases_s={}, logs={})
        self._failing = 0
        self._failures = 0
        self._listed_s: float | None = None
        self._publishing_since_s: float | None = None
        self._deferred = 0

    def follow(self, logs: Sequence[FollowedLog]) -> None:
        """The job starts its query on these logs."""
        with self._lock:
            self._cluster_ids = {log.identity.cluster_id for log in logs}
            known = {name: each for name, each in self._progress.logs.items() if name in self._cluster_ids}
            self._progress = replace(self._progress, logs=known)

    def failing(self, count: int) -> None:
        """Number of logs that fail now, without which the job continues."""
        self._failing = count

    def listed(self) -> None:
        self._listed_s = self._clock_s()

    def failed(self) -> None:
        self._failures += 1

    def deferred(self, count: int) -> None:
        self._deferred = count

    @contextmanager
    def publication(self) -> Iterator[None]:
        self._publishing_since_s = self._clock_s()
        yield
        # After an error the tables still lack the changes.
        self._publishing_since_s = None

    def planned(self, backlog: LogBacklog) -> None:
        now_s = self._clock_s()
        with self._lock:
            known = self._progress.logs.get(backlog.cluster_id)
            seen_s = now_s if known is None or known.oldest_s is None else known.oldest_s
            self._put(
                backlog.cluster_id,
                _LogProgress(
                    backlog.start,
                    backlog.log_end,
                    seen_s if backlog.oldest_ms is None else backlog.oldest_ms / 1000,
                    now_s if backlog.next_ms is None else backlog.next_ms / 1000,
                ),
            )

    def collect(self) -> Iterator[Metric]:
        current = self._progress
        yield self._gauge("aclog_spark_query_active", "1 while the job's query runs.", int(current.is_active))
        yield self._gauge(
            "aclog_spark_failing_logs",
            "Logs of a fleet without which the job continues, because they fail.",
            self._failing,
        )
        yield self._gauge("aclog_spark_logs", "Logs of the job's query.", len(self._cluster_ids))
        yield self._counter(
            "aclog_spark_query_failures",
            "Times that the job's query ended with an error since the job started.",
            self._failures,
        )
        yield from self._publication_metrics()
        yield self._counter("aclog_spark_batches", "Batches done since the job started.", current.batches)
        yield self._counter("aclog_spark_rows", "Rows read since the job started.", current.rows)
        if current.trigger_s is not None:
            yield self._gauge(
                "aclog_spark_last_trigger_timestamp_seconds",
                "When Spark last checked for a batch, since the epoch.",
                current.trigger_s,
            )
        if current.batch_rows is not None:
            yield self._gauge("aclog_spark_batch_rows", "Rows of the last batch.", current.batch_rows)
            yield self._gauge(
                "aclog_spark_input_rows_per_second", "Rate at which rows arrived.", current.input_rate
            )
            yield self._gauge(
                "aclog_spark_processed_rows_per_second",
                "Rate at which the last batch's rows were processed.",
                current.processed_rate,
            )
        durations = GaugeMetricFamily(
            "aclog_spark_batch_duration_seconds",
            "Time that the last batch took, by Spark's phases; triggerExecution is all of it.",
            labels=["spark_job", "phase"],
        )
        for phase, duration_s in sorted(current.phases_s.items()):
            durations.add_metric([self._job, phase], duration_s)
        yield durations
        yield from self._log_metrics(current.logs)

    def _publication_metrics(self) -> Iterator[Metric]:
        since_s, listed_s = self._publishing_since_s, self._listed_s
        yield self._gauge(
            "aclog_spark_publication_pending_seconds",
            "For how long committed changes have waited for the history's tables; 0 if these have all.",
            0.0 if since_s is None else max(self._clock_s() - since_s, 0.0),
        )
        yield self._gauge(
            "aclog_spark_deferred_changes",
            "Changes of ACLs whose rows in access_changes are deferred; 0 if the table has all.",
            self._deferred,
        )
        if listed_s is not None:
            yield self._gauge(
                "aclog_spark_last_listing_timestamp_seconds",
                "When the topics of the job's pattern were last listed, since the epoch.",
                listed_s,
            )

    def _log_metrics(self, logs: Mapping[str, _LogProgress]) -> Iterator[Metric]:
        now_s = self._clock_s()
        if logs:
            lags = [each.lag for each in logs.values()]
            yield self._gauge("aclog_spark_logs_behind", "Logs with a lag.", sum(1 for each in lags if each))
            yield self._gauge("aclog_spark_total_lag_offsets", "Sum of the lags of all logs.", sum(lags))
            yield self._gauge(
                "aclog_spark_max_lag_seconds",
                "Greatest lag of a log in seconds.",
                max(each.age_s(now_s) for each in logs.values()),
            )
        shown = sorted(logs.items())
        if len(logs) > LOGS_SHOWN:
            behind = [item for item in shown if item[1].lag]
            shown = sorted(behind, key=lambda item: (-item[1].age_s(now_s), -item[1].lag))[:LOGS_SHOWN]
        labels = ["spark_job", "cluster_id"]
        ends = GaugeMetricFamily(
            "aclog_spark_end_offset", "End offset up to which the job has processed the log.", labels=labels
        )
        offsets = GaugeMetricFamily(
            "aclog_spark_lag_offsets",
            "Offsets that the log had beyond it when the last batch was planned.",
            labels=labels,
        )
        seconds = GaugeMetricFamily(
            "aclog_spark_lag_seconds",
            "Age of the oldest record of the log that the job has not processed; 0 if there is none.",
            labels=labels,
        )
        for cluster_id, log in shown:
            ends.add_metric([self._job, cluster_id], log.end)
            offsets.add_metric([self._job, cluster_id], log.lag)
            seconds.add_metric([self._job, cluster_id], log.age_s(now_s))
        yield from (ends, offsets, seconds)

    def started(self, name: str | None, run_id: UUID) -> None:
        """A query started; a job on a busy machine starts its query again."""
        with self._lock:
            if name == self._job:
                self._run_id = run_id
                self._progress = replace(self._progress, is_active=True)

    def idle(self, run_id: UUID, timestamp: str) -> None:
        """Spark checked for new offsets, and there were none."""
        with self._lock:
            if run_id == self._run_id:
                self._progress = replace(self._progress, trigger_s=_seconds(timestamp), input_rate=0.0)

    def done(self, report: BatchReport) -> None:
        """The job has stored, and published, the result of a batch; Spark reports it later."""
        with self._lock:
            self._records[report.batch_id] = sum(log.records for log in report.logs)
            for log in report.logs:
                known = self._progress.logs.get(log.cluster_id, _LogProgress(log.start, log.end))
                log_end = max(known.log_end, log.end)
                self._put(log.cluster_id, _LogProgress(log.end, log_end, known.next_s))

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A batch is done; also called if there was nothing to do."""
        with self._lock:
            if progress.runId != self._run_id:
                return
            current = self._progress
            is_batch = "addBatch" in progress.durationMs
            trigger_s = _seconds(progress.timestamp)
            for reported in progress.sources:
                latest = ends_of(reported.latestOffset or "{}")
                for cluster_id, position in ends_of(reported.endOffset or "{}").items():
                    if cluster_id not in self._cluster_ids:
                        continue
                    end, log_end = position.offset, latest.get(cluster_id, position).offset
                    known = self._progress.logs.get(cluster_id, _LogProgress(end, log_end))
                    if known.next_s is not None:
                        log_end = max(known.log_end, log_end)  # the next batch has begun
                    log = replace(known, end=max(known.end, end), log_end=log_end)
                    self._put(cluster_id, replace(log, oldest_s=log.oldest_s or trigger_s))
            self._progress = replace(self._progress, trigger_s=trigger_s, input_rate=0.0)
            if is_batch:
                rows = self._records.pop(progress.batchId, 0)
                phases_s = {phase: ms / 1000 for phase, ms in progress.durationMs.items()}
                self._progress = replace(
                    self._progress,
                    batches=current.batches + 1,
                    rows=current.rows + rows,
                    batch_rows=rows,
                    input_rate=_rate(rows, trigger_s - (current.trigger_s or trigger_s)),
                    processed_rate=_rate(rows, phases_s.get("triggerExecution", 0.0)),
                    phases_s=phases_s,
                )

    def terminated(self, run_id: UUID) -> None:
        """The query ended, with or without an error."""
        with self._lock:
            if run_id == self._run_id:
                self._progress = replace(self._progress, is_active=False, input_rate=0.0)

    def _put(self, cluster_id: str, log: _LogProgress) -> None:
        log = log if log.lag else replace(log, oldest_s=None)
        self._progress = replace(self._progress, logs={**self._progress.logs, cluster_id: log})

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["spark_job"])
        family.add_metric([self._job], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=["spark_job"])
        family.add_metric([self._job], value)
        return family


class _Listener(StreamingQueryListener):
    """Forwards Spark's events to each QueryProgress, which selects those of its query."""

    def __init__(self, queries: Sequence[QueryProgress]) -> None:
        self._queries = queries

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's names
        for query in self._queries:
            query.started(event.name, event.runId)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for query in self._queries:
            query.progressed(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        for query in self._queries:
            query.idle(event.runId, event.timestamp)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        for query in self._queries:
            query.terminated(event.runId)


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _rate(rows: int, seconds: float) -> float:
    """0 if no time has passed, as before the second batch."""
    return rows / seconds if seconds > 0 else 0.0
