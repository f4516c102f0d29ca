"""`aclog spark`: its flags, and its errors if Spark cannot run. No test starts Spark."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from authorizer.cli.failure import ExitCode, Failure
from authorizer.cli.main import cli
from authorizer.cli.options import PAIR, POINT
from authorizer.cli.spark import requirements
from authorizer.cli.spark.job import Job, default_checkpoint, job_settings
from authorizer.cli.spark.job_output import JobOutput
from authorizer.cli.spark.options import INTERVAL_S, JobFlags
from authorizer.cli.spark.requirements import local_path, located, missing_requirement, require_spark
from authorizer.cli.workspace import Workspace
from authorizer.configuration.load import load_config
from records.install_command import install_command
from records.log.directory import DirectoryLog
from snapshot.fold import DeltaCounts
from snapshot.jobs.running.job import BatchReport, LogReport
from snapshot.jobs.running.query import run_together
from snapshot.store.layout import parse_cluster_directory

NOTHING_GIVEN: dict[str, Any] = {
    "log_urls": (),
    "bootstrap_servers": None,
    "topics": (),
    "topics_pattern": None,
    "checkpoint": None,
    "take_over": False,
    "once": False,
    "interval_s": None,
    "max_offsets": None,
    "shards": None,
    "metrics_port": None,
    "metrics_host": "127.0.0.1",
    "as_json": False,
}


def flags_with(**flags: Any) -> JobFlags:
    return JobFlags(**NOTHING_GIVEN | flags)


def aclog(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def created_log(directory: Path, cluster_id: str = "one") -> str:
    DirectoryLog.open(directory, mode="create", cluster_id=cluster_id).close()
    return f"file:{directory}"


def settings_of(flags: JobFlags, home: Path, config_file: Path | None = None) -> Any:
    workspace = Workspace(load_config(config_file))
    return job_settings(flags, workspace, [job_named("snapshots", home)])["snapshots"]


def job_named(name: str, home: Path) -> Job:
    return Job(name=name, option="--output", home=str(home), store=str(home), start=lambda run: None)


@pytest.mark.parametrize(
    "command", [[], ["all"], ["snapshots"], ["counts"], ["changes"], ["history", "in-force"]]
)
def test_help_needs_no_pyspark(command: list[str]) -> None:
    """aclog spark --help works, and imports nothing heavy, where pyspark is not installed."""
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from authorizer.cli.main import main\n"
        f"try:\n    main(['spark', *{command}, '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pandas', 'pyarrow', 'confluent_kafka', 'matplotlib'}\n"
        "print('heavy', sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Usage: aclog spark")
    assert done.stdout.splitlines()[-1] == "heavy []"


def test_without_pyspark_the_error_says_what_to_install(tmp_path: Path) -> None:
    """A job without pyspark is wrong usage, with a remedy, and writes nothing."""
    log = created_log(tmp_path / "log")
    code = "import sys; sys.modules['pyspark'] = None\nfrom authorizer.cli.main import main; main()"
    flags = ["--log", log, "--snapshots", str(tmp_path / "store"), "--once"]
    command = [sys.executable, "-c", code, "spark", "snapshots", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE
    assert "pyspark is not installed" in done.stderr
    assert install_command("spark") in done.stderr
    assert not (tmp_path / "store").exists()


def test_without_the_extra_a_history_is_not_read(tmp_path: Path) -> None:
    """The error says what to install, although the check of the history needs pyarrow, too."""
    history = history_at(tmp_path / "history")
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from authorizer.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "spark", "history", "in-force", "--history", str(history)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "pyspark is not installed" in done.stderr


def java_that_says(directory: Path, text: str) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n")
    java.chmod(0o755)
    return directory


def test_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is neither on PATH nor in JAVA_HOME."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert missing_requirement() == "Java 17 or newer is not on PATH, nor in JAVA_HOME"
    with pytest.raises(Failure) as caught:
        require_spark()
    assert caught.value.code is ExitCode.USAGE


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ('openjdk version "17.0.15" 2025-04-15', None),
        ('openjdk version "21" 2023-09-19', None),
        ('java version "11.0.2" 2019-01-15 LTS', "is Java 11, older than 17"),
        ('java version "1.8.0_402"', "is Java 8, older than 17"),
        ("what?", "does not print its version"),
    ],
)
def test_java_17_or_newer_is_required(
    text: str, lack: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names an older version, or a program that is not Java."""
    home = java_that_says(tmp_path / "jdk", text)
    monkeypatch.setenv("JAVA_HOME", str(home))
    message = missing_requirement()
    assert message is None if lack is None else message == f"{home}/bin/java {lack}"


