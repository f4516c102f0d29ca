"""A job on a standalone Spark cluster, while executors, workers and the job's driver are killed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq
import pytest

from records.log.directory import DirectoryLog
from replay.load_image import load_image
from snapshot.store.snapshot_store import SnapshotStore
from support.class_archives import jvm_options
from support.directory_logs import read_path, records_of
from support.histories import random_batches
from support.naive_changes import naive_changes
from support.soak import soak
from support.spark_cluster import SparkCluster, spark_cluster

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark-cluster")]

ACLOG = [sys.executable, "-m", "authorizer.cli"]
#: Never waited for when a test passes.
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster") / "home") as started:
        yield started


def written_logs(home: Path, seed: int, *, logs: int, offsets: int) -> dict[str, Path]:
    """Directory logs with random batches, by cluster id."""
    found = {}
    for number in range(logs):
        cluster_id, directory = f"c-{number}", home / f"log-{number}"
        with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
            times_ms = count(1_700_000_000_000, 20_000)
            log.append_batches(list(zip(random_batches(seed + number, offsets), times_ms, strict=False)))
        found[cluster_id] = directory
    return found


class Job:
    """One run of `aclog spark changes` on the cluster."""

    def __init__(self, home: Path, command: list[str]) -> None:
        self._errors = home / "errors.log"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def next_batch(self) -> dict[str, Any]:
        """The next batch that the job reports."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the job has ended: {self._errors.read_text()[-4000:]}"
        found: dict[str, Any] = json.loads(line)
        assert "batch" in found, found
        return found

    def kill(self) -> None:
        """kill -9 of the driver; its JVM ends by itself."""
        self._process.kill()
        self._process.communicate()

    def finish(self) -> list[dict[str, Any]]:
        """Wait for a run that ends well; the batches that were not read yet."""
        rest, _ = self._process.communicate(timeout=TIMEOUT_S)
        assert self._process.returncode == 0, self._errors.read_text()[-4000:]
        return [line for line in map(json.loads, rest.splitlines()) if "batch" in line]

    def exit_code(self) -> int:
        """Wait for the end of a run that may fail."""
        self._process.communicate(timeout=TIMEOUT_S)
        return self._process.returncode

    def is_running(self) -> bool:
        return self._process.poll() is None


@contextmanager
def started_job(
    cluster: SparkCluster,
    home: Path,
    logs: Mapping[str, Path],
    max_offsets: int,
    conf: Mapping[str, str] = MappingProxyType({}),
    archive: Path | None = None,
) -> Iterator[Job]:
    """A job that continues from the checkpoint below ``home``, and ends with the block."""
    arguments = [argument for log in logs.values() for argument in ("--log", str(log))]
    settings = {
        "spark.pyspark.python": sys.executable,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": shlex.join(jvm_options("spark")),
        **conf,
    }
    arguments += [argument for pair in settings.items() for argument in ("--conf", "=".join(pair))]
    arguments += [] if archive is None else ["--archives", str(archive)]
    job = Job(
        home,
        [
            *ACLOG, "spark", "changes", *arguments, "--output", str(home / "history"), "--shards", "2",
            "--master", cluster.master_url, "--once", "--max-offsets", str(max_offsets), "--json",
        ],
    )  # fmt: skip
    try:
        yield job
    finally:
        if job.is_running():
            job.kill()


def assert_equals_fold(history: Path, logs: Mapping[str, Path]) -> None:
    """Each log's newest state has the digest of a node's fold, and each change is stored exactly once."""
    store = SnapshotStore(str(history / "state"))
    for cluster_id, directory in logs.items():
        with DirectoryLog.open(directory) as log:
            expected = load_image(log, at_offset=log.high_watermark() - 1).image
            status = max(store.survey(cluster_id), key=lambda each: each.ref.end_offset)
            assert store.verify(status.ref, log.identity) == ()
        assert status.manifest is not None
        assert (status.manifest.digest, status.manifest.count) == (expected.digest, len(expected))
        assert status.manifest.provenance == expected.provenance
        rows = [
            (row["offset"], row["id"], row["change"])
            for path in (history / "changes" / f"cluster_id={cluster_id}").rglob("*.parquet")
            for row in pq.read_table(path, columns=["offset", "id", "change"], partitioning=None).to_pylist()
        ]
        naive = naive_changes(records_of(read_path(directory)))
        assert sorted(rows) == sorted((each.offset, bytes(each.id), each.change) for each in naive)


