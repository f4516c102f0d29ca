"""Prometheus metrics of running jobs: the progress of their queries, and collectors that a job adds.

Spark reports every batch to a listener; a scrape does not call Spark. A job has one query, with the job's
name. The number of records of a batch comes from the job's report, because for Spark a batch of a directory
is one row.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from pyspark.sql.streaming.listener import StreamingQueryListener

from snapshot.errors import SparkJobError
from snapshot.jobs.planning.planned_offsets import end_of
from snapshot.jobs.sources.logs import sources_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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

    from snapshot.jobs.running.job import BatchReport
    from snapshot.jobs.sources.logs import FollowedLog

#: By default only this machine can read the metrics.
LOOPBACK: Final = "127.0.0.1"


class JobMetrics(Collector):
    """The metrics of the jobs of one session, while they are served.

    Attributes:
        port: where.
    """

    def __init__(self, logs: Sequence[FollowedLog], jobs: Sequence[str]) -> None:
        self.port = 0
        self.queries = {job: QueryProgress(logs, job) for job in jobs}
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

    Args:
        spark: the session of the queries.
        logs: the followed logs.
        jobs: names of the jobs (JobSink.name).
        port: 0 for any free one.
        host: the address to listen on.

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
    ends: Mapping[str, int]
    lags: Mapping[str, int]


class QueryProgress:
    """The progress of one job's query over ``logs``, as metrics."""

    def __init__(self, logs: Sequence[FollowedLog], job: str) -> None:
        self._job = job
        self._sources = sources_of(logs)
        self._lock = threading.Lock()
        self._run_id: UUID | None = None
        # By batch, until Spark reports that it is done.
        self._records: dict[int, int] = {}
        self._progress = _Progress(phases_s={}, ends={}, lags={})
        self._failing = 0

    def follow(self, logs: Sequence[FollowedLog]) -> None:
        """The job starts its query on these logs."""
        with self._lock:
            self._sources = sources_of(logs)
            ids = {log.identity.cluster_id for log in logs}
            current = self._progress
            ends = {log: end for log, end in current.ends.items() if log in ids}
            lags = {log: lag for log, lag in current.lags.items() if log in ids}
            self._progress = replace(current, ends=ends, lags=lags)

    def failing(self, count: int) -> None:
        """Number of logs that fail now, without which the job continues."""
        self._failing = count

    def collect(self) -> Iterator[Metric]:
        current = self._progress
        yield self._gauge("aclog_spark_query_active", "1 while the job's query runs.", int(current.is_active))
        yield self._gauge(
            "aclog_spark_failing_logs",
            "Logs of a fleet without which the job continues, because they fail.",
            self._failing,
        )
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
            labels=["job", "phase"],
        )
        ends = GaugeMetricFamily(
            "aclog_spark_end_offset",
            "End offset up to which the job has processed the log.",
            labels=["job", "cluster_id"],
        )
        lags = GaugeMetricFamily(
            "aclog_spark_lag_offsets",
            "Offsets of the log that the job had not processed when Spark last checked.",
            labels=["job", "cluster_id"],
        )
        for family, values in ((durations, current.phases_s), (ends, current.ends), (lags, current.lags)):
            for label, value in sorted(values.items()):
                family.add_metric([self._job, label], value)
            yield family

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
        """The job has stored the result of a batch; Spark reports it later."""
        with self._lock:
            self._records[report.batch_id] = sum(log.records for log in report.logs)

    def progressed(self, progress: StreamingQueryProgress) -> None:
        """A batch is done; also called if there was nothing to do."""
        with self._lock:
            if progress.runId != self._run_id:
                return
            current = self._progress
            is_batch = "addBatch" in progress.durationMs
            ends, lags = dict(current.ends), dict(current.lags)
            for source, reported in zip(self._sources, progress.sources, strict=True):
                reached, latest = _ends(source, reported.endOffset), _ends(source, reported.latestOffset)
                ends |= reached
                lags |= {log: max(latest[log] - end, 0) for log, end in reached.items() if log in latest}
            trigger_s = _seconds(progress.timestamp)
            self._progress = replace(current, trigger_s=trigger_s, input_rate=0.0, ends=ends, lags=lags)
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

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, text, labels=["job"])
        family.add_metric([self._job], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(name, text, labels=["job"])
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


def _ends(source: Sequence[FollowedLog], text: str | None) -> dict[str, int]:
    """Offsets by cluster id in Spark's report of one source; there are none before the first batch."""
    offsets = json.loads(text) if text else None
    if not isinstance(offsets, dict):
        return {}
    found = {log.identity.cluster_id: end_of(log, offsets) for log in source}
    return {cluster_id: end for cluster_id, end in found.items() if end is not None}


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def _rate(rows: int, seconds: float) -> float:
    """0 if no time has passed, as before the second batch."""
    return rows / seconds if seconds > 0 else 0.0
