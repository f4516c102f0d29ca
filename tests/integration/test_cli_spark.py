"""`aclog spark`: jobs and queries as commands, on real Spark; signals, spark-submit and failures."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from authorizer.cli.spark.job_commands import SUBMIT_FILE
from records.log.directory import DirectoryLog
from snapshot.jobs.counts.count_tables import read_counts
from support.aclog_command import aclog
from support.data import real_log
from support.kafka_broker import Broker
from support.nodes import SOON_S
from support.topic_logs import topic_url
from support.topic_operator import delete_records

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]

TIMEOUT_S = 300
ROOT = Path(__file__).resolve().parents[2]
ACLOG = [sys.executable, "-m", "authorizer.cli"]
TIMES = re.compile(r"Spark started in [\d.]+ s and worked for [\d.]+ s")


def lines(*args: object) -> list[dict[str, Any]]:
    done = aclog(*args, "--json")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    # Without the totals at the end of a job.
    return [row for row in rows if "sparkStartMs" not in row]


def answer(*args: object) -> dict[str, Any]:
    (line,) = lines(*args)
    return line


@pytest.fixture(scope="module")
def log() -> Path:
    return real_log("kraft-small")


@pytest.fixture(scope="module")
def history(spark: SparkSession, log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a real broker's log, made in several batches."""
    output = tmp_path_factory.mktemp("history") / "out"
    batches = lines("spark", "changes", "--log", log, "--output", output, "--once", "--max-offsets", 100)
    assert len(batches) > 1
    return output