def test_java_home_counts_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Spark's scripts: a JAVA_HOME without Java is an error even if PATH has one."""
    assert shutil.which("java") is not None
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert missing_requirement() == (
        f"JAVA_HOME is {tmp_path}, where bin/java is missing (without JAVA_HOME that of PATH is used)"
    )


def test_under_spark_submit_no_java_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """spark-submit's JVM has started this process."""
    monkeypatch.setenv(requirements._GATEWAY, "4711")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert missing_requirement() is None


@pytest.mark.parametrize(
    "flags",
    [
        ["--once", "--interval", "5"],
        ["--topic", "acls"],
        ["--topics-pattern", "acls-(.+)"],
        ["--bootstrap-servers", "b:9092"],
        ["--conf", "no-value"],
        ["--conf", "=value"],
        ["--max-offsets", "0"],
        ["--shards", "0"],
    ],
    ids=" ".join,
)
def test_invalid_flags_are_refused(flags: list[str], tmp_path: Path) -> None:
    """Wrong usage is reported before anything is read or written."""
    done = aclog("spark", "snapshots", "--log", tmp_path, "--snapshots", tmp_path / "store", *flags)
    assert done.exit_code == ExitCode.USAGE, done.output
    assert not (tmp_path / "store").exists()


def test_a_setting_without_a_value_is_not_repeated() -> None:
    """It may be a password without its key."""
    with pytest.raises(click.BadParameter) as caught:
        PAIR.convert("hunter2", None, None)
    assert "hunter2" not in str(caught.value)


def test_a_log_must_be_named(tmp_path: Path) -> None:
    """The log is named by --log, or by aclog.log.url of --config."""
    done = aclog("spark", "snapshots", "--snapshots", tmp_path, "--once")
    assert done.exit_code == ExitCode.USAGE
    assert "--log" in done.stderr
    assert "aclog.log.url" in done.stderr


def test_the_configuration_names_log_and_store(tmp_path: Path) -> None:
    """Jobs use the same keys of --config as other commands."""
    config = tmp_path / "aclog.properties"
    log = created_log(tmp_path / "log")
    config.write_text(f"aclog.log.url={log}\naclog.snapshot.keep=7\n")
    settings = settings_of(flags_with(), tmp_path / "store", config)
    assert [each.url for each in settings.logs] == [log]
    assert settings.keep == 7


def test_flags_become_settings(tmp_path: Path) -> None:
    """Several logs, and limits of a batch."""
    logs = (created_log(tmp_path / "one", "one"), created_log(tmp_path / "two", "two"))
    flags = flags_with(
        log_urls=logs,
        once=True,
        max_offsets=100,
        shards=4,
        checkpoint=str(tmp_path / "mine"),
        take_over=True,
    )
    settings = settings_of(flags, tmp_path / "store")
    assert [log.identity.cluster_id for log in settings.logs] == ["one", "two"]
    assert (settings.interval_s, settings.max_offsets, settings.shards) == (None, 100, 4)
    assert (settings.checkpoint, settings.take_over) == (f"file://{tmp_path}/mine", True)


