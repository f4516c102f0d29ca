"""What a terminal shows of Spark: the job's own lines, and no noise of the JVM or its workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.data import real_log
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark-commands")]

TIMEOUT_S = 300


def job(directory: Path, *flags: str) -> list[str]:
    """The command that counts the ACLs of a small log."""
    return [
        sys.executable, "-m", "authorizer.cli", "spark", "counts", "--once",
        "--log", str(real_log("kraft-small")), "--output", str(directory / "counts"), *flags,
    ]  # fmt: skip


def run_job(directory: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        job(directory, *flags), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


def descendants(pid: int) -> list[tuple[int, str]]:
    """Processes below one, with their command lines."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = []
    for child in map(int, children):
        try:
            found.append((child, Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")))
            found += descendants(child)
        except FileNotFoundError:
            pass
    return found


@pytest.mark.long
def test_a_job_prints_only_aclogs_lines(tmp_path: Path) -> None:
    """On standard error nothing at all: the JVM's warning about its modules helps nobody."""
    done = run_job(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    summary, times = done.stdout.splitlines()
    assert (summary.split(":")[0], times.split()[:2]) == ("counts", ["Spark", "started"])


def test_a_failed_start_of_spark_is_explained(tmp_path: Path) -> None:
    """The JVM's own words, though it has them on standard output, which is for the job's lines."""
    done = run_job(tmp_path, "--conf", "spark.driver.memory=1")
    assert (done.returncode, done.stdout) == (4, "")
    assert "Error: Spark does not start" in done.stderr
    assert "Too small maximum heap" in done.stderr


@pytest.mark.long
def test_a_master_out_of_reach_is_named_without_javas_stack(tmp_path: Path) -> None:
    """Spark tries it for a minute."""
    done = run_job(tmp_path, "--master", "spark://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (4, "")
    assert "All masters are unresponsive" in done.stderr
    assert "Error: Spark does not start with the master spark://127.0.0.1:1: " in done.stderr
    assert "py4j" not in done.stderr


@pytest.mark.long
def test_a_package_that_no_repository_has_is_named_without_javas_stack(tmp_path: Path) -> None:
    """Also where no repository can be reached."""
    done = run_job(tmp_path, "--packages", "org.nowhere:nothing:1.0")
    assert (done.returncode, done.stdout) == (3, "")
    assert "Error: Spark cannot fetch org.nowhere:nothing:1.0: no repository has this version" in done.stderr
    assert "Correct --packages" in done.stderr
    assert "SparkSubmit" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("seconds_later", [0.5, 4.0])
def test_sigterm_ends_a_job_silently(tmp_path: Path, seconds_later: float) -> None:
    """It goes to every process of the group, as from a terminal, `timeout` or an init system.

    While the JVM starts, and while it works; nothing of the job is left.
    """
    process = subprocess.Popen(
        job(tmp_path, "--max-offsets", "1"),  # many batches: it is not over before
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def spark_submits() -> list[int]:
        assert process.poll() is None
        return [pid for pid, command in descendants(process.pid) if "SparkSubmit" in command]

    jvms = wait_until(spark_submits, "Spark's JVM", timeout_s=TIMEOUT_S)
    time.sleep(seconds_later)  # the signal comes at any point of the job
    os.killpg(process.pid, signal.SIGTERM)
    _, stderr = process.communicate(timeout=TIMEOUT_S)
    # A job that works stops in order.
    assert (process.returncode in (-signal.SIGTERM, 0), stderr) == (True, "")
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in jvms), "its end", timeout_s=TIMEOUT_S)
