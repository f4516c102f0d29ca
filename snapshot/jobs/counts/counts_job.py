"""The counts job: numbers of ACLs by cluster and kind, after every batch and over time.

``OUTPUT/state`` is a snapshot store of the batches' states, and the job's commit; the tables: see count_rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from snapshot.errors import SparkJobError
from snapshot.jobs.counts.count_files import CountFiles, state_store
from snapshot.jobs.counts.count_rows import AclKind, CountRows, count_rows, counted_from
from snapshot.jobs.counts.delta_lake import DeltaTables
from snapshot.jobs.running.claim import CheckpointClaim
from snapshot.jobs.running.job import claimed
from snapshot.jobs.running.query import run_job
from snapshot.jobs.session.delta import require_delta
from snapshot.store.snapshot_store import SnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from snapshot.jobs.counts.count_tables import TableFormat
    from snapshot.jobs.folding.log_plan import LogPlan, LogResult
    from snapshot.jobs.running.job import BatchReport, JobSettings
    from snapshot.jobs.running.query import RunControl


def run_counts(
    spark: SparkSession,
    settings: JobSettings,
    output: str,
    on_batch: Callable[[BatchReport], None],
    *,
    table_format: TableFormat = "parquet",
    add_metrics: Callable[[Collector], None] | None = None,
    control: RunControl | None = None,
) -> None:
    """Run the job; see run_job.

    The store is always ``OUTPUT/state``. ``add_metrics`` gets the metric of the counts, if it is to be
    served.

    Raises:
        CheckpointClaimedError: another job uses the checkpoint or the output, or has taken it over.
        SparkJobError: Delta is missing, there are counts but no states to continue, or see run_job.
    """
    if table_format == "delta":
        require_delta(spark)
    settings = replace(settings, store=state_store(output))
    stop = None if control is None else control.stop
    with (
        claimed(settings, stop) as checkpoint,
        CheckpointClaim(
            output, "output", beside=checkpoint, take_over=settings.take_over, stop=stop
        ) as claim,
    ):
        settings = replace(settings, claim=claim)
        tables: CountTables = (
            DeltaTables(spark, output, claim) if table_format == "delta" else CountFiles(output)
        )
        sink = CountsSink(tables)
        metric = AclCountMetric()

        def committed(report: BatchReport) -> None:
            for log in report.logs:
                metric.publish(log.cluster_id, sink.counts(log.cluster_id))
            on_batch(report)

        if add_metrics is not None:
            ends = SnapshotStore(settings.store).newest_complete_ends()
            for log in settings.logs:
                cluster_id = log.identity.cluster_id
                if cluster_id in ends:
                    metric.publish(cluster_id, tables.counts_at(cluster_id, ends[cluster_id]))
            add_metrics(metric)
        run_job(spark, settings, sink, committed, control=control)


class CountTables(Protocol):
    """Both tables, in one format."""

    def counts_at(self, cluster_id: str, end: int) -> Mapping[AclKind, int]:
        """What the last batch that ended at ``end`` or before counted; nothing if there was none."""

    def ends(self, cluster_id: str) -> set[int]:
        """Of all batches that are counted, committed or not."""

    def append(self, batch: Sequence[CountRows]) -> None:
        """Write what one batch adds, over what an earlier try at the same offsets left."""


class CountsSink:
    """The outputs of the job: rows of both tables, written by the driver."""

    name = "counts"
    wants_changes = False
    wants_count_deltas = True

    def __init__(self, tables: CountTables) -> None:
        self._tables = tables
        # By cluster: the end of the last written batch, and its counts.
        self._last: dict[str, tuple[int, Mapping[AclKind, int]]] = {}

    def counts(self, cluster_id: str) -> Mapping[AclKind, int]:
        return self._last[cluster_id][1]

    def changes_writer(self, plans: Sequence[LogPlan]) -> None:
        return None

    def commit(self, results: Sequence[LogResult]) -> None:
        batch = [count_rows(result, self._before(result.plan)) for result in results]
        if batch:
            self._tables.append(batch)
        self._last |= {rows.cluster_id: (rows.end, rows.after) for rows in batch}

    def _before(self, plan: LogPlan) -> Mapping[AclKind, int]:
        cluster_id, start = plan.identity.cluster_id, counted_from(plan)
        end, counts = self._last.get(cluster_id, (None, {}))
        if end == start:
            return counts
        if start == 0:
            self._require_new(cluster_id)
        return self._tables.counts_at(cluster_id, start)

    def _require_new(self, cluster_id: str) -> None:
        # A batch replaces rows beyond its start. A single batch there may be uncommitted. Several were
        # committed, and a compacted topic may no longer have their records.
        ends = self._tables.ends(cluster_id)
        if len(ends) > 1:
            raise SparkJobError(
                f"cluster {cluster_id} is already counted up to offset {max(ends)}, but there is no stored "
                "state to continue. Start with another --output and --checkpoint"
            )


class AclCountMetric(Collector):
    """KIP-801's AclCount for Prometheus, by cluster and kind, as of the last committed batch of each log.

    One gauge; a kind whose ACLs were all removed is exported as 0.
    """

    def __init__(self) -> None:
        self._counts: Mapping[str, Mapping[AclKind, int]] = MappingProxyType({})

    def publish(self, cluster_id: str, counts: Mapping[AclKind, int]) -> None:
        """Set the counts of one cluster. Called by one thread."""
        before = self._counts.get(cluster_id, {})
        # A single assignment: a scrape in another thread sees either the old or the new counts.
        self._counts = {**self._counts, cluster_id: {**dict.fromkeys(before, 0), **counts}}

    def describe(self) -> list[Metric]:
        """Empty: the registry has no other metrics of these names."""
        return []

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily(
            "kafka_server_authorizer_aclcount",
            "ACLs in force (KIP-801 AclCount).",
            labels=["cluster_id", *AclKind._fields],
        )
        for cluster_id, counts in sorted(self._counts.items()):
            for kind, count in sorted(counts.items()):
                family.add_metric([cluster_id, *kind], count)
        yield family