@pytest.mark.parametrize("option", ["--kafka-option", "--kafka-properties"])
def test_options_of_the_kafka_connector_name_their_successors(option: str, tmp_path: Path) -> None:
    done = aclog("spark", "snapshots", "--log", tmp_path, "--snapshots", tmp_path / "store", option, "a=b")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert f"{option} no longer exists" in done.stderr
    assert "aclog.kafka.* of --config" in done.stderr
    assert "--command-config" in done.stderr


@pytest.mark.parametrize(("interval_s", "expected"), [(None, INTERVAL_S), (0.5, 0.5), (0.0, 0.0)])
def test_without_once_the_job_polls_at_the_interval(
    interval_s: float | None, expected: float, tmp_path: Path
) -> None:
    """--interval sets the interval; 0 is no pause."""
    flags = flags_with(log_urls=(created_log(tmp_path / "log"),), interval_s=interval_s)
    assert settings_of(flags, tmp_path).interval_s == expected


def test_topics_are_logs() -> None:
    """--topic is another way to write --log kafka://..."""
    flags = flags_with(bootstrap_servers="b1:9092,b2:9092", topics=("a", "b"), log_urls=("file:x",))
    assert flags.urls == ("file:x", "kafka://b1:9092,b2:9092/a", "kafka://b1:9092,b2:9092/b")


def test_local_paths_are_local_to_hadoop_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative path is resolved in the working directory; a URL does not change."""
    monkeypatch.chdir(tmp_path)
    assert located("a b/c") == f"file://{tmp_path}/a b/c"
    assert located("/x") == "file:///x"
    assert located("s3a://bucket/x") == "s3a://bucket/x"


def test_the_default_checkpoint_is_no_cluster_of_the_store(tmp_path: Path) -> None:
    """It is a hidden directory of the store; the others belong to clusters."""
    checkpoint = default_checkpoint(str(tmp_path), "snapshots")
    assert checkpoint == f"file://{tmp_path}/.checkpoints/snapshots"
    assert parse_cluster_directory(".checkpoints") is None


def test_a_remote_store_needs_a_named_checkpoint() -> None:
    """fsspec and Hadoop may have different URLs for a location; on S3 aclog sets up both."""
    with pytest.raises(click.UsageError, match="--checkpoint"):
        default_checkpoint("gs://bucket/aclog", "snapshots")
    assert default_checkpoint("s3://bucket/aclog/", "counts") == "s3://bucket/aclog/.checkpoints/counts"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("51230", 51230),
        ("2026-11-21T02:33:16Z", datetime(2026, 11, 21, 2, 33, 16, tzinfo=UTC)),
        ("2026-11-21T03:33:16+01:00", datetime(2026, 11, 21, 2, 33, 16, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
    ],
)
def test_a_workspace_in_the_log_is_an_offset_or_a_time(text: str, expected: int | datetime) -> None:
    """Times are UTC unless they have another zone."""
    assert POINT.convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["-1", "yesterday", "", "12 o'clock"])
def test_an_invalid_position_in_the_log_is_refused(text: str) -> None:
    """Wrong usage, with an example."""
    with pytest.raises(click.BadParameter, match="2026-11-21T02:33:16Z"):
        POINT.convert(text, None, None)


@pytest.mark.parametrize(
    "flags",
    [
        ["in-force", "--at-offset", "1", "--at-time", "2026-11-21"],
        ["in-force", "--resource-type", "topic"],
        ["changes", "--resource-name", "orders"],
    ],
    ids=" ".join,
)
def test_invalid_queries_are_refused(flags: list[str]) -> None:
    """Wrong usage, before Spark starts."""
    assert aclog("spark", "history", *flags, "--history", "x").exit_code == ExitCode.USAGE


def test_a_window_is_a_number_of_minutes(tmp_path: Path) -> None:
    """Counts are stored by the minute."""
    done = aclog("spark", "counts", "--log", tmp_path, "--output", tmp_path, "--once", "--window", "90s")
    assert done.exit_code == ExitCode.USAGE
    assert "full minutes" in done.stderr


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that comes after the one for Java would report Java."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def history_at(directory: Path) -> Path:
    for name in ("coverage", "state"):
        (directory / name).mkdir(parents=True)
    return directory


def counts_at(directory: Path) -> Path:
    for name in ("counts", "state"):
        (directory / name).mkdir(parents=True)
    return directory


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("command", [("in-force",), ("changes", "--json")])
def test_a_missing_history_is_reported_before_java_is_looked_for(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A directory that does not exist, a file, a log, counts, an empty directory: each is named."""
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    created_log(tmp_path / "log")
    counts_at(tmp_path / "counts")
    messages = {
        "nowhere": "does not exist",
        "file": "is a file, not a directory",
        "log": "holds a metadata log, not a history",
        "counts": "holds the tables of `aclog spark counts`, not a history",
        "empty": "holds no history",
    }
    for name, message in messages.items():
        done = aclog("spark", "history", *command, "--history", tmp_path / name)
        assert done.exit_code == ExitCode.USAGE, done.output
        assert f"{tmp_path / name} {message}" in done.stderr
        assert "aclog spark changes" in done.stderr
        assert "Java" not in done.stderr


