"""The tables of a history on real Spark and Delta Lake, read without Spark: every change of a log, once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log.directory.identity import random_id, write_owner
from snapshot.errors import SnapshotError
from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.changes.tables import delta_tables
from snapshot.jobs.changes.tables.delta_tables import DeltaHistory
from snapshot.jobs.changes.tables.schema import TABLES
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.sources.logs import resolve_logs
from support.naive_tables import assert_tables_are_of, rows_of
from support.snapshots import acl, acl_id

pytestmark = [pytest.mark.slow, pytest.mark.integration]

#: 2026-11-29, 22:00 UTC: the batches cross the end of the month.
BEGIN_MS = 1_795_989_600_000


def write_log(directory: Path, seed: int, batches: int, cluster_id: str) -> Path:
    """Few ids, added, replaced and removed, some of them at the offset where they were added."""
    draw = random.Random(seed)

    def change() -> MetadataRecord:
        number = draw.randrange(8)
        if draw.random() < 0.4:
            return RemoveAccessControlEntryRecord(acl_id(number))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]), operation=draw.choice([3, 4]))

    records = [[change() for _ in range(1 + draw.randrange(4))] for _ in range(batches)]
    if not directory.exists():
        # No id that aclog gives, but one that a cluster may have.
        directory.mkdir()
        write_owner(directory, LogIdentity(cluster_id, random_id()))
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        begin_ms = BEGIN_MS + 3_600_000 * log.high_watermark()
        log.append_batches([(batch, begin_ms + 3_600_000 * at) for at, batch in enumerate(records)])
    return directory


def run(spark: SparkSession, home: Path, logs: Sequence[Path], **options: Any) -> list[BatchReport]:
    """Take what there is."""
    settings = JobSettings(
        logs=tuple(resolve_logs([f"file:{log}" for log in logs])),
        checkpoint=f"file://{home / '.checkpoint'}",
        store="",
        shards=2,
        max_offsets=options.pop("max_offsets", None),
    )
    reports: list[BatchReport] = []
    run_changes(
        spark, settings, f"file://{home / 'out'}", reports.append, **{"table_format": "delta", **options}
    )
    return reports


def test_the_tables_have_every_change_once_after_failures_at_any_point(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A job dies after each step of a publication in turn; each next run completes it.

    The first batch is written as Parquet only: tables may be wanted later.
    """
    log, other = (write_log(tmp_path / name, 1, 8, name) for name in ("it's", "č"))
    run(spark, tmp_path, [log, other], table_format="parquet")
    steps = [
        (delta_tables, "put_publication", "before"),
        (DeltaHistory, "_append", "after"),
        (DeltaHistory, "_merge_periods", "after"),
        (delta_tables, "put_publication", "after"),
    ]
    for at, (owner, name, when) in enumerate(steps):
        if at:
            write_log(log, at, 3, "it's")
        step = getattr(owner, name)

        def dying(*args: Any, step: Any = step, when: str = when) -> None:
            if when == "after":
                step(*args)
            raise SnapshotError("the driver died")

        with patch.object(owner, name, dying), pytest.raises(SnapshotError, match="the driver died"):
            run(spark, tmp_path, [log, other])
    write_log(other, 9, 3, "č")
    assert run(spark, tmp_path, [log, other])
    assert_tables_are_of(tmp_path / "out", log, "it's")
    assert_tables_are_of(tmp_path / "out", other, "č")
    assert {row["month"] for row in rows_of(tmp_path / "out", "acl_changes")} == {"2026-11", "2026-12"}
    columns = {(table.name, column.name, column.comment) for table in TABLES for column in table.columns}
    assert columns == {
        (table.name, row.col_name, row.comment)
        for table in TABLES
        for row in spark.sql(f"DESCRIBE delta.`file://{tmp_path}/out/tables/{table.name}`").collect()
        if row.col_name in table.names and row.comment
    }


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_driver_killed_at_random_points_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    """SIGKILL of `aclog spark changes`, again and again, while the log grows."""
    log, output, draw = tmp_path / "log", tmp_path / "out", random.Random(seed)
    command = [
        sys.executable, "-m", "authorizer.cli", "spark", "changes", "--log", f"file:{log}",
        "--output", str(output), "--format", "delta", "--once", "--max-offsets", "6", "--master", "local[2]",
    ]  # fmt: skip
    write_log(log, seed, 10, "c")
    publications, kills = output / "tables" / "_publications", 0
    while kills < 5:
        before = set(publications.glob("*.json"))
        job = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # From the start of a publication on, because Spark's start takes most of the time.
        while job.poll() is None and set(publications.glob("*.json")) == before:
            time.sleep(0.02)  # polls without a deadline; the job ends by itself
        time.sleep(draw.uniform(0, 8))  # the random point
        if job.poll() is None:
            os.kill(job.pid, signal.SIGKILL)
            kills += 1
        job.wait()
        write_log(log, seed + kills, 2, "c")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert_tables_are_of(output, log)
