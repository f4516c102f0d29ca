"""A program that runs the three jobs on one log and halts where a test kills it.

    python -m support.spark_job HOME LOG POINT AFTER

Each job continues from its checkpoint below HOME and halts at POINT in the first batch that ends beyond
offset AFTER; then the file HOME/reached/<job> exists.

    planned    Spark's offset log has the batch; nothing of it was written
    part       the first shard's part is put, no other shard's is
    folded     all parts are put, and the history's files; nothing of the driver's
    written    what the job itself writes is, too; the manifest is not put
    stored     the manifest is put; Spark knows nothing of it
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession

from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.counts.counts_job import run_counts
from snapshot.jobs.folding.log_fold import FoldedLog, fold_logs
from snapshot.jobs.folding.log_plan import LogPlan, log_result
from snapshot.jobs.folding.stored_state import StoredState
from snapshot.jobs.planning.log_states import BaseSearch, LogStates
from snapshot.jobs.running import micro_batch
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.session.spark_session import spark_session
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore

POINTS = ("planned", "part", "folded", "written", "stored")
JOBS = ("snapshots", "changes", "counts")
SHARDS = 2
MAX_OFFSETS = 24
#: A job that stands still in its executors keeps a core, and so does each of its shards.
CORES = len(JOBS) * SHARDS


def job_settings(home: Path, job: str, log: str) -> JobSettings:
    """The settings of a job, whose files are below ``home / job``."""
    return JobSettings(
        logs=tuple(resolve_logs([log])),
        checkpoint=f"file://{home / job / '.checkpoint'}",
        store=f"{home / job}/state",
        keep=100,
        shards=SHARDS,
        max_offsets=MAX_OFFSETS,
    )


def run(spark: SparkSession, home: Path, job: str, log: str) -> list[BatchReport]:
    """Run one of the jobs on all available records."""
    reports: list[BatchReport] = []
    settings = job_settings(home, job, log)
    if job == "snapshots":
        run_snapshots(spark, settings, reports.append)
    else:
        (run_changes if job == "changes" else run_counts)(spark, settings, str(home / job), reports.append)
    return reports


def stand_still(home: Path, store_url: str) -> None:
    """Report that the job reached the point, and halt."""
    (home / "reached" / Path(store_url).parent.name).touch()
    threading.Event().wait()


def stop_at(home: Path, point: str, after: int) -> None:
    """Halt the engine at the point."""

    def halt(here: str, end: int, store_url: str) -> None:
        if here == point and end > after:
            stand_still(home, store_url)

    next_state, commit = LogStates.next_state, SnapshotStore.commit

    def held_next_state(states: LogStates, search: BaseSearch, **given: Any) -> Any:
        halt("planned", search.end, states._store.url)
        return next_state(states, search, **given)

    def held_log_result(plan: LogPlan, summary: Any, **given: Any) -> Any:
        halt("folded", plan.end, plan.store_url)
        return log_result(plan, summary, **given)

    def held_commit(store: SnapshotStore, manifest: Any, **given: Any) -> Any:
        halt("written", manifest.provenance.end_offset, store.url)
        stored = commit(store, manifest, **given)
        halt("stored", manifest.provenance.end_offset, store.url)
        return stored

    def held_fold_logs(
        logs: Iterable[Any], *, plans: Mapping[str, LogPlan], **given: Any
    ) -> Iterator[FoldedLog]:
        # This function runs in the executor's process, to which its code is sent.
        (plan,) = plans.values()
        put = StoredState._put

        def held_put(state: Any, storage: Any, ref: Any, shard: int, *rest: Any) -> Any:
            if shard:
                threading.Event().wait()
            put(state, storage, ref, shard, *rest)
            stand_still(home, plan.store_url)

        if point == "part" and plan.end > after:
            patch.object(StoredState, "_put", held_put).start()
        yield from fold_logs(logs, plans=plans, **given)

    for owner, name, held in (
        (LogStates, "next_state", held_next_state),
        (SnapshotStore, "commit", held_commit),
        (micro_batch, "log_result", held_log_result),
        (micro_batch, "fold_logs", held_fold_logs),
    ):
        patch.object(owner, name, held).start()


def main(home: Path, log: str, point: str, after: int) -> None:
    test = os.getppid()
    (home / "reached").mkdir(parents=True, exist_ok=True)
    stop_at(home, point, after)
    spark = spark_session("aclog tests", master=f"local[{CORES}]")
    for job in JOBS:
        # One after the other: Spark gives a Python worker ten seconds to start.
        thread = threading.Thread(target=partial(run, spark, home, job, log), daemon=True)
        thread.start()
        while not (home / "reached" / job).exists():
            thread.join(0.05)
            if not thread.is_alive() or os.getppid() != test:
                sys.exit(f"the {job} job did not come to {point}")
    # A killed test must leave no process behind.
    while os.getppid() == test:
        time.sleep(0.2)  # polls the parent, without a deadline


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
