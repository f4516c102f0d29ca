"""Jobs on YARN, by the commands of docs/how-to/spark.md: in cluster and client mode, and a killed master."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.find_spark_home import _find_spark_home

from authorizer.cli.failure import ExitCode
from records.log.directory import DirectoryLog
from support.class_archives import SHORT_LIVED
from support.data import TESTS
from support.directory_logs import read_path, records_of
from support.histories import random_batches
from support.kafka_broker import HOST
from support.naive_changes import naive_changes
from support.waiting import wait_until
from support.yarn_cluster import YarnCluster, yarn_cluster

pytestmark = [pytest.mark.long, pytest.mark.integration, pytest.mark.xdist_group("spark-yarn")]

PAGE = (TESTS.parent / "docs" / "how-to" / "spark.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
#: Never waited for when a test passes. Each node unpacks the archive for each application.
TIMEOUT_S = 900


@dataclass(frozen=True)
class Gateway:
    """A directory from which jobs are submitted to a cluster, with the archive and a log."""

    home: Path
    cluster: YarnCluster
    environment: dict[str, str]

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start a command; its output is below ``home``."""
        with (self.home / "submit.log").open("w") as output:
            return subprocess.Popen(
                command, cwd=self.home, env=self.environment, stdout=output, stderr=output, text=True
            )

    def submit(self, attempts: int, *job: str) -> subprocess.Popen[str]:
        """Start the page's spark-submit with another job."""
        options = [
            option.replace("python3.11", PYTHON).replace("maxAppAttempts=4", f"maxAppAttempts={attempts}")
            for option in submit_options()
        ]
        return self.start("spark-submit", *options, *self.settings(), "aclog.py", *job)

    def settings(self) -> list[str]:
        """For small containers of which the machine has room for two, and that start fast."""
        java = shlex.join(SHORT_LIVED)
        settings = {
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.instances": "1",
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            "spark.yarn.jars": f"local:{_find_spark_home()}/jars/*",
            "spark.yarn.stagingDir": (self.home / "staging").as_uri(),
            "spark.yarn.report.interval": "200ms",
        }
        return [argument for pair in settings.items() for argument in ("--conf", "=".join(pair))]

    def log(self) -> Path:
        return self.home / "log"

    def printed(self) -> str:
        """The output of the submitting command."""
        return (self.home / "submit.log").read_text(errors="replace")

    def application(self, job: subprocess.Popen[str]) -> str:
        """Wait until YARN has accepted the command's application; its id."""
        pattern = re.compile(r"Submitted application (application_\w+)")

        def found() -> str | None:
            assert job.poll() is None, self.printed()
            match = pattern.search(self.printed())
            return None if match is None else match[1]

        return wait_until(found, "an application", timeout_s=TIMEOUT_S)


def submit_options() -> list[str]:
    """The options of the page's spark-submit for YARN, without the packages that only S3 needs."""
    command = re.search(r"(?ms)^    spark-submit (--master yarn .*?) aclog\.py spark", PAGE)
    assert command
    words = shlex.split(command[1].replace("\\\n", " "))
    at = words.index("--packages")
    return words[:at] + words[at + 2 :]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Only the gateway has aclog: the Python on the PATH of the nodes has no packages."""
    root = tmp_path_factory.mktemp("yarn")
    venv.create(root / "bare", with_pip=False)
    with_bare, with_aclog = (f"{each}{os.pathsep}{os.environ['PATH']}" for each in (root / "bare/bin", BIN))
    home = root / "gateway"
    home.mkdir()
    subprocess.run([BIN / "aclog", "spark", "pack", "--output", home / "aclog.tar.gz"], check=True)
    submit_file = subprocess.check_output([BIN / "aclog", "spark", "submit-file"], text=True)
    shutil.copy(submit_file.strip(), home)
    (home / "aclog.properties").write_text("aclog.snapshot.keep=2\n")
    with DirectoryLog.open(home / "log", mode="create", cluster_id="c-1") as log:
        log.append_batches(list(zip(random_batches(5, 80), count(1_700_000_000_000, 20_000), strict=False)))
    with yarn_cluster(root / "cluster", path=with_bare) as cluster:
        environment = {
            **os.environ,
            "PATH": with_aclog,
            "HADOOP_CONF_DIR": str(cluster.configuration),
            "SPARK_LOCAL_IP": HOST,
        }
        yield Gateway(home, cluster, environment)


def assert_history_equals_fold(history: Path, log: Path) -> None:
    """Each change is stored exactly once."""
    rows = [
        (row["offset"], row["id"], row["change"])
        for path in (history / "changes").rglob("*.parquet")
        for row in pq.read_table(path, columns=["offset", "id", "change"], partitioning=None).to_pylist()
    ]
    naive = naive_changes(records_of(read_path(log)))
    assert sorted(rows) == sorted((each.offset, bytes(each.id), each.change) for each in naive)


def test_master_killed_in_cluster_mode(gateway: Gateway, tmp_path: Path) -> None:
    """The driver runs in the application master, which is killed; YARN's next attempt ends the job."""
    history = tmp_path / "history"
    job = gateway.submit(
        4,
        *("spark", "changes", "--config", "aclog.properties", "--log", f"file:{gateway.log()}"),
        *("--output", str(history), "--max-offsets", "15", "--once", "--json"),
    )
    application = gateway.application(job)
    wait_until(lambda: any(history.rglob("manifest.json")), "the first batch", timeout_s=TIMEOUT_S)
    gateway.cluster.kill_master(application, attempt=1)
    assert job.wait(TIMEOUT_S) == 0, gateway.printed()
    assert gateway.cluster.ended(application)["finalStatus"] == "SUCCEEDED"
    assert len(gateway.cluster.attempts(application)) == 2
    assert '"batch"' in gateway.cluster.output(application)
    assert_history_equals_fold(history, gateway.log())


@pytest.mark.soak
def test_failed_job_in_cluster_mode(gateway: Gateway, tmp_path: Path) -> None:
    """YARN repeats a job whatever its exit code; the code is in YARN's diagnostics, spark-submit's is 1."""
    log, history = f"file:{tmp_path}/none", str(tmp_path / "history")
    job = gateway.submit(2, "spark", "changes", "--log", log, "--output", history, "--once")
    application = gateway.application(job)
    assert job.wait(TIMEOUT_S) == 1
    status = gateway.cluster.ended(application)
    assert status["finalStatus"] == "FAILED"
    assert f"User application exited with status {ExitCode.USAGE.value}" in status["diagnostics"]
    assert len(gateway.cluster.attempts(application)) == 2
    assert f"{tmp_path}/none" in gateway.cluster.output(application)


@pytest.mark.soak
def test_client_mode(gateway: Gateway, tmp_path: Path) -> None:
    """Without spark-submit: the driver is the command, and executors have the archive only."""
    history = tmp_path / "history"
    command = re.search(r"(?m)^    (aclog spark changes .*--master yarn .*)$", PAGE)
    assert command
    replaced = {"file:DIR": f"file:{gateway.log()}", "HISTORY": str(history)}
    words = [replaced.get(word, word) for word in shlex.split(command[1])]
    job = gateway.start(*words, *gateway.settings())
    assert job.wait(TIMEOUT_S) == 0, gateway.printed()
    assert "Spark started in" in gateway.printed()
    (application,) = [each for each in gateway.cluster.applications() if each["name"] == "aclog changes"]
    assert gateway.cluster.ended(application["id"])["finalStatus"] == "SUCCEEDED"
    assert_history_equals_fold(history, gateway.log())
