"""``aclog spark changes``: the history of logs, stored beyond the logs' retention.

    OUTPUT/changes, OUTPUT/intervals   the tables (change_files.py), written by executors
    OUTPUT/coverage                    the range that the history covers (coverage.py)
    OUTPUT/tables                      if wanted, the committed history as tables of Delta Lake (tables/)
    OUTPUT/state                       the job's snapshot store, in which ACLs have the offset at which they
                                       took effect. A batch counts once its state is stored

The job never deletes or rewrites committed files; retention removes old ones (file_retention.py). A repeated
batch writes its files again, after removing those of the first attempt: with a new checkpoint the batch may
have another end, and a topic may have compacted some of its records since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from records.entries import METADATA_VERSION_FEATURE
from records.ids import uuid_to_string
from records.log.open import open_exactly_once_producer
from snapshot.errors import HistoryForeignError
from snapshot.jobs.changes.change_files import STATE, history_files, state_url, write_changes
from snapshot.jobs.changes.change_table import messages_of, net_changes
from snapshot.jobs.changes.coverage import BrokerLevels, Coverage, put_coverage, read_coverage
from snapshot.jobs.changes.tables.delta_tables import DeltaHistory
from snapshot.jobs.running.claim import CheckpointClaim
from snapshot.jobs.running.job import JobObserver, claimed
from snapshot.jobs.running.query import run_job
from snapshot.jobs.session.delta import require_delta
from snapshot.jobs.sources.log_failures import LogFailures
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from snapshot.jobs.changes.tables.access_rows import AccessAnalysis
    from snapshot.jobs.folding.log_plan import LogPlan, LogResult
    from snapshot.jobs.running.job import BatchReport, JobSettings
    from snapshot.jobs.running.query import RunControl
    from snapshot.jobs.sources.logs import FollowedLog

# Spark's directories in a checkpoint: of planned batches, and of batches that are done.
_PLANNED: Final = "offsets"
_DONE: Final = "commits"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTopic:
    """A topic that takes each change as a message (change_table.py), once.

    Attributes:
        url: ``kafka://HOST:PORT/TOPIC``.
        client: client settings, ``aclog.kafka.*`` without that prefix; may hold secrets.
    """

    url: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)


def run_changes(
    spark: SparkSession,
    settings: JobSettings,
    output: str,
    on_batch: Callable[[BatchReport], None],
    *,
    to_topic: ChangeTopic | None = None,
    access_analysis: AccessAnalysis | None = None,
    control: RunControl | None = None,
) -> None:
    """Follow the logs and write their history.

    Args:
        spark: the session.
        settings: of the job; ``store`` is not used.
        output: directory of the history, a URL that both Hadoop and fsspec support, or a local path.
        on_batch: called after each batch.
        to_topic: receives the changes, too.
        access_analysis: also publish the history as tables of Delta Lake, after each batch and at the
            start, with access_changes by this analysis; the session needs delta.SESSION_CONF.
        control: see run_job.

    Raises:
        HistoryForeignError: ``output`` has the history of another log of the same cluster, or one that
            extends beyond the start of a new checkpoint.
        LogError: the topic does not exist or cannot be written to.
        CheckpointClaimedError: another job uses the checkpoint or the output, or has taken it over.
        SparkJobError: see run_job.
    """
    if access_analysis is not None:
        require_delta(spark)
    failures = LogFailures(is_collecting=settings.isolates_logs)
    for log in settings.logs:
        with failures.collect(log.identity.cluster_id):
            _check_coverage(Storage(output), log)
    failures.check()
    if to_topic is not None:
        open_exactly_once_producer(to_topic.url, name=_feed_name(output, ""), client=to_topic.client)
    committed = on_batch
    on_idle: Callable[[], None] | None = None
    tables: DeltaHistory | None = None
    observer = JobObserver() if control is None else control.observer
    stop = None if control is None else control.stop
    with (
        claimed(settings, stop) as checkpoint,
        CheckpointClaim(
            output, "output", beside=checkpoint, take_over=settings.take_over, stop=stop
        ) as claim,
    ):
        sink = ChangesSink(
            output,
            compacting=frozenset(log.identity.cluster_id for log in settings.logs if log.topic is not None),
            may_find_leftovers=_may_come_again(Storage(settings.checkpoint)),
            to_topic=to_topic,
        )
        if access_analysis is not None:
            tables = DeltaHistory(spark, output, access_analysis, claim)

            with observer.publication():
                tables.catch_up()
            observer.deferred(tables.deferred)

            def committed(report: BatchReport) -> None:
                with observer.publication():
                    tables.publish({log.cluster_id: log.end for log in report.logs})
                observer.deferred(tables.deferred)
                on_batch(replace(report, deferred=tables.deferred))

            def analyse_deferred() -> None:
                if tables.deferred:
                    tables.analyse_deferred()
                    observer.deferred(tables.deferred)

            if settings.interval_s is not None:
                on_idle = analyse_deferred
        settings = replace(settings, store=state_url(output), claim=claim)
        run_job(spark, settings, sink, committed, on_idle=on_idle, control=control)
        if tables is not None and settings.interval_s is None:
            while tables.deferred and not (control is not None and control.is_stopping):
                tables.analyse_deferred()
                observer.deferred(tables.deferred)


def _check_coverage(storage: Storage, log: FollowedLog) -> None:
    coverage = read_coverage(storage, log.identity.cluster_id)
    if coverage is not None and coverage.identity != log.identity:
        raise HistoryForeignError(
            f"{storage.shown('')} has the history of topic id {coverage.topic_id} of cluster "
            f"{coverage.cluster_id}, but {log.url} has topic id {uuid_to_string(log.identity.topic_id)}: "
            "it is another log, or was deleted and created again. Start a new history with another output "
            "and another checkpoint"
        )


class ChangesSink:
    """The outputs of the job; see job.JobSink.

    Args:
        output: directory of the history.
        compacting: ids of the clusters whose logs are compacted.
        may_find_leftovers: a log's first batch in this run may be repeated, and have files of the first
        attempt.
        to_topic: receives the changes, too.
    """

    name = "changes"
    wants_changes = True
    wants_count_deltas = False

    def __init__(
        self,
        output: str,
        *,
        compacting: frozenset[str],
        may_find_leftovers: bool,
        to_topic: ChangeTopic | None = None,
    ) -> None:
        self._output = output
        self._storage = Storage(output)
        self._compacting = compacting
        self._may_find_leftovers = may_find_leftovers
        self._to_topic = to_topic
        # Clusters whose leftovers were removed; those whose logs were read up to their ends in this run.
        self._cleaned: set[str] = set()
        self._caught_up: set[str] = set()

    def changes_writer(self, plans: Sequence[LogPlan]) -> Callable[[LogPlan, pa.Table], None]:
        if self._may_find_leftovers:
            for plan in plans:
                if plan.identity.cluster_id not in self._cleaned:
                    self._remove_leftovers(plan)
                    self._cleaned.add(plan.identity.cluster_id)
        output, to_topic = self._output, self._to_topic

        def write(plan: LogPlan, rows: pa.Table) -> None:
            changes = net_changes(rows)
            if len(changes):
                cluster_id = plan.identity.cluster_id
                write_changes(Storage(output), cluster_id, plan.start, plan.end, changes)
                if to_topic is not None:
                    _publish(to_topic, output, cluster_id, changes)

        return write

    def commit(self, results: Sequence[LogResult]) -> None:
        for result in results:
            plan, manifest = result.plan, result.manifest
            cluster_id = plan.identity.cluster_id
            known = read_coverage(self._storage, cluster_id)
            coverage = known or Coverage.beginning(
                plan.identity,
                plan.start,
                plan.base.provenance.timestamp_ms if plan.base is not None else 0,
            )
            if cluster_id in self._compacting:
                coverage = self._with_coarse(coverage, plan, manifest.gap_until)
            levels = tuple(sorted({each.highest for each in manifest.brokers.values()}))
            version = manifest.features.get(METADATA_VERSION_FEATURE)
            coverage = coverage.with_brokers(BrokerLevels(plan.start, plan.end, version, levels))
            if coverage != known:
                put_coverage(self._storage, coverage)

    def _with_coarse(self, coverage: Coverage, plan: LogPlan, gap_until: int) -> Coverage:
        """Add the batch's range unless it is exact: read at the log's end, as was the batch before it.

        If the state was rebuilt (``before``), only the difference is known.
        """
        cluster_id = plan.identity.cluster_id
        is_caught_up = gap_until <= plan.end
        if is_caught_up and cluster_id in self._caught_up and plan.before is None:
            return coverage
        if is_caught_up:
            self._caught_up.add(cluster_id)
        else:
            self._caught_up.discard(cluster_id)
        return coverage.with_coarse(plan.start, max(plan.end, gap_until))

    def _remove_leftovers(self, plan: LogPlan) -> None:
        """Remove files of an uncommitted batch with the same start as this one."""
        leftovers = []
        for file in history_files(self._storage, plan.identity.cluster_id):
            if file.start > plan.start or file.start < plan.start < file.end:
                raise HistoryForeignError(
                    f"{self._storage.shown(file.path)} is beyond the newest stored state under {STATE}/, "
                    f"which ends at offset {plan.start}. Restore the content of {STATE}/, or start a new "
                    "history with another output and another checkpoint"
                )
            if file.start == plan.start:
                leftovers.append(file.path)
        for path in leftovers:
            self._storage.remove(path)


def _may_come_again(checkpoint: Storage) -> bool:
    """Whether the first batch may be a repeated one, with this checkpoint or a new one."""
    planned, done = (
        {int(name) for name in checkpoint.files(directory) if name.isdecimal()}
        for directory in (_PLANNED, _DONE)
    )
    return max(planned, default=-1) != max(done, default=-2)


def _publish(to_topic: ChangeTopic, output: str, cluster_id: str, changes: pa.Table) -> None:
    """Append the changes that are not in the topic yet."""
    feed = open_exactly_once_producer(
        to_topic.url, name=_feed_name(output, cluster_id), client=to_topic.client
    )
    feed.append(messages_of(cluster_id, changes))


def _feed_name(output: str, cluster_id: str) -> str:
    """The producer's name: the same for every run of this job on this cluster's log, and unique to it."""
    return f"{output.rstrip('/')}#{cluster_id}"
