"""`aclog quickstart`: what it shows works, it may be run again, and it ends in order."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from authorizer.cli.main import cli
from authorizer.cli.quickstart.directory import EXAMPLE_LOG
from records.log.directory import DirectoryLog
from support.data import real_log
from support.nodes import SOON_S

ROOT = Path(__file__).resolve().parents[2]
QUICKSTART = [sys.executable, "-m", "authorizer.cli", "quickstart"]
TIMEOUT_S = 60
SPARK_TIMEOUT_S = 300


def tour(
    directory: Path, *more: str, spark: bool = False, port: str = "0"
) -> subprocess.CompletedProcess[str]:
    flags = ["--port", port, "--exit", "--spark" if spark else "--no-spark"]
    return subprocess.run(
        [*QUICKSTART, "--directory", str(directory), *flags, *more],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SPARK_TIMEOUT_S if spark else TIMEOUT_S,
        check=False,
    )


@contextmanager
def staying(
    directory: Path | None, *more: str, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], list[str], str]]:
    """A quickstart that stays up: the process, the lines of its tour, and its address."""
    flags = [] if directory is None else ["--directory", str(directory), "--port", "0"]
    process = subprocess.Popen(
        [*QUICKSTART, *flags, *(more or ["--no-spark"])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={"PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT)}
        | dict(environment or {}),
        cwd=cwd,
    )
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if match := re.fullmatch(r"Serving on (\S+) until Ctrl-C\.", lines[-1]):
                yield process, lines, match[1]
                break
        else:
            assert process.stderr is not None
            pytest.fail(process.stderr.read())
    finally:
        process.kill()
        process.communicate()


def answer_of(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(url, data, timeout=SOON_S) as response:
        return json.load(response)


def test_a_denied_request_becomes_allowed(tmp_path: Path) -> None:
    """The tour asks, adds one ACL, asks again, and shows the numbers of the real log."""
    done = tour(tmp_path / "qs")
    assert done.returncode == 0, done.stderr
    assert "281 records" in done.stdout
    assert "69 ACLs added, 10 removed, 8 others" in done.stdout
    assert "59 ACLs in force at end offset 87" in done.stdout
    before, after = done.stdout.split("4. An ACL")
    assert "DENIED by DefaultDeny at end offset 87" in before
    assert "ALLOWED by MatchingAcl at end offset 88" in after
    assert '"decision":true' in after.replace(" ", "")
    assert done.stderr == ""


def test_the_time_of_the_first_decision_is_printed(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """After the first explanation, from the start of the process. The summary of the tests shows it."""
    before, _ = tour(tmp_path).stdout.split("4. An ACL")
    match = re.search(
        r"near miss .*\n +Decided (\d+\.\d\d) s after the start of this command\.$", before.strip(), re.DOTALL
    )
    assert match is not None
    record_property("measured: s from the start of quickstart to its first decision", match[1])


def test_it_ends_with_the_readers_own_cluster(tmp_path: Path) -> None:
    """Three commands, with options that they have; a test of connect runs such lines."""
    lines = tour(tmp_path).stdout.partition("Your cluster")[2].splitlines()
    commands = [line.strip().removeprefix("$ ") for line in lines if "$ " in line]
    assert [shlex.split(command)[3] for command in commands] == ["connect", "check", "what-can"]
    for command in commands:
        # Options are checked before --help is obeyed.
        helped = CliRunner().invoke(cli, [*shlex.split(command)[3:], "--help"])
        assert helped.exit_code == 0, helped.output


def test_the_created_state_equals_the_brokers(tmp_path: Path) -> None:
    """The embedded log has the broker's ACLs and the two of the tour, and can be written on."""
    tour(tmp_path)
    log = tmp_path / "log"
    runner = CliRunner()
    compare = ["log", "verify", "--log", str(log), "--with", str(real_log("kraft-small")), "--json"]
    comparison = json.loads(runner.invoke(cli, compare).stdout)["comparison"]
    counts = [comparison[f"{kind}Count"] for kind in ("onlyHere", "onlyThere", "changed")]
    only_here = {each["principal"] for each in comparison["onlyHere"]}
    assert (counts, only_here) == ([2, 0, 0], {"User:dora", "User:ANONYMOUS"})
    listed = json.loads(runner.invoke(cli, ["acls", "--log", str(log), "--list", "--json"]).stdout)
    assert len(listed["acls"]) == 61
    add = ["acls", "--log", str(log), "--add", "--topic", "t", "--allow-principal", "User:a"]
    assert runner.invoke(cli, add).exit_code == 0