def lost_tasks(events: Path) -> list[str]:
    """The reasons for which tasks ended without success, from Spark's event log."""
    (log,) = events.iterdir()
    ended = (json.loads(line) for line in log.read_text().splitlines() if '"SparkListenerTaskEnd"' in line)
    return [reason for each in ended if (reason := each["Task End Reason"]["Reason"]) != "Success"]


def test_executor_killed_in_a_batch(cluster: SparkCluster, tmp_path: Path) -> None:
    """The only executor is killed while it runs the task of a batch, which another one repeats."""
    logs = written_logs(tmp_path, seed=7, logs=1, offsets=24)
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        "spark.cores.max": "1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    with started_job(cluster, tmp_path, logs, max_offsets=100, conf=conf) as job:
        cluster.kill_executor_in_task()
        assert len(job.finish()) == 1
    assert lost_tasks(events) == ["ExecutorLostFailure"]
    assert_equals_fold(tmp_path / "history", logs)


@pytest.mark.long
def test_killed_executor_and_driver(cluster: SparkCluster, tmp_path: Path) -> None:
    """An executor is killed, then the driver; a second run of the driver continues from its checkpoint."""
    logs = written_logs(tmp_path, seed=29, logs=3, offsets=60)
    with started_job(cluster, tmp_path, logs, max_offsets=30) as job:
        batches = [job.next_batch()]
        cluster.kill_executor(cluster.workers[0])
        batches.append(job.next_batch())
        job.kill()
    with started_job(cluster, tmp_path, logs, max_offsets=30) as job:
        batches.append(job.next_batch())
        job.finish()
    assert {log["clusterId"] for log in batches[0]["logs"]} <= set(logs)
    assert_equals_fold(tmp_path / "history", logs)


@pytest.mark.long
def test_executors_without_aclog(cluster: SparkCluster, tmp_path: Path) -> None:
    """Executors run a Python without packages, and import all from the archive of `aclog spark pack`."""
    bare, archive = tmp_path / "bare" / "bin" / "python", tmp_path / "aclog.tar.gz"
    venv.create(bare.parents[1], with_pip=False)
    missing = subprocess.run([bare, "-c", "import pyarrow"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in missing.stderr
    subprocess.run([*ACLOG, "spark", "pack", "--output", archive], check=True)
    logs = written_logs(tmp_path, seed=11, logs=2, offsets=60)
    conf = {"spark.pyspark.python": str(bare)}
    with started_job(cluster, tmp_path, logs, max_offsets=30, conf=conf, archive=archive) as job:
        assert job.next_batch()
        cluster.kill_executor(cluster.workers[0])
        job.finish()
    assert_equals_fold(tmp_path / "history", logs)
    doctor = subprocess.run(
        [
            *ACLOG, "spark", "doctor", "--master", cluster.master_url, "--archives", archive, "--json",
            "--conf", f"spark.pyspark.python={bare}", "--conf", "spark.executor.memory=512m",
            "--output", tmp_path / "history",
        ],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    found = json.loads(doctor.stdout)
    assert found["findings"] == []
    assert {each["interpreter"] for each in found["executors"]} == {str(bare)}
    assert {each["aclog"] for each in found["executors"]} == {found["driver"]["aclog"]}


@pytest.mark.long
@soak(1)
def test_random_kills(cluster: SparkCluster, tmp_path: Path, seed: int) -> None:
    """Executors, workers and the driver are killed at random times; the driver is started again."""
    random = Random(seed)
    logs = written_logs(tmp_path, seed=seed, logs=4, offsets=300)
    kills: list[str] = []
    exit_code = -1
    for _ in range(8):
        with started_job(cluster, tmp_path, logs, max_offsets=60) as job:
            while job.is_running() and len(kills) < 8:
                time.sleep(random.uniform(0.5, 6))  # the kill comes at a random time, whatever the job does
                victim = random.choices(("executor", "worker", "driver"), (6, 2, 1))[0]
                number = random.randrange(len(cluster.workers))
                executors = cluster.executors(cluster.workers[number])
                if victim == "driver":
                    job.kill()
                elif victim == "worker":
                    cluster.replace_worker(number)
                elif executors:
                    cluster.kill_executor(cluster.workers[number])
                else:
                    continue
                kills.append(victim)
            exit_code = job.exit_code()
        if exit_code == 0:
            break
    assert exit_code == 0, (tmp_path / "errors.log").read_text()[-4000:]
    assert kills, "the job ended before anything was killed"
    assert_equals_fold(tmp_path / "history", logs)