@pytest.mark.usefixtures("no_java")
def test_blame_reports_a_missing_history_before_java_is_looked_for(tmp_path: Path) -> None:
    """`aclog blame --history` reads the same directory."""
    request = ("--principal", "User:a", "--operation", "Read", "--topic", "t")
    done = aclog("blame", "--history", tmp_path / "nowhere", *request)
    assert done.exit_code == ExitCode.USAGE, done.output
    assert f"--history {tmp_path / 'nowhere'} does not exist" in done.stderr


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        (
            "--master",
            "spark://127.0.0.1:1x",
            "Spark has no master `spark://127.0.0.1:1x`: local[4], spark://",
        ),
        ("--master", "127.0.0.1:7077", "spark://HOST:PORT"),
        ("--master", "local[two]", "local[4]"),
        (
            "--packages",
            "hadoop-azure",
            "`hadoop-azure` is not GROUP:NAME:VERSION, such as org.apache.hadoop:",
        ),
        ("--packages", "a:b:1,c:d", "`c:d` is not GROUP:NAME:VERSION"),
    ],
)
def test_a_wrong_master_or_package_is_reported_before_java_is_looked_for(
    flag: str, value: str, message: str, tmp_path: Path
) -> None:
    """Spark itself prints a trace of Java's stack."""
    log = created_log(tmp_path / "log")
    job = "spark", "changes", "--log", log, "--output", tmp_path / "out", "--once"
    done = aclog(*job, flag, value)
    assert done.exit_code == ExitCode.USAGE, done.output
    assert message in " ".join(done.stderr.split())


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--master", "local"),
        ("--master", "local[*]"),
        ("--master", "local[4,2]"),
        ("--master", "local-cluster[1,1,1024]"),
        ("--master", "spark://a:7077,b:7077"),
        ("--master", "yarn"),
        ("--master", "k8s://https://10.0.0.1:6443"),
        ("--packages", "a:b:1, c:d:2"),
    ],
)
def test_a_master_and_packages_of_spark_are_accepted(flag: str, value: str, tmp_path: Path) -> None:
    log = created_log(tmp_path / "log")
    job = "spark", "changes", "--log", log, "--output", tmp_path / "out", "--once"
    assert "Java" in aclog(*job, flag, value).stderr


@pytest.mark.usefixtures("no_java")
def test_a_missing_log_is_reported_before_java_is_looked_for(tmp_path: Path) -> None:
    """The error names the directory, and the job writes nothing."""
    done = aclog("spark", "changes", "--log", tmp_path / "nowhere", "--output", tmp_path / "out", "--once")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert f"{tmp_path / 'nowhere'}: there is no such directory" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("location", ["lines.log", "file:lines.log", "lines.log/below"])
