"""`aclog spark doctor`: one test for each finding. No test starts Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from authorizer.cli.failure import ExitCode
from authorizer.cli.spark.doctor import (
    Diagnosis,
    Finding,
    access_fix,
    check_access,
    check_clocks,
    check_driver,
    check_executors,
    check_jars,
)
from authorizer.cli.spark.options import SparkFlags
from records.install_command import install_command
from snapshot.jobs.running.diagnosis import ClockBounds, Executor
from snapshot.jobs.session import delta, jars, s3a
from snapshot.store.storage import Storage

EXECUTOR = Executor(
    host="worker-1",
    interpreter="/env/bin/python",
    python="3.11.7",
    java="17.0.15",
    aclog="0.1.0",
    import_errors=(),
    store_errors=(),
)


@pytest.fixture
def found() -> Diagnosis:
    return Diagnosis({"python": "3.11.7", "aclog": "0.1.0", "pyspark": jars.SPARK_VERSION})


def only_finding(found: Diagnosis) -> Finding:
    (only,) = found.findings
    assert only.why
    assert only.fix
    return only


def test_without_pyspark_that_and_an_output_without_access_are_findings(tmp_path: Path) -> None:
    """No traceback; the checks that need no Spark run."""
    (tmp_path / "file").write_text("")
    code = "import sys; sys.modules['pyspark'] = None\nfrom authorizer.cli.main import main; main()"
    flags = ["--output", str(tmp_path / "file" / "history"), "--checkpoint", str(tmp_path / "new"), "--json"]
    command = [sys.executable, "-c", code, "spark", "doctor", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (ExitCode.NO, "")
    missing, denied = json.loads(done.stdout)["findings"]
    assert missing["what"] == "pyspark is not installed"
    assert sys.executable in missing["why"]
    assert missing["fix"].startswith(install_command("spark"))
    assert denied["what"] == f"--output {tmp_path}/file/history cannot be used on this machine"
    assert "Not a directory" in denied["why"]
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_another_version_of_pyspark(found: Diagnosis) -> None:
    found.driver["pyspark"] = "3.5.1"
    check_driver(found)
    assert only_finding(found).what == f"pyspark 3.5.1 is not {jars.SPARK_VERSION}"


def test_java_is_missing(found: Diagnosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_driver(found)
    assert only_finding(found).what.startswith(f"JAVA_HOME is {tmp_path}, where bin/java is missing")


def test_good_driver(found: Diagnosis) -> None:
    check_driver(found)
    assert found.findings == []


@pytest.mark.parametrize(
    ("variable", "name", "pinned"),
    [
        (delta.DIRECTORY_VARIABLE, "Delta Lake", delta),
        (s3a.DIRECTORY_VARIABLE, "Hadoop's S3A", s3a),
    ],
)
def test_jars_are_missing_or_different(
    found: Diagnosis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    name: str,
    pinned: Any,
) -> None:
    """Nothing is downloaded. Jars that the job does not need, or that --packages names, are not checked."""

    monkeypatch.setenv(variable, str(tmp_path))
    (tmp_path / pinned.JARS[0].file).write_bytes(b"other")
    check = partial(check_jars, found, needs_delta=pinned is delta, needs_s3=pinned is s3a)
    assert check(SparkFlags(packages=pinned.PACKAGE))
    assert check_jars(found, SparkFlags(), needs_delta=False)
    assert found.findings == []
    assert not check(SparkFlags())
    only = only_finding(found)
    assert only.what == f"the jars of {name} are not in {tmp_path}"
    assert f"{pinned.JARS[0].file} is different" in only.why
    assert f"{pinned.JARS[1].file} is missing" in only.why
    assert f"-m {pinned.__name__}" in only.fix
    assert len(list(tmp_path.iterdir())) == 1


def test_packages_for_another_spark(found: Diagnosis) -> None:
    """Spark would fail at their first use, and name neither them nor the right ones."""
    wrong = "org.apache.hadoop:hadoop-aws:3.3.4"
    flags = SparkFlags(packages=f"a:b:1,{wrong}")
    assert check_jars(found, flags, needs_delta=False)
    assert not check_jars(found, flags, needs_delta=False, needs_s3=True)
    only = only_finding(found)
    assert only.what == f"--packages {wrong} does not fit Spark {jars.SPARK_VERSION}"
    assert s3a.PACKAGE in only.fix


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        ("s3://b/x: bucket `b` does not exist; create it first", "create the bucket"),
        ("UnknownStoreException: The specified bucket does not exist", "create the bucket"),
        ("cannot list s3://b/x: access denied: The request signature does not match", "AWS_PROFILE"),
        ("No AWS Credentials provided", "AWS_PROFILE"),
        ("AccessDeniedException: (Service: S3, Status Code: 403) Forbidden", "AWS_PROFILE"),
        ("Could not connect to the endpoint URL", "AWS_ENDPOINT_URL"),
        ("something else", "create the file system or bucket"),
    ],
)
def test_each_error_of_s3_has_its_fix(error: str, fix: str) -> None:
    assert fix in access_fix("--output s3://b/x", error)
    assert "AWS_PROFILE" not in access_fix("--output gs://b/x", error)


@pytest.mark.parametrize(("seconds", "relation"), [(60, "60 s ahead of"), (-60, "60 s behind")])
def test_clock_of_a_store(found: Diagnosis, seconds: float, relation: str) -> None:
    check_access(found, "--output s3://bucket/x", lambda: time.time() + seconds)
    assert only_finding(found).what == f"the clock of --output s3://bucket/x is {relation} this machine's"


@pytest.mark.parametrize("probe", [lambda: None, time.time, lambda: time.time() - 2])
def test_clock_that_is_right_or_unknown(found: Diagnosis, probe: Callable[[], float | None]) -> None:
    check_access(found, "--output s3://bucket/x", probe)
    assert found.findings == []


@pytest.mark.parametrize(
    ("executor", "what", "why"),
    [
        (
            replace(EXECUTOR, aclog=None, import_errors=("No module named 'pyarrow'",)),
            "/env/bin/python on worker-1 lacks a package of the tasks",
            "No module named 'pyarrow'",
        ),
        (
            replace(EXECUTOR, aclog="0.0.9"),
            "/env/bin/python on worker-1 has another version of aclog",
            "it is 0.0.9, the driver's is 0.1.0",
        ),
        (
            replace(EXECUTOR, java="11.0.2"),
            "Java of the executor on worker-1 is too old",
            "it is 11.0.2; the jobs need 17 or newer",
        ),
        (
            replace(EXECUTOR, store_errors=(("s3://bucket/x", "access denied"),)),
            "s3://bucket/x cannot be used by /env/bin/python on worker-1",
            "access denied",
        ),
        (
            replace(EXECUTOR, invisible=("/data/history",)),
            "--output /data/history on worker-1 is not the directory of this machine",
            "the executor does not see a file that was written here: its files would be missing",
        ),
    ],
)
def test_executor(found: Diagnosis, executor: Executor, what: str, why: str) -> None:
    """A finding names the interpreter and the host; a good executor has none."""
    check_executors(found, [EXECUTOR, executor])
    only = only_finding(found)
    assert (only.what, only.why) == (what, why)


def test_clocks_of_executors(found: Diagnosis) -> None:
    """A finding needs more than the tolerance at both bounds: how long the reading took does not count."""
    before_s, after_s = 100.0, 130.0
    readings = {"inside": 115, "ahead": 141, "little-ahead": 139, "behind": 89, "little-behind": 91}
    clocks = {host: ClockBounds.of(before_s, read_s, after_s) for host, read_s in readings.items()}
    assert clocks["ahead"] == (11, 41)
    assert [bounds.ahead_s for bounds in clocks.values()] == [0, 11, 9, -11, -9]
    check_clocks(found, clocks)
    assert [each.what for each in found.findings] == [
        "the clock of ahead is 11 s ahead of this machine's",
        "the clock of behind is 11 s behind this machine's",
    ]
    assert found.clocks == clocks


def test_a_second_reading_narrows_the_bounds() -> None:
    first, second = ClockBounds.of(0, 20, 30), ClockBounds.of(40, 53, 41)
    assert (first, second) == ((-10, 20), (12, 13))
    assert first.narrowed(second) == second.narrowed(first) == (12, 13)


def test_shared_file_is_there_until_the_end_of_the_block(tmp_path: Path) -> None:
    with Storage(str(tmp_path / "a" / "b")).shared_file() as path:
        assert path is not None
        assert list(tmp_path.iterdir()) == [path]
    assert list(tmp_path.iterdir()) == []
    with Storage("memory://store").shared_file() as path:
        assert path is None


def test_probe_changes_nothing(tmp_path: Path) -> None:
    """It leaves no object, and creates no directory."""
    before_s = time.time()
    written_s = Storage(str(tmp_path / "a" / "b")).probe()
    assert written_s is not None
    assert before_s - 1 <= written_s <= time.time() + 1
    assert list(tmp_path.iterdir()) == []


def test_probe_removes_its_object_if_it_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(str(tmp_path))
    monkeypatch.setattr(storage._fs, "cat_file", lambda path: b"other")
    with pytest.raises(Exception, match="returns other bytes than were written"):
        storage.probe()
    assert list(tmp_path.iterdir()) == []
