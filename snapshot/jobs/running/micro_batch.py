"""One micro-batch of a job: plan each log, fold all logs in one action, put the manifests last.

    each log's range -> read -> decode -> fold -> its files, the sink's -> a summary      tasks with some logs
                                                                               |
    the sink's outputs, then the manifests, then retention  <------------------+          the driver

A failed batch is repeated with the same offsets. Parts without a manifest are ignored, and a log whose
manifest was put is not folded again.
"""

from __future__ import annotations

import gc
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from pyspark.sql import DataFrame

from snapshot.digest import digest_to_string
from snapshot.jobs.folding.log_fold import fold_logs
from snapshot.jobs.folding.log_plan import LogPlan, log_result, shards_of_size
from snapshot.jobs.planning.log_states import LogStates, freshen_states, search_bases, view_states
from snapshot.jobs.planning.planned_offsets import PlannedOffsets, QueryOffsets
from snapshot.jobs.running.job import BatchReport, LogReport
from snapshot.jobs.sources.log_failures import LogFailures, answered, for_logs
from snapshot.jobs.sources.log_range import LogRange, read_ranges, settings_without_files
from snapshot.jobs.sources.log_ranges import readable_url
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from snapshot.jobs.folding.log_fold import FoldedLog
    from snapshot.jobs.folding.log_plan import LogResult
    from snapshot.jobs.planning.first_offsets import FirstOffsets
    from snapshot.jobs.running.claim import CheckpointClaim
    from snapshot.jobs.running.job import JobObserver, JobSettings, JobSink
    from snapshot.jobs.sources.logs import FollowedLog

#: More would balance the cores better, but each task has clients of its own.
_TASKS_PER_CORE: Final = 2


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
        """Run one batch on Spark's offsets; ``rows``: of its source, which are not read.

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

        searches = search_bases({self._states[name]: each.end for name, each in planned.ranges.items()})

        def plan(log: FollowedLog) -> LogPlan | None:
            start, end, end_epoch = planned.ranges[log.identity.cluster_id]
            state = None
            with failures.collect(log.identity.cluster_id):
                states = self._states[log.identity.cluster_id]
                search = answered(searches[states])
                if self._observer.wants_backlogs:
                    self._observer.planned(states.backlog(start, search))
                state = states.next_state(search, end_time_ms=self._end_time_ms(planned))
            if state is None:
                return None
            return LogPlan(
                range=LogRange(
                    url=readable_url(log.url),
                    identity=log.identity,
                    client=settings_without_files(log.kafka),
                    start=0 if state.base is None else state.base.provenance.end_offset,
                    end=end,
                    end_epoch=end_epoch,
                    position_hint=state.position_hint,
                ),
                start=start,
                log_end_time_ms=state.log_end_time_ms,
                shards=settings.shards or shards_of_size(state.base, end),
                attempt=attempt,
                store_url=settings.store,
                base=state.base,
                before=state.before,
                wants_changes=self._sink.wants_changes,
                wants_count_deltas=self._sink.wants_count_deltas,
            )

        logs = [log for log in settings.logs if log.identity.cluster_id in planned.ranges]
        return [each for each in for_logs(plan, logs) if each is not None]

    def _end_time_ms(self, planned: PlannedOffsets) -> int | None:
        """When the batch's end is known to have been the log's end; None if that is unknown (I10).

        Without a limit, a batch ends at the log's end when it was planned; with availableNow, at the log's
        end when the run started. A batch of an earlier run may have been planned with another limit.
        """
        settings = self._settings
        if planned.timestamp_ms < self._started_at_ms or (
            settings.max_offsets is not None and not self._is_below_limit(planned, settings.max_offsets)
        ):
            return None
        return self._started_at_ms if settings.interval_s is None else planned.timestamp_ms

    def _is_below_limit(self, planned: PlannedOffsets, max_offsets: int) -> bool:
        """Whether the limit is known to have excluded nothing.

        The source divides the limit among the logs, and rounds down. A record batch is never split, so where
        a log has batches a small batch of the query proves nothing.
        """
        logs = self._settings.logs
        offsets = sum(each.end - each.start for each in planned.ranges.values())
        return all(log.topic is not None for log in logs) and offsets + len(logs) < max_offsets

    def _fold(self, rows: DataFrame, plans: Sequence[LogPlan], failures: LogFailures) -> list[LogResult]:
        """Run the batch's only action: it writes the parts and the sink's files."""
        write_changes = self._sink.changes_writer(plans)
        isolates_logs = self._settings.isolates_logs
        context = rows.sparkSession.sparkContext
        tasks = _tasks(plans, context.defaultParallelism * _TASKS_PER_CORE)

        def fold(numbers: Iterable[int]) -> Iterator[FoldedLog]:
            for number in numbers:
                yield from fold_logs(
                    read_ranges(plan.range for plan in tasks[number]),
                    plans={plan.identity.cluster_id: plan for plan in tasks[number]},
                    write_changes=write_changes,
                    isolates_logs=isolates_logs,
                )
            _freeze_loaded_objects()

        # Not by the source's rows, which would need a second Python process for each task; and not by a query
        # of Spark SQL, whose plan costs more than the action, and whose workers import pandas.
        folded = context.parallelize(range(len(tasks)), len(tasks)).mapPartitions(fold).collect()
        summaries = {row.cluster_id: row.summary for row in folded if row.summary is not None}
        failures.by_cluster |= {row.cluster_id: row.failure for row in folded if row.failure is not None}

        folded_plans = [plan for plan in plans if plan.identity.cluster_id not in failures.by_cluster]
        names = [plan.identity.cluster_id for plan in folded_plans]
        # Only now, after the rows were read.
        views = dict(zip(names, view_states([self._states[name] for name in names]), strict=True))

        def result(plan: LogPlan) -> LogResult | None:
            cluster_id = plan.identity.cluster_id
            with failures.collect(cluster_id):
                gap_until = self._states[cluster_id].gap_until(plan.end, answered(views[cluster_id]))
                return log_result(plan, summaries[cluster_id], gap_until=gap_until)
            return None

        return [each for each in for_logs(result, folded_plans) if each is not None]

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


@cache
def _freeze_loaded_objects() -> None:
    """Exempt the modules of a worker, once loaded, from the garbage collection that follows each task."""
    gc.freeze()


def _tasks(plans: Sequence[LogPlan], count: int) -> list[list[LogPlan]]:
    """The plans of each task: the largest ones first, each to the task that has the fewest offsets."""
    tasks: list[list[LogPlan]] = [[] for _ in range(min(count, len(plans)))]
    sizes = [0] * len(tasks)
    for plan in sorted(plans, key=lambda each: each.range.start - each.end):
        task = sizes.index(min(sizes))
        tasks[task].append(plan)
        sizes[task] += plan.end - plan.range.start
    return tasks