def test_missing_request_lines_are_reported_before_java_is_looked_for(location: str, tmp_path: Path) -> None:
    """A pattern of paths and another file system's URL are left to Spark."""
    log = created_log(tmp_path / "log")
    done = aclog("spark", "review", "--requests", location, "--log", log)
    assert done.exit_code == ExitCode.USAGE, done.output
    assert f"--requests {location}: no such file or directory" in done.stderr
    for other in ("s3a://bucket/lines", str(tmp_path / "*.gz")):
        assert "Java" in aclog("spark", "review", "--requests", other, "--log", log).stderr


@pytest.mark.usefixtures("no_java")
def test_missing_acls_of_a_review_are_reported_before_java_is_looked_for(tmp_path: Path) -> None:
    """The log whose ACLs are reviewed does not exist, no node answers, and two sources are refused."""
    (tmp_path / "lines.log").touch()
    command = ("spark", "review", "--requests", tmp_path / "lines.log")
    done = aclog(*command, "--log", tmp_path / "nowhere")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert f"`{tmp_path / 'nowhere'}` is not a log" in done.stderr
    done = aclog(*command, "--sidecar", "http://127.0.0.1:1")
    assert done.exit_code == ExitCode.NOT_READY, done.output
    assert "127.0.0.1:1" in done.stderr
    done = aclog(*command, "--sidecar", "http://127.0.0.1:9", "--acls", "acls.txt")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "each names a source of ACLs" in done.stderr


def job_writing_to(command: str, output: object) -> list[object]:
    option = {"snapshots": "--snapshots"}.get(command, "--output")
    return [command, option, output]


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("command", ["snapshots", "counts", "changes"])
def test_an_output_that_cannot_be_written_is_refused_before_java_is_looked_for(
    command: str, tmp_path: Path
) -> None:
    """A file, a path below a file, and the log itself."""
    log = created_log(tmp_path / "log")
    (tmp_path / "file").touch()
    for output, message in (
        (tmp_path / "file", f"{tmp_path / 'file'} is a file, not a directory"),
        (tmp_path / "file" / "out", f"{tmp_path / 'file'} is a file, not a directory"),
        (f"file://{tmp_path}/file", f"{tmp_path / 'file'} is a file, not a directory"),
        (tmp_path / "log", "holds a metadata log"),
    ):
        done = aclog("spark", *job_writing_to(command, output), "--log", log, "--once")
        assert done.exit_code == ExitCode.USAGE, done.output
        assert message in done.stderr
        assert str(output) in done.stderr


@pytest.mark.usefixtures("no_java")
def test_the_output_of_another_job_is_refused(tmp_path: Path) -> None:
    """Counts and the history would share a store of states; each continues its own output."""
    log = created_log(tmp_path / "log")
    history, counts = history_at(tmp_path / "history"), counts_at(tmp_path / "counts")
    for command, output, message in (
        ("counts", history, "holds the history of `aclog spark changes`"),
        ("changes", counts, "holds the tables of `aclog spark counts`"),
        ("counts", counts, "Java"),
        ("changes", history, "Java"),
    ):
        done = aclog("spark", command, "--output", output, "--log", log, "--once")
        assert done.exit_code == ExitCode.USAGE, done.output
        assert message in done.stderr


@pytest.mark.usefixtures("no_java")
def test_a_checkpoint_or_plot_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """Before the job has done its work."""
    log = created_log(tmp_path / "log")
    (tmp_path / "file").touch()
    counts = ("spark", "counts", "--output", tmp_path / "out", "--log", log, "--once")
    checkpoint = aclog(*counts, "--checkpoint", tmp_path / "file")
    assert checkpoint.exit_code == ExitCode.USAGE, checkpoint.output
    assert f"--checkpoint {tmp_path / 'file'}" in checkpoint.stderr
    plot = aclog(*counts, "--plot", tmp_path / "nowhere" / "counts.png")
    assert plot.exit_code == ExitCode.USAGE, plot.output
    assert f"{tmp_path / 'nowhere'} is not a directory" in plot.stderr


