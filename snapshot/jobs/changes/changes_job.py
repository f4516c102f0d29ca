"""``aclog spark changes``: the history of logs, kept when the logs themselves forget.

    OUTPUT/changes, OUTPUT/intervals   what is read (change_files.py); executors write it, in the one action
    OUTPUT/coverage                    what the history covers (coverage.py)
    OUTPUT/state                       a snapshot store of the job's own, with applied offsets. A batch counts
                                       once its state is there

Nothing that counts is ever deleted or written anew. A batch that comes again writes its files again. What it
left there the first time is removed before: under a new checkpoint the batch may have another end, and a
topic may have forgotten some of its records since.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from records.ids import uuid_to_string
from records.log.open import open_exactly_once_producer
from snapshot.errors import HistoryForeignError
from snapshot.jobs.changes.change_files import STATE, history_files, state_url, write_changes
from snapshot.jobs.changes.change_messages import messages_of
from snapshot.jobs.changes.change_table import net_changes
from snapshot.jobs.changes.coverage import Coverage, put_coverage, read_coverage
from snapshot.jobs.running.query import run_job
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from snapshot.jobs.folding.log_plan import LogPlan, LogResult
    from snapshot.jobs.running.job import BatchReport, JobSettings

# Spark's own, in a checkpoint: a batch is planned in the first, and done in the second.
_PLANNED: Final = "offsets"
_DONE: Final = "commits"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTopic:
    """A topic that takes each change as a message (change_messages.py), once.

    Attributes:
        url: ``kafka://HOST:PORT/TOPIC``.
        client: client settings, ``aclog.kafka.*`` without that prefix; maybe secrets.
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
) -> None:
    """Follow the logs and write their history.

    Args:
        spark: the session.
        settings: what is followed; its ``store`` is not used.
        output: where the history is, a URL that Hadoop and fsspec both know, or a local path.
        on_batch: called after each batch.
        to_topic: where changes go beside the files.

    Raises:
        HistoryForeignError: ``output`` has the history of another log of the same cluster, or one that goes
            on beyond where a new checkpoint begins.
        LogError: the topic is not there, or cannot be written to.
        SparkJobError: as run_job.
    """
    storage = Storage(output)
    for log in settings.logs:
        coverage = read_coverage(storage, log.identity.cluster_id)
        if coverage is not None and coverage.identity != log.identity:
            raise HistoryForeignError(
                f"{storage.shown('')} has the history of topic id {coverage.topic_id} of cluster "
                f"{coverage.cluster_id}, and {log.url} has topic id {uuid_to_string(log.identity.topic_id)}: "
                "another log, or one deleted and created again. Start a new history: another output and "
                "another checkpoint"
            )
    if to_topic is not None:
        open_exactly_once_producer(to_topic.url, name=_feed_name(output, ""), client=to_topic.client)
    sink = ChangesSink(
        output,
        compacting=frozenset(log.identity.cluster_id for log in settings.logs if log.topic is not None),
        may_find_leftovers=_may_come_again(Storage(settings.checkpoint)),
        to_topic=to_topic,
    )
    run_job(spark, replace(settings, store=state_url(output)), sink, on_batch)


class ChangesSink:
    """What the job adds to the engine; see job.JobSink.

    Args:
        output: where the history is.
        compacting: ids of the clusters whose logs forget.
        may_find_leftovers: whether a log's first batch in this run may have been begun before.
        to_topic: where changes go beside the files.
    """

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
        # Clusters whose leftovers were looked for; those whose logs were read up to their ends in this run.
        self._looked_for: set[str] = set()
        self._caught_up: set[str] = set()

    def changes_writer(self, plans: Sequence[LogPlan]) -> Callable[[LogPlan, pa.Table], None]:
        if self._may_find_leftovers:
            for plan in plans:
                if plan.identity.cluster_id not in self._looked_for:
                    self._remove_leftovers(plan)
                    self._looked_for.add(plan.identity.cluster_id)
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
            if coverage != known:
                put_coverage(self._storage, coverage)

    def _with_coarse(self, coverage: Coverage, plan: LogPlan, gap_until: int) -> Coverage:
        """A batch that was read at the log's end, as the one before it was, held all that was written.

        Of one whose state was built anew there is only the difference.
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
        """Files of a batch that began where this one begins: had they come to count, this one would not."""
        leftovers = []
        for file in history_files(self._storage, plan.identity.cluster_id):
            if file.start > plan.start or file.start < plan.start < file.end:
                raise HistoryForeignError(
                    f"{self._storage.shown(file.path)} is history that the newest stored state under "
                    f"{STATE}/ does not reach: it ends at offset {plan.start}. Bring back what was in "
                    f"{STATE}/, or start a new history: another output and another checkpoint"
                )
            if file.start == plan.start:
                leftovers.append(file.path)
        for path in leftovers:
            self._storage.remove(path)


def _may_come_again(checkpoint: Storage) -> bool:
    """Whether the first batch may be one that was begun before, under this checkpoint or another one."""
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
    """Who writes: the same for every run of this job on this cluster's log, and no other's."""
    return f"{output.rstrip('/')}#{cluster_id}"
