"""The tables of a history on real Spark and Delta Lake, read without Spark: every change of a log, once."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from authorizer.analysis.history.access_history import Bounds
from authorizer.analysis.permissions.witness import Witness, decide_witness
from authorizer.api.ip_address import host_matches
from authorizer.api.kafka_version import KafkaVersion
from authorizer.cli.main import cli
from authorizer.cli.spark.access_analysis import ReleaseHosts, SettingsAnalysis
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import SUPPORTED_OPERATIONS, ResourceType
from records.entries import MetadataRecord, RemoveAccessControlEntryRecord
from records.log.directory import DirectoryLog
from replay.load_image import load_image
from snapshot.errors import HistoryMissingError, HistoryRangeError, SnapshotError, SparkJobError
from snapshot.jobs.changes.changes_job import run_changes
from snapshot.jobs.changes.coverage import put_coverage, read_coverage
from snapshot.jobs.changes.file_retention import remove_files
from snapshot.jobs.changes.history import History
from snapshot.jobs.changes.tables import delta_tables
from snapshot.jobs.changes.tables.delta_tables import DeltaHistory
from snapshot.jobs.changes.tables.maintenance import deletable_rows, maintain
from snapshot.jobs.changes.tables.publication import last_publication
from snapshot.jobs.changes.tables.retention import Retention
from snapshot.jobs.changes.tables.schema import TABLES
from snapshot.jobs.changes.tables.sql import query, register
from snapshot.jobs.running.claim import CheckpointClaim
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.running.progress_metrics import JobMetrics
from snapshot.jobs.running.query import RunControl
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.storage import Storage
from support.changing_log import BEGIN_MS, write_log
from support.naive_tables import (
    NaiveTables,
    assert_compacted_ranges_are_of,
    assert_tables_are_of,
    directory_states,
    rows_of,
)
from support.seeds import seeded
from support.snapshots import acl, acl_id
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration]

#: Beside the other tests of Spark, on another worker: together they would take longer than all other tests.
LONG_GROUP = pytest.mark.xdist_group("spark-tables")

#: For a publication on a machine with other work; a test that passes does not wait for it.
WAIT_S = 400.0
ANALYSIS = SettingsAnalysis(AuthorizerSettings())
ROOT = Path(__file__).resolve().parents[2]
#: After all records of the logs.
AFTER_ALL = datetime.fromtimestamp(BEGIN_MS / 1000, UTC) + timedelta(days=365)


def run(spark: SparkSession, home: Path, logs: Sequence[Path], **options: Any) -> list[BatchReport]:
    """Take what there is."""
    settings = JobSettings(
        logs=tuple(resolve_logs([f"file:{log}" for log in logs])),
        checkpoint=f"file://{home / '.checkpoint'}",
        store="",
        shards=2,
        max_offsets=options.pop("max_offsets", None),
        interval_s=options.pop("interval_s", None),
    )
    reports: list[BatchReport] = []

    def on_batch(report: BatchReport) -> None:
        reports.append(report)
        options.get("on_batch", lambda _: None)(report)

    run_changes(
        spark,
        settings,
        f"file://{home / 'out'}",
        on_batch,
        access_analysis=options.get("access_analysis", ANALYSIS),
        control=options.get("control"),
    )
    return reports


def test_the_tables_have_every_change_of_a_log(spark: SparkSession, tmp_path: Path) -> None:
    """The short test of the gate: one run of the job, whose log lags until the tables have the batch."""
    log, output = write_log(tmp_path / "log", 1, 5, "c"), tmp_path / "out"
    day_s = 86_400
    metrics = JobMetrics(resolve_logs([f"file:{log}"]), ["changes"], lambda: BEGIN_MS / 1000 + day_s)
    lags = []

    def lag() -> dict[str, float]:
        names = {"end_offset", "lag_offsets", "lag_seconds", "publication_pending_seconds"}
        found = {each.name.removeprefix("aclog_spark_"): each.samples for each in metrics.collect()}
        return {name: found[name][0].value for name in names}

    def on_batch(report: BatchReport) -> None:
        lags.append(lag())
        metrics.done("changes", report)
        lags.append(lag())

    control = RunControl(observer=metrics.queries["changes"])
    (report,) = run(spark, tmp_path, [log], control=control, on_batch=on_batch)
    end = report.logs[0].end
    published = {"publication_pending_seconds": 0}
    assert lags == [
        {"end_offset": 0, "lag_offsets": end, "lag_seconds": day_s, **published},
        {"end_offset": end, "lag_offsets": 0, "lag_seconds": 0, **published},
    ]
    assert_tables_are_of(output, log)


@pytest.mark.long
@LONG_GROUP
def test_the_tables_have_every_change_once_after_failures_at_any_point(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A job dies after each step of a publication in turn; each next run completes it.

    The first batch is written as Parquet only: tables may be wanted later.
    """
    log, other = (write_log(tmp_path / name, 1, 8, name) for name in ("it's", "č"))
    run(spark, tmp_path, [log, other], access_analysis=None)
    steps = [
        (delta_tables, "begin_publication", "before"),
        (DeltaHistory, "_append", "after"),
        (DeltaHistory, "_merge_periods", "after"),
        (delta_tables, "begin_publication", "after"),
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
def test_deferred_changes_are_analysed_once_in_later_publications(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Bounds of few changes: a job dies around each commit, and is stopped while it is idle."""
    log, output = write_log(tmp_path / "log", 1, 8, "c"), tmp_path / "out"
    few = SettingsAnalysis(AuthorizerSettings(), Bounds(work=300, deferred_work=300))
    for at, when in enumerate(("before", "after")):
        commit = DeltaHistory._replace_deferred

        def dying(*args: Any, commit: Any = commit, when: str = when) -> None:
            if when == "after":
                commit(*args)
            raise SnapshotError("the driver died")

        with (
            patch.object(DeltaHistory, "_replace_deferred", dying),
            pytest.raises(SnapshotError, match="the driver died"),
        ):
            run(spark, tmp_path, [log], access_analysis=few)
        assert any(row["change"] == "deferred" for row in rows_of(output, "access_changes"))
        write_log(log, at, 3, "c")
    metrics = JobMetrics(resolve_logs([f"file:{log}"]), ["changes"])
    query, counted = metrics.queries["changes"], []
    control = RunControl(observer=query)

    def count(number: int) -> None:
        counted.append(number)
        if not number and len(counted) > 1:
            control.stop.set()

    with patch.object(query, "deferred", count):
        reports = run(spark, tmp_path, [log], access_analysis=few, control=control, interval_s=0.1)
    assert reports[-1].deferred > 0
    assert counted[-1] == 0
    assert_tables_are_of(output, log)


def aclog(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.long
@LONG_GROUP
def test_maintenance_analyses_what_an_ended_job_has_deferred(spark: SparkSession, tmp_path: Path) -> None:
    """Unless a job runs; its tables are as those of a job that deferred nothing.

    Until then retention is refused, here up to a time after the log's end: it would delete rows.
    """
    log, output = write_log(tmp_path / "log", 1, 8, "c"), tmp_path / "out"
    few = SettingsAnalysis(AuthorizerSettings(), Bounds(work=300))

    def dying(tables: DeltaHistory) -> None:
        raise SnapshotError("the driver died")

    with (
        patch.object(DeltaHistory, "analyse_deferred", dying),
        pytest.raises(SnapshotError, match="the driver died"),
    ):
        run(spark, tmp_path, [log], access_analysis=few)
    deferred = sum(row["change"] == "deferred" for row in rows_of(output, "access_changes"))
    assert deferred > 0
    before = {table.name: rows_of(output, table.name) for table in TABLES}
    with pytest.raises(SparkJobError, match=f"^{deferred} changes are deferred: their analysis needs"):
        list(maintain(spark, f"file://{output}", vacuum_after_hours=7 * 24, keep_from=AFTER_ALL))
    assert {table.name: rows_of(output, table.name) for table in TABLES} == before
    claim = CheckpointClaim(f"file://{output}", "output")
    result = aclog("spark", "maintain", "--json", "--history", str(output))
    assert result.exit_code == 0, result.stderr
    assert "changes are deferred; the job that is running analyses them" in result.stderr
    assert "analysed" not in result.stdout
    claim.release()
    result = aclog("spark", "maintain", "--json", "--history", str(output))
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout.splitlines()[0]) == {"analysed": deferred}
    assert_tables_are_of(output, log)


@pytest.mark.long
@LONG_GROUP
def test_coverage_has_the_ranges_that_may_have_been_compacted(spark: SparkSession, tmp_path: Path) -> None:
    """Those of `aclog spark history`, also if no ACL has changed, of a table that an older version wrote."""
    log, output = write_log(tmp_path / "log", 1, 8, "c"), tmp_path / "out"
    run(spark, tmp_path, [log])
    (before,) = rows_of(output, "acl_coverage")
    assert before["compacted_ranges"] == []
    storage = Storage(str(output))
    coverage = read_coverage(storage, "c")
    assert coverage is not None
    put_coverage(storage, coverage.with_coarse(2, 9))
    dying = patch.object(delta_tables, "end_publication", side_effect=SnapshotError("the driver died"))
    with dying, pytest.raises(SnapshotError, match="the driver died"):
        run(spark, tmp_path, [log])
    assert_compacted_ranges_are_of(output)
    run(spark, tmp_path, [log])
    assert_tables_are_of(output, log)

    table = f"file://{output}/tables/acl_coverage"
    older = DeltaTable(table).to_pyarrow_table().drop_columns(["compacted_ranges"])
    write_deltalake(table, older, mode="overwrite", schema_mode="overwrite")
    session = spark.newSession()
    register(session, f"file://{output}", ReleaseHosts())
    ranges = "SELECT cluster_id, compacted_ranges AS ranges FROM acl_coverage"
    assert query(session, ranges)[1] == [("c", None)]
    run(spark, tmp_path, [log])
    register(session, f"file://{output}", ReleaseHosts())
    assert query(session, ranges)[1] == [("c", [{"from_offset": 2, "until_offset": 9}])]
    assert_tables_are_of(output, log)
    history = History.open(spark, f"file://{output}", "c")
    noted = [offset for offset in range(history.end) if history.in_force(at_offset=offset).notes]
    assert noted == list(range(2, 8))
    page = (ROOT / "docs" / "spark-tables.md").read_text(encoding="utf-8")
    (statement,) = [each for each in page.split("\n\n") if "explode(compacted_ranges)" in each]
    _, found = query(session, statement.replace("changed.*", "DISTINCT changed.offset"))
    changed = {row["offset"] for row in rows_of(output, "acl_changes") if 2 <= row["offset"] < 9}
    assert sorted(found) == [(offset,) for offset in sorted(changed)] != []


PRINCIPALS = ("User:a", "User:b", "User:*")
CLIENTS = ("10.0.0.1", "10.1.0.2", "fe80:0:0:0:0:0:0:1")
#: The last three match no client: not a network, not as a client's address is written.
HOSTS = (
    *("*", "10.0.0.1", "10.0.0.0/24", "10.0.0.9/8", "10.0.0.1/32", "fe80:0:0:0:0:0:0:1", "fe80::/16"),
    *("::/0", "0.0.0.0/0", "10.0.0.0/33", "fe80::1", "::ffff:10.0.0.1"),
)


def random_acl(draw: random.Random, number: int) -> MetadataRecord:
    """Names, prefixes and wildcards around two topics, and both permissions."""
    name, pattern = draw.choice([("orders", 3), ("ord", 4), ("o", 4), ("*", 3), ("orders-2", 3)])
    return acl(
        number,
        resource_name=name,
        pattern_type=pattern,
        principal=draw.choice(PRINCIPALS),
        host=draw.choice(HOSTS),
        operation=draw.choice([2, 3, 4, 8, 10, 11]),
        permission_type=draw.choice([2, 3, 3, 3]),
    )


@pytest.mark.long
@LONG_GROUP
def test_the_functions_of_sql_answer_as_the_authorizer_at_each_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """who_had_access for principals, topics, operations and hosts; grants_of by its definition.

    Hosts are networks from Kafka 4.4 on, and if the release is not known, those of DENY ACLs.
    """
    draw, log = random.Random(6), tmp_path / "log"
    batches = [
        [RemoveAccessControlEntryRecord(acl_id(draw.randrange(20))), random_acl(draw, draw.randrange(20))]
        for _ in range(30)
    ]
    with DirectoryLog.open(log, mode="create", cluster_id="c") as created:
        created.append_batches([(batch, BEGIN_MS + 1000 * at) for at, batch in enumerate(batches)])
    run(spark, tmp_path, [log])
    session = spark.newSession()
    times = [BEGIN_MS + 1000 * at + 500 for at in (12, 20, 28)]
    questions = list(product(PRINCIPALS[:2], ("orders", "other")))
    for version, at in zip((KafkaVersion.V4_4, KafkaVersion.V4_3, None), times, strict=True):
        register(session, f"file://{tmp_path / 'out'}", ReleaseHosts(version))
        calls = (
            f"SELECT {number} AS number, * "
            f"FROM who_had_access('{who}', 'TOPIC:{name}', timestamp_millis({at}))"
            for number, (who, name) in enumerate(questions)
        )
        answers = session.sql(" UNION ALL ".join(calls)).collect()
        assert answers
        with DirectoryLog.open(log) as opened:
            image = load_image(opened, at_offset=2 * ((at - BEGIN_MS) // 1000) + 1).image
        settings = AuthorizerSettings(kafka_version=version)
        state = AuthorizerState(settings.index(image), settings, is_ready=True, not_ready_reason="")
        for number, (who, name) in enumerate(questions):
            for operation, client in product(SUPPORTED_OPERATIONS[ResourceType.TOPIC], CLIENTS):
                witness = Witness(who, client, ResourceType.TOPIC, name)
                found = any(
                    (row.number, row.principal, row.operation) == (number, who, operation.name)
                    and host_matches(row.host, client, networks=True)
                    and not any(
                        host_matches(each.split(" from ")[1], client, networks=True) for each in row.excluded
                    )
                    for row in answers
                )
                assert found == decide_witness(state, witness, operation).is_allowed, (witness, operation)
    period = f"timestamp_millis({times[0]}), timestamp_millis({times[1]})"
    granted = session.sql(f"SELECT id, valid_from_offset FROM grants_of('User:a', {period})").collect()
    assert {tuple(row) for row in granted} == {
        (row["id"], row["valid_from_offset"])
        for row in rows_of(tmp_path / "out", "acl_in_force")
        if row["permission_type"] == "ALLOW" and row["principal"] in ("User:a", "User:*")
        if row["valid_from_time"].timestamp() * 1000 < times[1]
        if row["valid_to_time"] is None or row["valid_to_time"].timestamp() * 1000 > times[0]
    }
    result = aclog(
        "spark", "sql", "--json", "--history", str(tmp_path / "out"),
        f"SELECT count(*) AS number, max(valid_to_time) AS last FROM grants_of('User:a', {period})",
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["number"] == len(granted)
    result = aclog(
        "spark", "sql", "--history", str(tmp_path / "out"), "SELECT 1 AS one, array('a', 'b') AS two"
    )
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["one", "two"],
        ["1", "a,", "b"],
        ["1", "row"],
    ]
    result = aclog("spark", "sql", "--history", str(tmp_path / "out"), "SELECT nothing FROM acl_changes")
    assert result.exit_code == 2
    assert "Spark does not accept this query: [UNRESOLVED_COLUMN" in result.stderr
    with pytest.raises(HistoryMissingError, match="has no tables: `aclog spark changes --format delta`"):
        register(session, f"file://{tmp_path}", ReleaseHosts())


@pytest.mark.long
@LONG_GROUP
def test_maintenance_beside_the_job_changes_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """OPTIMIZE commits while the job's MERGE runs, so that Delta refuses the MERGE; it is tried again."""
    log, output = write_log(tmp_path / "log", 3, 4, "c"), tmp_path / "out"
    run(spark, tmp_path, [log])
    write_log(log, 4, 3, "c")
    orphan = output / "tables" / "acl_changes" / "cluster_id=c" / "month=2026-11" / "part-orphan.parquet"
    orphan.write_bytes(b"left by a killed job")
    os.utime(orphan, (0, 0))
    table = f"delta.`file://{output}/tables/acl_in_force`"
    # Small files, as those of many batches, so that there is something to merge.
    rows = spark.read.format("delta").load(f"file://{output}/tables/acl_in_force").repartition(3)
    rows.write.format("delta").mode("overwrite").save(f"file://{output}/tables/acl_in_force")
    merge = DeltaHistory._merge_periods
    began, optimized = tmp_path / "began", tmp_path / "optimized"

    def wait() -> bool:
        began.touch()
        while not optimized.exists():
            time.sleep(0.02)  # polls without a deadline
        return False

    def merge_beside_maintenance(tables: DeltaHistory, rows: Any) -> None:
        # The source of the MERGE is read after the table's version was chosen.
        waiting = F.udf(lambda change: wait() or change, "long").asNondeterministic()
        # One task waits, so that the others have a core.
        slow = rows.coalesce(1).withColumn("valid_to_offset", waiting("valid_to_offset"))
        merging = threading.Thread(target=merge, args=(tables, slow))
        merging.start()
        while not began.exists():
            merging.join(0.02)
            assert merging.is_alive()
        spark.newSession().sql(f"OPTIMIZE {table}")
        optimized.touch()
        merging.join()

    conflicts: list[bool] = []
    is_conflict = delta_tables._is_conflict

    def counted(error: Any) -> bool:
        conflicts.append(is_conflict(error))
        return conflicts[-1]

    with (
        patch.object(DeltaHistory, "_merge_periods", merge_beside_maintenance),
        patch.object(delta_tables, "_is_conflict", counted),
    ):
        run(spark, tmp_path, [log])
    assert conflicts == [True]
    result = aclog("spark", "maintain", "--json", "--history", str(output))
    assert result.exit_code == 0, result.stderr
    done = {line["table"]: line for line in map(json.loads, result.stdout.splitlines())}
    assert done.keys() == {table.name for table in TABLES}
    # The second publication has changes of December only.
    assert done["acl_changes"] == {
        "table": "acl_changes",
        "deleted": 0,
        "merged": 2,
        "written": 1,
        "files": 2,
    }
    assert not orphan.exists()
    assert_tables_are_of(output, log)


def waiting_for_lock(path: Path) -> set[int]:
    """The processes that wait for a lock of a file."""
    number = path.stat().st_ino
    found = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return {int(each[5]) for each in found if each[1] == "->" and each[6].endswith(f":{number}")}


@pytest.mark.long
@LONG_GROUP
def test_maintenance_again_and_again_beside_a_running_job(spark: SparkSession, tmp_path: Path) -> None:
    """The job of another process appends meanwhile, and each of both waits for the other's commit.

    Delta excludes only commits of one process from each other on a local disk. A second job with another
    checkpoint is refused, and the first continues.
    """
    log, output = write_log(tmp_path / "log", 5, 4, "c"), tmp_path / "out"
    errors = tmp_path / "errors.log"
    command = [
        *(sys.executable, "-m", "authorizer.cli", "spark", "changes", "--log", f"file:{log}"),
        *("--output", str(output), "--format", "delta", "--interval", "0.2", "--master", "local[2]"),
    ]
    tables = output / "tables"
    maintain = ("spark", "maintain", "--json", "--history", str(output))
    merged = 0

    def is_published() -> bool:
        assert job.poll() is None, errors.read_text()
        with DirectoryLog.open(log) as opened:
            end = opened.high_watermark()
        last = last_publication(Storage(str(output)))
        return last is not None and last.is_complete and last.ends == {"c": end}

    with errors.open("wb") as output_of_job:
        job = subprocess.Popen(command, stdout=output_of_job, stderr=output_of_job)
    try:
        wait_until(is_published, "a publication", timeout_s=WAIT_S)
        refused = aclog(
            *("spark", "changes", "--log", f"file:{log}", "--output", str(output), "--once"),
            *("--checkpoint", str(tmp_path / "other")),
        )
        assert refused.exit_code == 3, refused.output
        assert f"the output file://{output} is in use by process {job.pid} on " in " ".join(
            refused.stderr.split()
        )
        with (tables / "_commit.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            write_log(log, 6, 2, "c")
            with ThreadPoolExecutor(1) as pool:
                maintained = pool.submit(aclog, *maintain)
                wait_until(
                    lambda: {job.pid, os.getpid()} <= waiting_for_lock(tables / "_commit.lock"),
                    "the commits of both",
                    timeout_s=WAIT_S,
                )
                fcntl.flock(lock, fcntl.LOCK_UN)
                assert maintained.result().exit_code == 0, maintained.result().output
        for seed in (7, 8):
            write_log(log, seed, 2, "c")
            result = aclog(*maintain)
            assert result.exit_code == 0, result.output
            merged += sum(line["merged"] for line in map(json.loads, result.stdout.splitlines()))
        wait_until(is_published, "a publication", timeout_s=WAIT_S)
        job.send_signal(signal.SIGTERM)
        assert job.wait(WAIT_S) == 0, errors.read_text()
    finally:
        job.kill()
        job.wait()
    assert merged
    assert_tables_are_of(output, log)


@pytest.mark.long
@LONG_GROUP
def test_retention_changes_no_answer_about_later_times(spark: SparkSession, tmp_path: Path) -> None:
    """States, periods and counts from the limit on, also after the next batch; the rest is deleted.

    The first run is killed between two tables; the tables say from the start that they lack earlier states.
    """
    output = tmp_path / "out"
    logs = [write_log(tmp_path / name, seed, 20, name) for seed, name in ((1, "it's"), (2, "idle"))]
    run(spark, tmp_path, logs)
    session = spark.newSession()
    end_ms = BEGIN_MS + 3_600_000 * 19
    # In the middle of the logs, between two records.
    limit_ms = BEGIN_MS + 3_600_000 * 10 + 1_800_000
    times = range(limit_ms, end_ms + 3_600_000, 4 * 3_600_000)
    states = [
        f"SELECT {at} AS at, id, valid_from_offset FROM acls_at(timestamp_millis({at}))" for at in times
    ]
    limit = f"timestamp_millis({limit_ms})"
    periods = f"{limit}, timestamp_millis({end_ms})"
    questions = [
        " UNION ALL ".join(states),
        f"SELECT id, valid_from_offset FROM grants_of('User:u1', {periods})",
        f"SELECT max_by(count, offset) FROM acl_counts WHERE time <= {limit} GROUP BY cluster_id, operation",
        f"SELECT cluster_id, offset, id FROM acl_changes WHERE time >= {limit}",
        f"SELECT cluster_id, offset, witness FROM access_changes WHERE time >= {limit}",
    ]

    def answers() -> list[list[str]]:
        register(session, f"file://{output}", ReleaseHosts())
        return [sorted(map(str, session.sql(question).collect())) for question in questions]

    before = answers()
    assert all(before)
    rows = {table.name: len(rows_of(output, table.name)) for table in TABLES}
    keep_from = datetime.fromtimestamp(limit_ms / 1000, UTC)
    counted = {
        table: deletable
        for table, deletable, _ in deletable_rows(spark, f"file://{output}", keep_from=keep_from)
    }
    assert {table.name: len(rows_of(output, table.name)) for table in TABLES} == rows
    begins = {
        name: max(
            (row["offset"] + 1, row["time"])
            for table in ("acl_changes", "acl_counts")
            for row in rows_of(output, table, name)
            if row["time"] <= keep_from
        )
        for name in ("it's", "idle")
    }

    def maintained() -> dict[str, int]:
        done = maintain(spark, f"file://{output}", vacuum_after_hours=7 * 24, keep_from=keep_from)
        return {table.table: table.deleted for table in done}

    delete = Retention.delete

    def dying(retention: Retention, table: Any) -> None:
        if table.name == "acl_in_force":
            raise SnapshotError("killed")
        delete(retention, table)

    with patch.object(Retention, "delete", dying), pytest.raises(SnapshotError, match="killed"):
        maintained()
    assert len(rows_of(output, "acl_changes")) == rows["acl_changes"] - counted["acl_changes"]
    for _ in range(2):
        covered = {
            row["cluster_id"]: (row["begin_offset"], row["begin_time"])
            for row in rows_of(output, "acl_coverage")
        }
        assert covered == begins
        assert answers() == before
        for begin_offset, begin in begins.values():
            assert begin_offset > 1
            at = round(begin.timestamp() * 1000)
            with pytest.raises(HistoryRangeError, match=r"^the tables of cluster .* are complete from"):
                query(session, f"SELECT * FROM acls_at(timestamp_millis({at - 1}))")
        maintained()
    for table in TABLES:
        assert len(rows_of(output, table.name)) == rows[table.name] - counted[table.name]
        assert bool(counted[table.name]) == (table.name != "acl_coverage")
    counting = "SELECT count(*) AS number FROM acl_changes"
    result = aclog("spark", "sql", "--json", "--history", str(output), "--cluster-id", "idle", counting)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["number"] == len(rows_of(output, "acl_changes", "idle"))
    assert (
        f"note: the tables of cluster idle are complete from {begins['idle'][1]:%Y-%m-%dT%H}" in result.stderr
    )
    assert "it's" not in result.stderr
    result = aclog("spark", "sql", "--history", str(output), "--cluster-id", "other", counting)
    assert result.exit_code == 2
    assert "holds no history of cluster other" in result.stderr
    assert not any(
        maintained for _, maintained, _ in deletable_rows(spark, f"file://{output}", keep_from=keep_from)
    )
    write_log(logs[0], 3, 3, "it's")
    run(spark, tmp_path, logs)
    expected = NaiveTables(directory_states(logs[0]))
    for row in rows_of(output, "acl_counts", "it's"):
        kind = tuple(row[name] for name in ("resource_type", "pattern_type", "permission_type", "operation"))
        assert expected.counts[row["offset"], kind, row["delta"], row["count"]] == 1
    in_force = [row for row in rows_of(output, "acl_in_force", "it's") if row["valid_to_offset"] is None]
    assert len(in_force) == sum(end is None for _, end, _ in expected.periods)
    result = aclog("spark", "maintain", "--json", "--history", str(output), "--keep-rows", "1d", "--dry-run")
    assert result.exit_code == 0, result.stderr
    *files, changes, _, _, _, _ = map(json.loads, result.stdout.splitlines())
    assert [(line["cluster"], line["deletable"]) for line in files] == [("idle", 0), ("it's", 0)]
    # The log is of the future.
    assert (changes["table"], changes["deletable"]) == ("acl_changes", 0)
    assert changes["rows"] == len(rows_of(output, "acl_changes"))


@pytest.mark.long
@LONG_GROUP
def test_retention_of_a_historys_files_changes_no_answer_about_later_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Killed after its first removal, then complete; then the next batch, and the first tables."""
    log, output = write_log(tmp_path / "log", 1, 60, "c"), tmp_path / "out"
    # Three batches of about a day each.
    run(spark, tmp_path, [log], access_analysis=None, max_offsets=60)
    times = [datetime.fromtimestamp(BEGIN_MS / 1000 + 3_600 * hours, UTC) for hours in (38, 45, 59)]
    limit = times[0]

    def answers() -> list[list[str]]:
        history = History.open(spark, f"file://{output}")
        found = [history.in_force(at_time=time).rows for time in times]
        found.append(history.changed(after=limit).rows)
        return [sorted(map(str, rows.collect())) for rows in found]

    def retained() -> tuple[int, int]:
        (effect,) = remove_files(f"file://{output}", limit, None)
        return effect.removed, effect.files

    before = answers()
    assert all(before)
    remove = Storage.remove

    def dying(storage: Storage, path: str) -> None:
        remove(storage, path)
        raise SnapshotError("killed")

    with patch.object(Storage, "remove", dying), pytest.raises(SnapshotError, match="killed"):
        retained()
    assert answers() == before
    removed, files = retained()
    assert removed > 0
    assert files > 0
    dates = {path.name for path in output.glob("changes/*/*")}
    assert "date=2026-11-30" not in dates
    assert "date=2026-12-02" in dates
    assert answers() == before
    coverage = read_coverage(Storage(str(output)), "c")
    assert coverage is not None
    begin = datetime.fromtimestamp(coverage.begin_time_ms / 1000, UTC)
    assert begin < limit
    with pytest.raises(HistoryRangeError, match="the history begins with the state at"):
        History.open(spark, f"file://{output}").in_force(at_time=begin - timedelta(milliseconds=1))
    write_log(log, 2, 3, "c")
    run(spark, tmp_path, [log])
    (covered,) = rows_of(output, "acl_coverage")
    assert (covered["begin_offset"], covered["begin_time"]) == (coverage.begin_offset, begin)
    expected = NaiveTables(directory_states(log))
    changes = Counter(row["offset"] for row in rows_of(output, "acl_changes"))
    assert changes == Counter(offset for offset, *_ in expected.changes if offset >= coverage.begin_offset)
    periods = Counter(
        (row["valid_from_offset"], row["valid_to_offset"]) for row in rows_of(output, "acl_in_force")
    )
    assert periods == Counter(
        (since, end) for since, end, _ in expected.periods if end is None or end >= coverage.begin_offset
    )
    shutil.rmtree(output / "tables")
    # The log is of the future. Without tables it needs no Spark.
    with patch("authorizer.cli.spark.maintain.require_spark", side_effect=AssertionError):
        result = aclog("spark", "maintain", "--history", str(output), "--keep-rows", "1d")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("history of cluster c: 0 Parquet files removed, ")
    result = aclog("spark", "maintain", "--history", str(tmp_path), "--keep-rows", "1d")
    assert result.exit_code == 2
    assert "holds no history" in result.stderr


@pytest.mark.soak
@LONG_GROUP
@seeded(1)
def test_a_driver_killed_at_random_points_loses_and_repeats_nothing(tmp_path: Path, seed: int) -> None:
    """SIGKILL of `aclog spark changes`, again and again, while the log grows."""
    log, output, draw = tmp_path / "log", tmp_path / "out", random.Random(seed)
    command = [
        sys.executable, "-m", "authorizer.cli", "spark", "changes", "--log", f"file:{log}",
        "--output", str(output), "--format", "delta", "--once", "--max-offsets", "6", "--master", "local[2]",
    ]  # fmt: skip
    write_log(log, seed, 10, "c")
    publications, kills = output / "tables" / "_publications", 0
    while kills < 3:
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