@pytest.mark.usefixtures("no_java")
def test_all_jobs_need_outputs_of_their_own(tmp_path: Path) -> None:
    """`spark all` with one directory for two outputs is wrong usage, however it is written."""
    log = created_log(tmp_path / "log")
    outputs = ("--snapshots", tmp_path / "s", "--counts", tmp_path / "c")
    done = aclog("spark", "all", *outputs, "--history", f"file://{tmp_path}/c/", "--log", log, "--once")
    assert done.exit_code == ExitCode.USAGE, done.output
    assert "--counts and --history both name" in done.stderr


def test_all_jobs_have_the_checkpoints_of_the_single_commands(tmp_path: Path) -> None:
    """So a run may be of all or of one; a given checkpoint is the directory of theirs."""
    flags = flags_with(log_urls=(created_log(tmp_path / "log"),), once=True)
    jobs = [job_named(name, tmp_path / f"of-{name}") for name in ("snapshots", "counts", "changes")]
    workspace = Workspace(load_config(None))
    together = job_settings(flags, workspace, jobs)
    for job in jobs:
        assert together[job.name] == job_settings(flags, workspace, [job])[job.name]
        assert together[job.name].checkpoint == f"file://{job.home}/.checkpoints/{job.name}"
    given = replace(flags, checkpoint="s3a://bucket/checkpoints/")
    assert [each.checkpoint for each in job_settings(given, workspace, jobs).values()] == [
        f"s3a://bucket/checkpoints/{job.name}" for job in jobs
    ]
    assert job_settings(given, workspace, jobs[:1])["snapshots"].checkpoint == given.checkpoint


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("a/b", "a/b"),
        ("file:a/b", "a/b"),
        ("file:/a", "/a"),
        ("FILE:///a", "/a"),
        ("s3://a/b", None),
        ("hdfs:/a", None),
    ],
)
def test_local_locations_are_paths(location: str, path: str | None) -> None:
    """URLs of other file systems are not checked."""
    assert local_path(location) == (None if path is None else Path(path))


def report(batch_id: int, start: int, end: int, cluster_id: str = "c") -> BatchReport:
    counts = DeltaCounts(added=end - start, removed=1)
    log = LogReport(
        cluster_id=cluster_id,
        start=start,
        end=end,
        count=end,
        digest=f"d{end}",
        records=end - start,
        counts=counts,
        is_read_again=False,
    )
    return BatchReport(batch_id=batch_id, logs=(log,), elapsed_ms=600.0)


def test_a_job_that_ends_prints_one_line_for_each_log(capsys: pytest.CaptureFixture[str]) -> None:
    """From the first batch's start to the last one's end; the batches themselves are progress."""
    output = JobOutput("counts", "out", as_json=False, is_once=True)
    output.show(report(0, 0, 5))
    output.show(report(1, 5, 9))
    output.show(report(2, 0, 2, cluster_id="other"))
    output.print_summary(3.0, is_complete=True)
    end = "3 batches in 1.8 s, written to out"
    assert capsys.readouterr().out.splitlines() == [
        f"counts: c: offsets 0 to 9, 9 ACLs, digest d9; 9 added, 0 replaced, 2 removed; {end}",
        f"counts: other: offsets 0 to 2, 2 ACLs, digest d2; 2 added, 0 replaced, 1 removed; {end}",
    ]


def test_a_continuous_job_prints_its_batches(capsys: pytest.CaptureFixture[str]) -> None:
    """One line when the batch is stored."""
    output = JobOutput("counts", "out", as_json=False, is_once=False)
    output.show(report(0, 0, 5))
    assert capsys.readouterr().out.splitlines() == [
        "counts: batch 0: c: offsets 0 to 5, 5 ACLs, digest d5; 5 added, 0 replaced, 1 removed; 600 ms"
    ]