def test_snapshots_equal_a_nodes(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """The printed snapshots are stored, complete and equal to the log; a second run does nothing."""
    store = tmp_path / "store"
    job = ("spark", "snapshots", "--log", log, "--snapshots", store, "--once")
    batches = lines(*job, "--max-offsets", 100)
    assert [line["batch"] for line in batches] == list(range(len(batches)))
    (last,) = batches[-1]["logs"]
    assert (last["endOffset"], last["count"]) == (281, 59)
    assert sum(each["added"] for line in batches for each in line["logs"]) == 69
    verified = answer("log", "verify", "--log", log, "--with", store)
    assert verified["comparison"]["equal"] is True, verified
    listed = answer("snapshot", "list", "--snapshots", store)["snapshots"]
    assert {row["state"] for row in listed} == {"complete"}
    assert (listed[-1]["digest"], listed[-1]["endOffset"]) == (last["digest"], 281)
    # The checkpoint lies in the store, and is nobody's cluster.
    assert answer("snapshot", "export", "--snapshots", store, "--format", "csv", "--output", tmp_path / "c")
    again = aclog(*job)
    nothing, times = again.stdout.splitlines()
    assert (again.exit_code, nothing) == (0, f"snapshots: nothing to do: {store} is up to date")
    assert TIMES.fullmatch(times)


@pytest.mark.long
def test_text_shows_the_offsets_of_each_log(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """One line for the log, and one for the time; the log and the store by --config."""
    config = tmp_path / "aclog.properties"
    config.write_text(f"aclog.log.url={log}\naclog.snapshot.store={tmp_path}/store\n")
    done = aclog("spark", "snapshots", "--config", config, "--once")
    summary, times = done.stdout.splitlines()
    assert re.fullmatch(
        r"snapshots: \S+: offsets 0 to 281, 59 ACLs, digest [0-9a-f]{32}; 69 added, 0 replaced, 10 removed; "
        rf"1 batch in [\d.]+ s, written to {tmp_path}/store",
        summary,
    )
    assert TIMES.fullmatch(times)


@pytest.mark.parametrize("offset", [60, 150, 280])
def test_history_equals_the_acls_of_check(history: Path, log: Path, offset: int, tmp_path: Path) -> None:
    """ACLs in force at an offset, by the history, are those of the log's state there."""
    rows = lines("spark", "history", "in-force", "--history", history, "--at-offset", offset)
    exported = tmp_path / "acls.jsonl"
    answer(
        "snapshot", "export", "--log", log, "--at-offset", offset, "--format", "jsonl", "--output", exported
    )
    records = [json.loads(line)["data"] for line in exported.read_text().splitlines()]
    expected = {data["id"] for data in records if "id" in data}
    assert {row["id"] for row in rows} == expected
    names = ("resourceType", "resourceName", "patternType", "principal", "operation", "permissionType")
    kinds = [tuple(row[name] for name in names) for row in rows]
    assert kinds == sorted(kinds)


def test_history_is_filtered_by_principal_and_resource(history: Path) -> None:
    """--principal and --resource-name filter the rows of both queries."""
    of_carol = lines("spark", "history", "changes", "--history", history, "--principal", "User:carol")
    assert of_carol
    for row in of_carol:
        assert (row["after"] or row["before"])["principal"] == "User:carol"
    removed = [row for row in of_carol if row["change"] == "removed"]
    assert all(row["before"] is not None and row["after"] is None for row in removed)
    topic = ("--resource-type", "topic", "--resource-name", "orders")
    exact = lines("spark", "history", "in-force", "--history", history, *topic)
    assert {(row["resourceType"], row["resourceName"]) for row in exact} == {("TOPIC", "orders")}
    match = ("--resource-pattern-type", "match")
    covering = lines("spark", "history", "in-force", "--history", history, *topic, *match)
    assert {row["id"] for row in covering} > {row["id"] for row in exact}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--principal", "User:ops", "--operation", "Read", "--topic", "t", "--host", "203.0.113.9"),
        ("--principal", "User:gone", "--operation", "Read", "--topic", "temp-1"),
        ("--deny-principal", "User:*", "--operation", "All", "--topic", "*", "--host", "203.0.113.9"),
        ("--id", "uy9R-GgsQJqfwVIwE07YGw"),
        ("--principal", "User:gone", "--operation", "Read", "--topic", "temp-1", "--from", "100"),
    ],
)
def test_blame_by_the_history_is_blame_by_the_log(
    history: Path, log: Path, arguments: tuple[str, ...]
) -> None:
    """The same turns by the same records; batches are not in the history."""
    found = []
    for source in (("--history", history), ("--log", log)):
        done = aclog("blame", *source, *arguments, "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(rows) > 2
        for row in rows[1:-1]:
            del row["endOffset"]
        found.append((done.exit_code, rows))
    assert found[0] == found[1]


def test_history_is_printed_as_text(history: Path) -> None:
    """Text has the ACL, its place in the log and its id; a part of the log by offsets."""
    done = aclog("spark", "history", "changes", "--history", history, "--after", 100, "--until", 190)
    assert done.exit_code == 0, done.output
    *shown, summary, times = done.stdout.splitlines()
    assert summary == f"{len(shown)} changes after offset 100 until 190: {history}"
    assert TIMES.fullmatch(times)
    assert any(line.startswith("removed  ") for line in shown)
    offsets = [int(match[1]) for line in shown if (match := re.search(r"\(offset (\d+), ", line))]
    assert len(offsets) == len(shown) > 0
    assert offsets == sorted(offsets)
    assert offsets[0] > 100
    assert offsets[-1] <= 190


def test_offsets_outside_of_the_history_are_refused(history: Path, tmp_path: Path) -> None:
    """Beyond its end, or nowhere: wrong usage, and what there is instead."""
    beyond = aclog("spark", "history", "in-force", "--history", history, "--at-offset", 5000)
    assert beyond.exit_code == 2
    assert "280" in beyond.stderr
    nowhere = aclog("spark", "history", "changes", "--history", tmp_path)
    assert nowhere.exit_code == 2
    assert "aclog spark changes" in nowhere.stderr


def test_counts_are_printed_and_plotted(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """The job runs, and draws what it counted."""
    plot = tmp_path / "counts.png"
    flags = ("--output", tmp_path / "counts", "--once", "--plot", plot, "--window", "1m")
    (batch,) = lines("spark", "counts", "--log", log, *flags)
    assert batch["logs"][0]["count"] == 59
    assert plot.read_bytes().startswith(b"\x89PNG")


def all_outputs(home: Path) -> tuple[object, ...]:
    return ("--snapshots", home / "snapshots", "--counts", home / "counts", "--history", home / "history")


def ranges_of(rows: list[dict[str, Any]]) -> dict[str, list[tuple[int, int]]]:
    """(start, end) of each job's batches."""
    found: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row["job"], []).extend((log["startOffset"], log["endOffset"]) for log in row["logs"])
    return found


def count_total(spark: SparkSession, counts: Path) -> int:
    """All ACLs at the end of the newest batch, by the tables of counts."""
    rows = read_counts(spark, f"file://{counts}").collect()
    newest = max(row["end_offset"] for row in rows)
    return sum(row["count"] for row in rows if row["end_offset"] == newest)


def assert_complete(spark: SparkSession, log: Path, home: Path, acl_count: int) -> None:
    """The snapshots, the counts and the history are those of the complete log."""
    assert answer("log", "verify", "--log", log, "--with", home / "snapshots")["comparison"]["equal"] is True
    assert count_total(spark, home / "counts") == acl_count
    in_force = lines("spark", "history", "in-force", "--history", home / "history")
    assert len(in_force) == acl_count


def test_all_jobs_and_single_ones_continue_each_other(spark: SparkSession, tmp_path: Path) -> None:
    """A run of `spark all` or of one job begins where the last one ended, of whichever command."""
    home, log = tmp_path / "out", tmp_path / "log"
    add = ("acls", "--log", log, "--add", "--topic", "t", "--allow-principal")
    assert aclog("log", "create", "--log", log).exit_code == 0
    assert aclog(*add, "User:a", "--operation", "Read").exit_code == 0
    single = ("spark", "counts", "--log", log, "--output", home / "counts", "--once")
    ((start, first),) = ranges_of(lines(*single))["counts"]
    assert start == 0
    assert aclog(*add, "User:b", "--operation", "Read").exit_code == 0
    together = ("spark", "all", "--log", log, *all_outputs(home), "--once")
    found = ranges_of(lines(*together))
    ((_, second),) = found["snapshots"]
    assert found == {"snapshots": [(0, second)], "counts": [(first, second)], "changes": [(0, second)]}
    assert aclog(*add, "User:c", "--operation", "Read").exit_code == 0
    ((start, _),) = ranges_of(lines(*single))["counts"]
    assert start == second
    found = ranges_of(lines(*together))
    assert {job: ranges[0][0] for job, ranges in found.items()} == {"snapshots": second, "changes": second}
    assert_complete(spark, log, home, acl_count=3)


def test_a_failed_job_stops_the_others_and_is_named(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """Counts without the states that they continue: the command ends, though the others could go on."""
    counts = ("--output", tmp_path / "counts", "--once", "--max-offsets", 100)
    assert len(lines("spark", "counts", "--log", log, *counts)) > 1
    shutil.rmtree(tmp_path / "counts" / "state")
    shutil.rmtree(tmp_path / "counts" / ".checkpoints")
    done = aclog("spark", "all", "--log", log, *all_outputs(tmp_path), "--interval", 60)
    assert done.exit_code == 4, done.output
    assert "is already counted up to offset 281" in done.stderr
    assert "this is of the counts job, and the others were stopped" in done.stderr
    assert not spark.streams.active


@pytest.mark.long
def test_a_killed_run_of_all_jobs_is_completed_by_the_next(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """kill -9 when one job has stored a batch: nothing is lost, and nothing is there twice."""
    job = ("spark", "all", "--log", log, *all_outputs(tmp_path), "--once", "--max-offsets", 100, "--json")
    with subprocess.Popen([*ACLOG, *map(str, job)], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert "batch" in json.loads(process.stdout.readline())
        process.kill()
    assert aclog(*job).exit_code == 0
    assert_complete(spark, log, tmp_path, acl_count=59)
    changes = lines("spark", "history", "changes", "--history", tmp_path / "history")
    assert len(changes) == 69 + 10


@pytest.mark.long
def test_sigterm_ends_all_jobs_with_code_0(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """They run at the same time, serve metrics by job on one port, and print what each did."""
    command = [*ACLOG, "spark", "all", "--log", str(log), *map(str, all_outputs(tmp_path))]
    flags = ["--interval", "0.2", "--metrics-port", "0"]
    with subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            jobs = [process.stdout.readline().split(":")[0] for _ in range(3)]
            assert sorted(jobs) == ["changes", "counts", "snapshots"]
            matches = (re.match(r"metrics on (\S+)", line) for line in process.stderr)
            url = next(match[1] for match in matches if match)
            with urllib.request.urlopen(url, timeout=SOON_S) as response:
                metrics = response.read().decode()
            for name in jobs:
                assert f'aclog_spark_query_active{{spark_job="{name}"}} 1.0' in metrics
                assert f'aclog_spark_max_lag_seconds{{spark_job="{name}"}} 0.0' in metrics
            assert "kafka_server_authorizer_aclcount{" in metrics
            process.send_signal(signal.SIGTERM)
            assert process.wait(TIMEOUT_S) == 0
            *summary, times = process.stdout.read().splitlines()
            assert [line.split(":")[0] for line in summary] == ["snapshots", "counts", "changes"]
            assert TIMES.fullmatch(times)
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert_complete(spark, log, tmp_path, acl_count=59)


@pytest.mark.long
def test_a_topic_is_named_without_a_url(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """--bootstrap-servers and --topic name a log; what was added to it is in the snapshot."""
    url = topic_url(broker)
    made = ("--replication-factor", 1, "--min-insync-replicas", 1)
    assert aclog("log", "create", "--log", url, *made).exit_code == 0
    add = ("acls", "--log", url, "--add", "--topic", "t", "--allow-principal")
    assert aclog(*add, "User:a").exit_code == 0
    topic = ("--bootstrap-servers", broker.bootstrap_servers, "--topic", url.rpartition("/")[2])
    job = ("spark", "snapshots", *topic, "--snapshots", tmp_path, "--once")
    assert lines(*job)[-1]["logs"][0]["count"] == 1
    assert aclog(*add, "User:b").exit_code == 0
    assert lines(*job)[-1]["logs"][0]["count"] == 2
    assert answer("log", "verify", "--log", url, "--with", tmp_path)["comparison"]["equal"] is True


@pytest.mark.long
def test_a_job_continues_from_a_nodes_snapshot_after_deleted_records(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """As docs/how-to/spark.md has it: the job fails, then goes on from a node's snapshot."""
    url, store, nodes = topic_url(broker), tmp_path / "store", tmp_path / "nodes"
    made = ("--replication-factor", 1, "--min-insync-replicas", 1)
    assert aclog("log", "create", "--log", url, *made).exit_code == 0
    add = ("acls", "--log", url, "--add", "--topic", "t", "--allow-principal")
    job = ("spark", "snapshots", "--log", url, "--snapshots", store, "--once")
    assert aclog(*add, "User:a").exit_code == 0
    assert lines(*job)[-1]["logs"][0]["count"] == 1
    assert aclog(*add, "User:b").exit_code == 0
    snapshot = answer("snapshot", "create", "--log", url, "--snapshots", nodes)
    delete_records(broker, url.rpartition("/")[2], snapshot["endOffset"])
    assert aclog(*add, "User:c", "--snapshots", nodes).exit_code == 0

    failed = aclog(*job)
    assert failed.exit_code == 4, failed.output
    assert "docs/how-to/spark.md" in failed.stderr
    assert answer("snapshot", "list", "--snapshots", store)["snapshots"][-1]["count"] == 1

    shutil.copytree(nodes, store, dirs_exist_ok=True)
    (last,) = lines(*job, "--checkpoint", tmp_path / "anew")[-1]["logs"]
    assert last["count"] == 3
    assert answer("snapshot", "create", "--log", url, "--snapshots", nodes)["digest"] == last["digest"]


@pytest.mark.long
def test_another_logs_checkpoint_is_refused(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """Bad data: both logs are named, and the way out is a new checkpoint; the store stays as it was."""
    DirectoryLog.open(tmp_path / "other", mode="create", cluster_id="other").close()
    flags = ("--snapshots", tmp_path / "store", "--checkpoint", tmp_path / "checkpoint", "--once")
    assert aclog("spark", "snapshots", "--log", log, *flags).exit_code == 0
    before = answer("snapshot", "list", "--snapshots", tmp_path / "store")
    refused = aclog("spark", "snapshots", "--log", tmp_path / "other", *flags)
    assert refused.exit_code == 4, refused.output
    assert "--checkpoint" in refused.stderr
    assert answer("snapshot", "list", "--snapshots", tmp_path / "store") == before


def test_a_damaged_log_stops_the_job(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """Bad data: one line with the cause, no stack of Java; what is stored ends before the damage."""
    damaged = tmp_path / "log"
    damaged.mkdir()
    for file in log.iterdir():
        damaged.joinpath(file.name).write_bytes(file.read_bytes())
    segment = damaged / "00000000000000000000.log"
    data = segment.read_bytes()
    assert b"User:carol" in data
    segment.write_bytes(data.replace(b"User:carol", b"User:carla", 1))
    done = aclog("spark", "snapshots", "--log", damaged, "--snapshots", tmp_path / "store", "--once")
    assert done.exit_code == 4, done.output
    assert "offset" in done.stderr
    assert "org.apache" not in done.stderr
    assert "Traceback" not in done.stderr
    stored = answer("snapshot", "list", "--snapshots", tmp_path / "store")["snapshots"]
    damage = re.search(r"offset (\d+)", done.stderr)
    assert damage is not None
    assert all(row["endOffset"] <= int(damage[1]) for row in stored)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_job_with_code_0(number: signal.Signals, log: Path, tmp_path: Path) -> None:
    """A continuous job serves metrics, and runs until a signal: exit code 0, and complete output."""
    command = [*ACLOG, "spark", "snapshots", "--log", str(log), "--snapshots", str(tmp_path)]
    flags = ["--interval", "0.2", "--metrics-port", "0", "--json"]
    with subprocess.Popen(
        [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert json.loads(process.stdout.readline())["logs"][0]["endOffset"] == 281
            matches = (re.match(r"metrics on (\S+)", line) for line in process.stderr)
            url = next(match[1] for match in matches if match)
            with urllib.request.urlopen(url, timeout=SOON_S) as response:
                assert b"aclog" in response.read()
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
    assert answer("log", "verify", "--log", log, "--with", tmp_path)["comparison"]["equal"] is True


@pytest.mark.long
def test_spark_submit_runs_the_same_job(log: Path, tmp_path: Path) -> None:
    """The file of `aclog spark submit-file`, from any directory; Spark's log lines go to stderr."""
    submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]", str(SUBMIT_FILE)]
    job = [
        "spark",
        "snapshots",
        "--log",
        str(log),
        "--snapshots",
        str(tmp_path / "store"),
        "--once",
        "--json",
    ]
    done = subprocess.run(
        [*submit, *job],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    batch, summary = map(json.loads, done.stdout.splitlines())
    assert batch["logs"][0]["endOffset"] == summary["logs"][0]["endOffset"] == 281
