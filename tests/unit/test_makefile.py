"""Set-up: each target installs only what it needs, and prints the size before a download."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAYS_SIZE = re.compile(r"==> .*\b\d+ MB\b")
FETCHES = re.compile(r"pip install|pip --disable\S* (--quiet )?install|_jars\.py|support/spark\.py")


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The repository as it is before the first `make`."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in ("requirements", "deploy", "snapshot", "tests/support"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def make(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=directory,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def planned(directory: Path, *targets: str) -> str:
    done = make(directory, "--dry-run", *targets)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace("\\\n", " ")


def test_running_installs_no_test_tools(fresh: Path) -> None:
    plan = planned(fresh, "run")
    assert "requirements/setup.lock" in plan
    assert "requirements/run.lock" in plan
    assert "requirements/dev.lock" not in plan
    assert "tests/" not in plan


def test_running_without_spark_needs_no_java(fresh: Path) -> None:
    plan = planned(fresh, "run", "SPARK=no")
    assert "requirements/base.lock" in plan
    assert "requirements/run.lock" not in plan
    assert "Java" not in plan
    assert plan.rstrip().endswith("aclog quickstart --no-spark")
    lock = (ROOT / "requirements/base.lock").read_text()
    assert not [package for package in ("pyspark", "pyarrow", "s3fs") if f"{package}==" in lock]


def test_a_later_target_adds_spark(fresh: Path) -> None:
    (fresh / ".venv").mkdir()
    (fresh / ".venv/.installed-without-spark").touch()
    plan = planned(fresh, "run")
    assert "requirements/run.lock" in plan
    assert "requirements/base.lock" not in plan
    assert "aclog needs Java 17" in plan
    assert plan.rstrip().endswith("aclog quickstart")


def test_spark_is_yes_or_no(fresh: Path) -> None:
    done = make(fresh, "run", "SPARK=off")
    assert (done.returncode, "SPARK=off is neither yes nor no" in done.stderr) == (2, True)


@pytest.mark.parametrize("target", ["test", "setup"])
def test_testing_installs_all(fresh: Path, target: str) -> None:
    plan = planned(fresh, target)
    wanted = ["requirements/run.lock", "requirements/dev.lock", "kafka_jars.py", "spark.py"]
    assert [each for each in wanted if each not in plan] == []


@pytest.mark.parametrize("target", ["run", "test"])
def test_sizes_are_printed_before_each_fetch(fresh: Path, target: str) -> None:
    """No download is silent."""
    message = False
    fetches = 0
    for line in planned(fresh, target).splitlines():
        if line.startswith("printf"):
            message = bool(SAYS_SIZE.search(line))
        if FETCHES.search(line) and "--editable" not in line:
            fetches += 1
            assert message, line
    assert fetches >= 2


@pytest.mark.parametrize(
    "target", ["run", "test", "test-containers", "stand-in-images", "bench", "lock", "clean"]
)
def test_messages_are_printed_completely(fresh: Path, target: str) -> None:
    """To the last word, with commas: sizes and reasons stand at the end."""
    for folder in ("records", "replay", "authorizer", "tests", "benchmarks", "examples"):
        (fresh / folder).mkdir(exist_ok=True)
    texts = re.findall(r"^\t.*(?:call say,|SAY\) ')(.*).$", (fresh / "Makefile").read_text(), re.MULTILINE)
    assert any("," in text for text in texts)
    lines = [line for line in planned(fresh, target).splitlines() if line.startswith("printf")]
    assert lines
    for line in lines:
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
        message = done.stdout.removeprefix("\x1b[1m==> ").removesuffix("\x1b[0m\n")
        assert message in [text.replace("$(VENV)", ".venv") for text in texts]


@pytest.mark.parametrize(
    "target", ["help", "run", "test", "test-containers", "stand-in-images", "bench", "lock"]
)
def test_every_recipe_is_a_program(fresh: Path, target: str) -> None:
    """An apostrophe in a message, for example, would break the recipe."""
    done = subprocess.run(
        ["bash", "-n"], input=planned(fresh, target), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("version", [None, '1.8.0_392"', '11.0.25"'])
def test_a_missing_java_is_noticed_before_anything_is_made(fresh: Path, version: str | None) -> None:
    home = fresh / "jdk"
    if version is not None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}' >&2\n", "ascii")
        (home / "bin" / "java").chmod(0o755)
    done = make(fresh, "run", JAVA_HOME=str(home))
    assert done.returncode == 2
    assert "aclog needs Java 17 or newer" in done.stderr
    assert "make run SPARK=no" in done.stderr
    assert not (fresh / ".venv").exists()


def test_the_locks_agree() -> None:
    """What runs is what was tested: the smaller locks are parts of requirements/dev.lock."""
    everything = pins(ROOT / "requirements/dev.lock")
    for lock in (
        "requirements/setup.lock",
        "requirements/base.lock",
        "requirements/run.lock",
        "deploy/requirements.lock",
    ):
        assert pins(ROOT / lock) <= everything, f"{lock} is older: make lock"


def pins(lock: Path) -> set[str]:
    """Each requirement with its hashes, without its marker, which another requirement may widen."""
    text = re.sub(r" ; .* (?=\\$)", " ", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = text.replace("\\\n", " ")
    return {" ".join(line.split()) for line in text.splitlines() if not line.startswith("#")}
