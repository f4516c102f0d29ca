"""The snapshots job: stores the state of each micro-batch, for nodes to recover from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from snapshot.jobs.folding.log_plan import LogPlan, LogResult
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.running.query import RunControl, run_job


def run_snapshots(
    spark: SparkSession,
    settings: JobSettings,
    on_batch: Callable[[BatchReport], None],
    *,
    control: RunControl | None = None,
) -> None:
    """Run the job; see run_job."""
    run_job(spark, settings, _NoOutputs(), on_batch, control=control)


class _NoOutputs:
    """The sink of a job without outputs besides the snapshots."""

    name = "snapshots"
    wants_changes = False
    wants_count_deltas = False

    def changes_writer(self, plans: Sequence[LogPlan]) -> None:
        return None

    def commit(self, results: Sequence[LogResult]) -> None:
        pass
