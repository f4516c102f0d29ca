"""One micro-batch of a job: plan each log, fold all logs in one action, put the manifests last.

    each log's rows, or range -> decode -> fold -> its files, the sink's -> a summary    one task for each log
                                                                                  |
    the sink's outputs, then the manifests, then retention  <---------------------+      the driver

A failed batch is repeated with the same offsets. Parts without a manifest are ignored, and a log whose
manifest was put is not folded again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec
import pyarrow as pa  # at run time: PySpark evaluates the annotations of `fold`
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.digest import digest_to_string
from snapshot.jobs.folding.log_fold import LogFold, fold_logs
from snapshot.jobs.folding.log_plan import LogPlan, LogSummary, log_result, shards_of_size
from snapshot.jobs.folding.schema import FOLDED
from snapshot.jobs.planning.log_states import LogStates, freshen_states, search_bases, view_states
from snapshot.jobs.planning.planned_offsets import PlannedOffsets, QueryOffsets
from snapshot.jobs.running.job import BatchReport, LogReport
from snapshot.jobs.sources.log_failures import LogFailures, answered, for_logs
from snapshot.jobs.sources.topic_source import read_topic
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from snapshot.jobs.folding.log_plan import LogResult
    from snapshot.jobs.planning.first_offsets import FirstOffsets
    from snapshot.jobs.running.claim import CheckpointClaim
    from snapshot.jobs.running.job import JobObserver, JobSettings, JobSink
    from snapshot.jobs.sources.logs import FollowedLog


_TASKS_PER_CORE: Final = 4


class MicroBatches:
    """Runs the micro-batches of one job, on the driver.

    ``on_batch`` is called with each batch that changed a state or its end offset; ``observer`` takes the
    backlog of each log in a batch.
    """

    def __init__(
        self,
        settings: JobSettings,
        sink: JobSink,
        first_offsets: FirstOffsets,
        states: Mapping[str, LogStates],
        offsets: QueryOffsets,
        claim: CheckpointClaim,
        on_batch: Callable[[BatchReport], None],
        observer: JobObserver,
    ) -> None:
        self._settings = settings
        self._sink = sink
        self._first_offsets = first_offsets
        self._states = states
        self._offsets = offsets
        self._claim = claim
        self._on_batch = on_batch
        self._observer = observer
        self._store = SnapshotStore(settings.store)
        self._started_at_ms = time.time_ns() // 1_000_000
        # Batches and `freshen` use the logs and the store's manifests from different threads.
        self._lock = threading.Lock()

    def run(self, rows: DataFrame, batch_id: int) -> None:
        """Run one batch on SOURCE rows of Spark's offsets.

        Raises:
            LogsFailedError: of single logs, if the job isolates them; nothing is committed.
            CheckpointClaimedError: another job has taken over the checkpoint.
            SparkJobError: a log cannot be continued; the text says why.
            AclogError: a log or the store cannot be used, or a record cannot be decoded.
            PySparkException: the action failed; the text has the cause.
        """
        with self._lock:
            started_at_s = time.monotonic()
            # The checkpoint has the offsets of this batch. So a job that takes over from now on repeats it.
            self._claim.check()
            planned = self._offsets.planned(batch_id, self._settings.logs, self._first_offsets.starts)
            failures = LogFailures(is_collecting=self._settings.isolates_logs)
            plans = self._plans(planned, failures)
            failures.check()
            if not plans:
                return
            results = self._fold(rows, plans, failures)
            failures.check()
            self._claim.check()
            self._sink.commit(results)
            self._claim.check()
            reports = tuple(for_logs(self._commit, results))
            elapsed_ms = (time.monotonic() - started_at_s) * 1000
        self._on_batch(BatchReport(batch_id=batch_id, logs=reports, elapsed_ms=elapsed_ms))

    def freshen(self) -> bool:
        """Refresh the states of idle logs (``freshen_states``); False if a batch is running instead."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            due = [states for states in self._states.values() if states.is_freshen_due]
            if due:
                freshen_states(due)
        finally:
            self._lock.release()
        return True

    def _plans(self, planned: PlannedOffsets, failures: LogFailures) -> list[LogPlan]:
        settings = self._settings
        attempt = f"{self._first_offsets.writer}-{uuid4().hex[:8]}"

        changed = {name: span for name, span in planned.ranges.items() if span[0] != span[1]}
        searches = search_bases({self._states[name]: end for name, (_, end) in changed.items()})

        def plan(log: FollowedLog) -> LogPlan | None:
            start, end = changed[log.identity.cluster_id]
            state = None
            with failures.collect(log.identity.cluster_id):
                states = self._states[log.identity.cluster_id]
                search = answered(searches[states])
                if self._observer.wants_backlogs:
                    self._observer.planned(states.backlog(start, search))
                state = states.next_state(search, end_time_ms=self._end_time_ms(planned, log))
            if state is None:
                return None
            return LogPlan(
                identity=log.identity,
                has_ranges=log.topic is None,
                client=log.kafka,
                start=start,
                end=end,
                provenance=state.provenance,
                log_end_time_ms=state.log_end_time_ms,
                shards=settings.shards or shards_of_size(state.base, end),
                attempt=attempt,
                store_url=settings.store,
                base=state.base,
                before=state.before,
                wants_changes=self._sink.wants_changes,
                wants_count_deltas=self._sink.wants_count_deltas,
            )

        logs = [log for log in settings.logs if log.identity.cluster_id in changed]
        return [each for each in for_logs(plan, logs) if each is not None]

    def _end_time_ms(self, planned: PlannedOffsets, log: FollowedLog) -> int | None:
        """When the batch's end is known to have been the log's end; None if that is unknown (I10).

        Without a limit, a batch ends at the log's end when it was planned; with availableNow, at the log's
        end when the run started. A batch of an earlier run may have been planned with another limit.
        """
        settings = self._settings
        if planned.timestamp_ms < self._started_at_ms or (
            settings.max_offsets is not None and not self._is_below_limit(planned, settings.max_offsets, log)
        ):
            return None
        return self._started_at_ms if settings.interval_s is None else planned.timestamp_ms

    def _is_below_limit(self, planned: PlannedOffsets, max_offsets: int, log: FollowedLog) -> bool:
        """Whether the limit is known to have excluded nothing.

        Spark divides the limit among the topics of a source, and rounds down. A directory's record batch is
        never split, so there a small batch proves nothing.
        """
        topics = [each.identity.cluster_id for each in self._settings.logs if each.topic is not None]
        ranges = (planned.ranges.get(cluster_id, (0, 0)) for cluster_id in topics)
        offsets = sum(end - start for start, end in ranges)
        return log.topic is not None and offsets + len(topics) < max_offsets

    def _fold(self, rows: DataFrame, plans: Sequence[LogPlan], failures: LogFailures) -> list[LogResult]:
        """Run the batch's only action: it writes the parts and the sink's files."""
        by_cluster = {plan.identity.cluster_id: plan for plan in plans}
        write_changes = self._sink.changes_writer(plans)
        isolates_logs = self._settings.isolates_logs

        def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return fold_logs(
                batches, plans=by_cluster, write_changes=write_changes, isolates_logs=isolates_logs
            )

        folded = self._source(rows, plans).mapInArrow(fold, FOLDED).collect()
        summaries = {
            row.cluster_id: msgspec.json.decode(row.summary, type=LogSummary)
            for row in folded
            if row.summary is not None
        }
        failures.by_cluster |= {row.cluster_id: row.failure for row in folded if row.failure is not None}

        folded_plans = [plan for plan in plans if plan.identity.cluster_id not in failures.by_cluster]
        names = [plan.identity.cluster_id for plan in folded_plans]
        # Only now, after the rows were read.
        views = dict(zip(names, view_states([self._states[name] for name in names]), strict=True))

        def result(plan: LogPlan) -> LogResult | None:
            cluster_id = plan.identity.cluster_id
            with failures.collect(cluster_id):
                summary = summaries.get(cluster_id)
                if summary is None:
                    # Only markers or gaps: the state is the same at a later end offset.
                    summary = LogFold(plan).finish(write_changes)
                gap_until = self._states[cluster_id].gap_until(plan.end, answered(views[cluster_id]))
                return log_result(plan, summary, gap_until=gap_until)
            return None

        return [each for each in for_logs(result, folded_plans) if each is not None]

    def _source(self, rows: DataFrame, plans: Sequence[LogPlan]) -> DataFrame:
        """SOURCE rows of the plans: those of the batch, and topics that are read again."""
        logs = {log.identity.cluster_id: log for log in self._settings.logs}
        again = [plan for plan in plans if plan.is_read_again and not plan.has_ranges]
        with_batch = [plan.identity.cluster_id for plan in plans if plan not in again]
        sources = []
        if len(with_batch) == len(logs):
            sources.append(rows)
        elif with_batch:
            # Rows without a cluster id must reach the task, which fails on them.
            of_plans = F.col("cluster_id").isin(with_batch) | F.col("cluster_id").isNull()
            sources.append(rows.where(of_plans))
        for plan in again:
            log = logs[plan.identity.cluster_id]
            sources.append(
                read_topic(rows.sparkSession, log, plan.rows_from, plan.end, self._settings.kafka_options)
            )
        source = reduce(DataFrame.unionByName, sources)
        tasks = rows.sparkSession.sparkContext.defaultParallelism * _TASKS_PER_CORE
        # A task for each of many small logs takes longer than their work.
        return source.coalesce(tasks) if len(plans) > tasks else source

    def _commit(self, result: LogResult) -> LogReport:
        plan = result.plan
        stored = self._store.commit(
            result.manifest, attempts=self._first_offsets.writer, keep=self._settings.keep
        )
        self._states[plan.identity.cluster_id].set_committed(stored)
        return LogReport(
            cluster_id=plan.identity.cluster_id,
            start=plan.start,
            end=plan.end,
            count=stored.count,
            digest=digest_to_string(stored.digest),
            counts=result.summary.counts,
            records=result.summary.records,
            is_read_again=plan.is_read_again,
        )
