"""A machine so busy that Spark's Python process is not there within the ten seconds that Spark gives it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.data import real_log

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark-commands")]

TIMEOUT_S = 300
WARNING = "a Python process did not start within Spark's ten seconds: the machine is too busy"

# What Spark starts in place of Python; the process in which the stream's source lives comes too late.
LATE = """#!/bin/sh
case "$*" in *python_streaming_source_runner*)
    echo late >> {starts}
    [ "$(wc -l < {starts})" -gt {late_starts} ] || exec sleep 12
esac
exec {python} "$@"
"""


def snapshots_job(directory: Path, *, late_starts: int) -> tuple[subprocess.CompletedProcess[str], int]:
    """The job with a Python that is late so many times, and how often its source was started."""
    python, starts = directory / "python", directory / "starts"
    python.write_text(LATE.format(starts=starts, late_starts=late_starts, python=sys.executable))
    python.chmod(0o755)
    done = subprocess.run(
        [
            sys.executable, "-m", "authorizer.cli", "spark", "snapshots", "--once", "--json",
            "--log", real_log("kraft-small"), "--snapshots", directory / "store",
        ],
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    return done, len(starts.read_text().splitlines())


@pytest.mark.long
def test_a_job_retries_its_start(tmp_path: Path) -> None:
    """No batch was begun: the failure is reported, and the job runs."""
    done, starts = snapshots_job(tmp_path, late_starts=1)
    assert (done.returncode, starts) == (0, 2), done.stderr
    assert f"{WARNING}; the job is started again" in done.stderr
    batch, _summary = map(json.loads, done.stdout.splitlines())
    assert batch["logs"][0]["endOffset"] == 281


@pytest.mark.long
def test_a_job_fails_after_three_starts(tmp_path: Path) -> None:
    """After three attempts the error says what to do."""
    done, starts = snapshots_job(tmp_path, late_starts=9)
    assert (done.returncode, starts) == (3, 3), done.stderr
    assert done.stderr.count("the job is started again") == 2
    assert f"Error: {WARNING}\n" in done.stderr
    assert done.stdout == ""
