"""Commands that are started without stdin, stdout or stderr, as by a service manager or a careless script."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from authorizer.cli.main import cli

ACLOG = shlex.join([sys.executable, "-m", "authorizer.cli"])
SCRIPT = shlex.join([sys.executable, "-m", "authorizer.cli.acls.kafka_acls_script"])
REQUEST = "--principal User:a --operation Read --topic t"
PRINTING = [
    "--help",
    "help",
    "help check",
    "--version",
    "check --help",
    f"check --log log {REQUEST}",
    f"check --log log {REQUEST} --json",
    f"check --log log {REQUEST} --explain",
    "check --log log --batch queries.jsonl",
    "acls --log log --list",
    "acls --log log --add --topic u --allow-principal User:a",
    "acls --log log --remove --topic t --force --json",
    "log dump --log log",
    "log verify --log log",
    "snapshot create --log log --snapshots store",
    "snapshot export --log log --format csv",
    "diff log log",
    "lint --log log",
    f"blame --log log {REQUEST}",
    "completion bash",
]
READING = [
    "check --log log --batch -",
    "check --log log --batch queries.jsonl --records -",
    "log append --log log -",
    "diff log -",
    "plan - --all --log log",
    "shell --log log",
    "acls --log log --remove --topic t",
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A log with one ACL, ``log``, and a request about it, ``queries.jsonl``."""
    log_path = str(tmp_path / "log")
    runner = CliRunner()
    assert runner.invoke(cli, ["log", "create", "--log", log_path]).exit_code == 0
    added = ["acls", "--log", log_path, "--add", "--topic", "t", "--allow-principal", "User:a"]
    assert runner.invoke(cli, added).exit_code == 0
    query = '{"principal":"User:a","host":"::1","operation":"READ","resourceType":"TOPIC","resourceName":"t"}'
    (tmp_path / "queries.jsonl").write_text(f"{query}\n")
    return tmp_path


def run(command: str, closed: str, home: Path, program: str = ACLOG) -> subprocess.CompletedProcess[str]:
    line = f"{program} {command} {closed}"
    return subprocess.run(
        ["bash", "-c", line],
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("command", PRINTING)
def test_commands_run_without_stdout(command: str, home: Path) -> None:
    """What is lost, and why: never a defect of aclog's."""
    done = run(command, ">&-", home)
    assert done.returncode == 2, done.stderr
    assert "Error: standard output: it is closed, and nothing can be printed" in done.stderr
    assert "a defect in aclog" not in done.stderr


@pytest.mark.parametrize("command", READING)
def test_commands_run_without_stdin(command: str, home: Path) -> None:
    """Not an empty input, which a plan would take for the wish to remove all ACLs."""
    segment = next((home / "log").glob("*.log"))
    before = segment.read_bytes()
    done = run(command, "<&-", home)
    assert done.returncode == 2, done.stderr
    assert "closed, and" in done.stderr
    assert "a defect in aclog" not in done.stderr
    assert segment.read_bytes() == before


def test_a_removal_without_stdin_names_the_flag(home: Path) -> None:
    """What reads nothing else needs no stdin."""
    removal = run("acls --log log --remove --topic t", "<&-", home)
    assert (
        "stdin is closed, and a removal needs the answer y or n: --force removes without asking"
        in removal.stderr
    )
    assert run("acls --log log --remove --topic t --force", "<&-", home).returncode == 0


@pytest.mark.parametrize("command", ["--version", PRINTING[3], "diff log log", "diff log -"])
def test_commands_run_without_stderr(command: str, home: Path) -> None:
    """The answer and the exit code are the same: what stderr says is beside the answer."""
    expected, done = run(command, "", home), run(command, "2>&-", home)
    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)


@pytest.mark.parametrize("command", ["--help", f"check --log log {REQUEST}", "plan - --all --log log"])
def test_commands_run_without_any_stream(command: str, home: Path) -> None:
    """The exit code alone can say it."""
    assert run(command, "<&- >&- 2>&-", home).returncode == 2


def test_output_is_never_written_into_a_log(home: Path) -> None:
    """The first file that is opened takes the lowest descriptor that is free: it must not be stdout's."""
    for closed in ("<&- >&- 2>&-", ">&-", "2>&-"):
        run(f"acls --log log --add --topic u{len(closed)} --allow-principal User:a", closed, home)
    verified = run("log verify --log log", "", home)
    assert (verified.returncode, verified.stderr) == (0, "")
    assert len(run("acls --log log --list --json", "", home).stdout.split('"principal"')) == 5


def test_kafka_acls_runs_without_stdin_and_stdout(home: Path) -> None:
    """The script for kafka-acls' users ends as that does, with 1."""
    env = f"env ACLOG_LOG_URL={home}/log "
    flags = "--bootstrap-server localhost:9092"
    listed = run(f"{flags} --list", ">&-", home, env + SCRIPT)
    assert (listed.returncode, "standard output: it is closed" in listed.stderr) == (1, True)
    removed = run(f"{flags} --remove --topic t", "<&-", home, env + SCRIPT)
    assert (removed.returncode, "--force removes without asking" in removed.stderr) == (1, True)