def test_a_second_run_continues(tmp_path: Path) -> None:
    """Run twice in one directory: the log stays, and the tour shows the same flip again."""
    tour(tmp_path)
    with DirectoryLog.open(tmp_path / "log") as log:
        identity, end = log.identity, log.high_watermark()
    again = tour(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "from an earlier run" in again.stdout
    assert f"DENIED by DefaultDeny at end offset {end + 1}" in again.stdout
    assert f"ALLOWED by MatchingAcl at end offset {end + 2}" in again.stdout
    with DirectoryLog.open(tmp_path / "log") as log:
        assert log.identity == identity


def test_fresh_deletes_the_former_state(tmp_path: Path) -> None:
    """--fresh deletes what a quickstart made, and nothing else."""
    tour(tmp_path)
    (tmp_path / "mine.txt").write_text("keep")
    again = tour(tmp_path, "--fresh")
    assert "59 ACLs in force at end offset 87" in again.stdout
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_fresh_refuses_a_directory_of_another_program(tmp_path: Path) -> None:
    """A mistyped directory costs nothing."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "precious").write_text("x")
    refused = tour(tmp_path, "--fresh")
    assert refused.returncode == 2
    assert "was not made by a quickstart" in refused.stderr
    assert (tmp_path / "log" / "precious").exists()


def test_fresh_does_not_delete_under_a_running_quickstart(tmp_path: Path) -> None:
    with staying(tmp_path) as (_, _, url):
        refused = tour(tmp_path, "--fresh")
        assert (refused.returncode, "stop it first" in refused.stderr) == (2, True)
        assert answer_of(f"{url}/v1/state")["acl_count"] == 61
        assert (tmp_path / "log").exists()


def test_two_run_side_by_side(tmp_path: Path) -> None:
    """`make run` twice: each has a directory and a port of its own, not those of the README's commands."""
    with (
        staying(None, "--no-spark", cwd=tmp_path) as (_, _, first),
        staying(None, "--fresh", "--no-spark", cwd=tmp_path) as (_, lines, second),
    ):
        assert first != second
        assert ":8180" not in first + second
        text = "\n".join(lines)
        assert "A quickstart is running in aclog-quickstart, so this one is in aclog-quickstart-2." in text
        assert f"so this node has port {second.rpartition(':')[2]}" in text
        for url in (first, second):
            assert answer_of(f"{url}/v1/state")["acl_count"] == 61


def test_it_serves_until_a_signal(tmp_path: Path) -> None:
    """It serves until SIGTERM; then everything is closed, exit code 0, and the log can be taken over."""
    with staying(tmp_path) as (process, _, url):
        assert answer_of(f"{url}/readyz")["ready"] is True
        assert answer_of(f"{url}/v1/state")["acl_count"] == 61
        second = tour(tmp_path)
        assert second.returncode == 3
        assert "writ" in second.stderr
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    DirectoryLog.open(tmp_path / "log", mode="write").close()


def test_the_console_shows_the_example(tmp_path: Path) -> None:
    """Where the tour says, to everyone on this machine; and lets nobody change anything."""
    with staying(tmp_path) as (_, lines, url):
        assert f"The console is at {url}/ in a browser." in lines
        request = urllib.request.Request(f"{url}/", headers={"accept": "text/html"})
        with urllib.request.urlopen(request, timeout=SOON_S) as page:
            assert b"console/assets/main.js" in page.read()
        now = answer_of(f"{url}/console/v1/now")
        assert (now["sees_all"], now["may_alter"]) == (True, False)


def test_the_right_to_describe_all_principals_permits_no_change(tmp_path: Path) -> None:
    """Local callers are User:ANONYMOUS, which is not a super user."""
    question = {
        "subject": {"type": "User", "id": "ANONYMOUS"},
        "action": {"name": "ALTER"},
        "resource": {"type": "CLUSTER", "id": "kafka-cluster"},
        "context": {"host": "127.0.0.1"},
    }
    with staying(tmp_path) as (_, _, url):
        endpoint = f"{url}/access/v1/evaluation"
        assert answer_of(endpoint, question)["decision"] is False
        about_another = {**question, "subject": {"type": "User", "id": "alice"}}
        assert answer_of(endpoint, about_another)["decision"] is False


def test_acls_are_added_while_it_serves(tmp_path: Path) -> None:
    """The command writes through it, and its next answer follows from that."""
    add = ["acls", "--log", str(tmp_path / "log"), "--add", "--topic", "t", "--allow-principal", "User:q"]
    with staying(tmp_path) as (_, _, url):
        acl_count = answer_of(f"{url}/v1/state")["acl_count"]
        added = CliRunner().invoke(cli, add)
        assert added.exit_code == 0, added.stderr
        assert answer_of(f"{url}/v1/state")["acl_count"] == acl_count + 1


def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    """SIGINT, as Ctrl-C sends it, is the normal end."""
    with staying(tmp_path) as (process, _, _):
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0


def test_every_printed_command_works(tmp_path: Path) -> None:
    """The curl and aclog lines can be pasted as they are, into the shell that started it."""
    with staying(tmp_path) as (_, lines, _):
        tour_lines = "\n".join(lines).partition("Your cluster")[0].splitlines()
        commands = [line.strip().removeprefix("$ ") for line in tour_lines if line.strip().startswith("$ ")]
        assert len(commands) > 5
        assert any("authorizer.cli check" in command for command in commands)
        for command in commands:
            if shutil.which(shlex.split(command)[0]):  # curl is not everywhere
                done = subprocess.run(
                    command, shell=True, cwd=ROOT, capture_output=True, timeout=TIMEOUT_S, check=False
                )
                assert done.returncode in (0, 1), done.stderr
                assert done.stdout, command


def test_a_requested_port_is_not_replaced(tmp_path: Path) -> None:
    """--port with a port in use is wrong usage."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = tour(tmp_path, port=port)
    assert refused.returncode == 2
    assert f"--port {port}" in refused.stderr
    assert "0 for any free one" in refused.stderr
    assert "--config" not in refused.stderr


def test_a_used_default_port_is_replaced(tmp_path: Path) -> None:
    """By the next free one, in one line."""
    with ExitStack() as stack:
        with suppress(OSError):  # else another program has bound it, which is equivalent
            stack.enter_context(socket.create_server(("127.0.0.1", 8280)))
        command = [*QUICKSTART, "--directory", str(tmp_path), "--exit", "--no-spark"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Port 8280 is in use, so this node has port 82\d\d\.", done.stdout)
    assert '"decision":true' in done.stdout


def test_example_log_is_the_real_one() -> None:
    """What is shipped is the real broker's log, byte for byte."""
    real = real_log("kraft-small")
    for name in ("00000000000000000000.log", "partition.metadata", "leader-epoch-checkpoint"):
        assert (EXAMPLE_LOG / name).read_bytes() == (real / name).read_bytes()
    with DirectoryLog.open(EXAMPLE_LOG) as example, DirectoryLog.open(real) as log:
        assert example.identity == log.identity


@pytest.mark.slow
def test_example_log_is_in_the_wheel(tmp_path: Path) -> None:
    """An installed aclog has its example too."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, capture_output=True, timeout=TIMEOUT_S, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"authorizer/cli/quickstart/example_log/{path.name}" for path in EXAMPLE_LOG.iterdir()} <= names


@pytest.mark.long
@pytest.mark.slow
def test_spark_runs_with_the_node(spark: SparkSession, tmp_path: Path) -> None:
    """Snapshots, counts and changes of the tour's log; the commands that it prints go on from there."""
    done = tour(tmp_path, spark=True)
    assert done.returncode == 0, done.stderr
    for job in ("snapshots", "counts", "changes"):
        assert re.search(rf"{job}: .* offsets 0 to 89, 61 ACLs, digest .* written to ", done.stdout)
    assert re.search(r"Spark started in \d+\.\d s and worked for \d+\.\d s", done.stdout)
    assert "The newest snapshot has the digest of the node's own state" in done.stdout
    of_spark = [
        ["spark", *shlex.split(arguments)]
        for _, found, arguments in (
            line.partition("authorizer.cli spark ") for line in done.stdout.splitlines() if "$ " in line
        )
        if found
    ]
    assert len(of_spark) > 3
    for words in of_spark:
        ran = CliRunner().invoke(cli, words)  # on the tests' own session
        assert ran.exit_code == 0, ran.output
        assert ran.stdout
    listed = CliRunner().invoke(
        cli, ["snapshot", "list", "--snapshots", str(tmp_path / "snapshots"), "--json"]
    )
    assert json.loads(listed.stdout)["snapshots"][-1]["endOffset"] == 89
    fresh = tour(tmp_path, "--fresh")
    assert "59 ACLs in force at end offset 87" in fresh.stdout
    assert not (tmp_path / "counts").exists()
    assert not (tmp_path / "changes").exists()


def test_spark_is_skipped_without_java(tmp_path: Path) -> None:
    """One line says so; everything else is as it was, and the exit code is 0."""
    done = subprocess.run(
        [*QUICKSTART, "--directory", str(tmp_path), "--port", "0", "--exit"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path)},
        cwd=ROOT,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Skipped, because Java 17 or newer is not on PATH" in done.stdout
    assert "authorizer.cli spark" not in done.stdout
    assert '"decision":true' in done.stdout


@pytest.mark.slow
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(
    ("number", "line"),
    [
        (signal.SIGINT, "Spark starts; this takes"),
        pytest.param(signal.SIGTERM, ": batch 0: ", marks=pytest.mark.long),
    ],
)
def test_a_signal_ends_spark(number: signal.Signals, line: str, tmp_path: Path) -> None:
    """The node serves while the jobs run, and a signal ends both: exit code 0, and no process is left."""
    mark = f"ACLOG_TEST_MARK={tmp_path}"
    environment = os.environ | {"ACLOG_TEST_MARK": str(tmp_path)}
    with staying(tmp_path / "qs", "--spark", environment=environment) as (process, _, url):
        assert process.stdout is not None
        printed = next(each for each in process.stdout if line in each)
        assert printed.startswith("   ")
        assert len(processes_with(mark)) > 1
        assert answer_of(f"{url}/readyz")["ready"] is True
        process.send_signal(number)
        rest, errors = process.communicate(timeout=TIMEOUT_S)
        assert (process.returncode, errors) == (0, "")
        assert "Stopping Spark (process " in rest
        assert processes_with(mark) == []


def processes_with(variable: str) -> list[str]:
    """The command lines of all processes that were started with this variable."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable in (process / "environ").read_text(errors="replace").split("\0"):
                found.append((process / "cmdline").read_text(errors="replace").replace("\0", " "))
    return found