def test_json_has_the_batches_and_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    """One line each; a job with nothing to do has its totals, too."""
    output = JobOutput("counts", "out", as_json=True, is_once=True)
    output.show(report(0, 0, 5))
    output.show(report(1, 5, 9))
    output.print_summary(3.0, is_complete=True)
    JobOutput("changes", "old", as_json=True, is_once=True).print_summary(3.0, is_complete=True)
    first, second, totals, nothing = map(json.loads, capsys.readouterr().out.splitlines())
    assert [(line["job"], line["batch"]) for line in (first, second)] == [("counts", 0), ("counts", 1)]
    (log,) = totals.pop("logs")
    assert totals == {
        "job": "counts",
        "output": "out",
        "batches": 2,
        "sparkStartMs": 3000,
        "elapsedMs": 1200.0,
        "failures": {},
    }
    assert (log["startOffset"], log["endOffset"], log["added"], log["removed"]) == (0, 9, 9, 2)
    assert (first["logs"][0]["added"], second["logs"][0]["added"]) == (5, 4)
    assert (nothing["job"], nothing["batches"], nothing["logs"]) == ("changes", 0, [])


def test_a_job_with_nothing_to_do_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Its output is up to date."""
    JobOutput("counts", "out", as_json=False, is_once=True).print_summary(3.0, is_complete=True)
    assert capsys.readouterr().out == "counts: nothing to do: out is up to date\n"


def test_the_submit_file_is_alone_in_its_directory(tmp_path: Path) -> None:
    """spark-submit puts its directory first on the path, where no file may hide a package of aclog."""
    path = Path(aclog("spark", "submit-file").stdout.strip())
    assert [each.name for each in path.parent.iterdir() if each.name != "__pycache__"] == [path.name]
    copied = shutil.copy(path, tmp_path)
    done = subprocess.run(
        [sys.executable, copied, "spark", "--help"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"]},
        check=True,
    )
    assert "snapshots" in done.stdout


def test_a_stopped_job_does_not_claim_to_be_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    JobOutput("counts", "out", as_json=False, is_once=True).print_summary(3.0, is_complete=False)
    assert capsys.readouterr().out == "counts: stopped before its first batch: start it again to go on\n"


def test_jobs_that_are_stopped_have_not_ended_by_themselves() -> None:
    """A signal sets the control's ``stop``."""
    assert run_together([lambda _: None]) is True
    assert run_together([lambda control: control.stop.set()]) is False


def test_tables_of_iceberg_are_refused(tmp_path: Path) -> None:
    """Before Spark starts, with the reason."""
    DirectoryLog.open(tmp_path / "log", mode="create").close()
    arguments = ["--log", f"file:{tmp_path / 'log'}", "--output", tmp_path / "out"]
    result = aclog("spark", "changes", *arguments, "--format", "iceberg")
    assert result.exit_code == ExitCode.USAGE
    assert "Iceberg has no runtime for Spark 4.2" in result.stderr
    assert "Use --format delta" in result.stderr
    assert not (tmp_path / "out").exists()


def test_sql_needs_a_history(tmp_path: Path) -> None:
    """Checked before Spark starts."""
    result = aclog("spark", "sql", "--history", tmp_path / "missing", "SELECT 1")
    assert result.exit_code == ExitCode.USAGE
    assert f"--history {tmp_path / 'missing'} does not exist" in result.stderr


def test_a_vacuum_that_could_remove_files_in_use_is_refused(tmp_path: Path) -> None:
    result = aclog("spark", "maintain", "--history", tmp_path, "--vacuum-after", "6d")
    assert result.exit_code == ExitCode.USAGE
    assert "7d or more: an earlier reader or job may still need the files" in result.stderr


def test_retention_that_is_too_short_or_without_a_time_is_refused(tmp_path: Path) -> None:
    result = aclog("spark", "maintain", "--history", tmp_path, "--keep-rows", "5h")
    assert result.exit_code == ExitCode.USAGE
    assert "1d or more: a job may still be writing these rows" in result.stderr
    result = aclog("spark", "maintain", "--history", tmp_path, "--dry-run")
    assert result.exit_code == ExitCode.USAGE
    assert "--keep-rows DURATION would delete: give both" in result.stderr
