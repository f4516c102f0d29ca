"""A program that counts a log into Delta's tables, in a separate Spark session, which Delta needs.

    python -m support.delta_counts OUTPUT LOG

The second batch fails before its commit; then a new checkpoint continues with smaller batches. It prints one
JSON object: the ends of all batches, the rows of both tables, and how many commits the table of counts has.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import support.spark  # noqa: F401 - sets where the jars are
from snapshot.errors import SnapshotError
from snapshot.jobs.counts.count_tables import read_count_deltas, read_counts
from snapshot.jobs.counts.counts_job import run_counts
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.session.delta import SESSION_CONF
from snapshot.jobs.session.spark_session import spark_session
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore


def main(output: str, log: str) -> None:
    conf = {**SESSION_CONF, "spark.sql.shuffle.partitions": "2"}
    spark = spark_session("delta counts", master="local[2]", conf=conf)
    checkpoint = Path(output) / ".checkpoints"
    reports: list[BatchReport] = []

    def run(max_offsets: int) -> None:
        settings = JobSettings(
            logs=tuple(resolve_logs([log])),
            checkpoint=f"file://{checkpoint}",
            store="",
            shards=2,
            max_offsets=max_offsets,
        )
        run_counts(spark, settings, f"file://{output}", reports.append, table_format="delta")

    commit, commits = SnapshotStore.commit, []

    def fail_at_the_second(store: SnapshotStore, *args: Any, **kwargs: Any) -> Any:
        commits.append(args)
        if len(commits) == 2:
            raise SnapshotError("the disk is full")
        return commit(store, *args, **kwargs)

    with patch.object(SnapshotStore, "commit", fail_at_the_second):
        try:
            run(60)
        except SnapshotError:
            shutil.rmtree(checkpoint)
    run(40)
    counts = read_counts(spark, f"file://{output}", "delta")
    deltas = read_count_deltas(spark, f"file://{output}", "delta")
    history = spark.sql(f"DESCRIBE HISTORY delta.`file://{output}/counts`")
    found = {
        "ends": [batch.end for report in reports for batch in report.logs],
        "counts": [row.asDict() for row in counts.drop("date", "time").collect()],
        "deltas": [
            row.asDict()
            for row in deltas.selectExpr("*", "unix_millis(minute) AS ms").drop("date", "minute").collect()
        ],
        "commits": history.where("operation = 'WRITE'").count(),
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
