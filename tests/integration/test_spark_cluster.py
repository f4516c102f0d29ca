"""Jobs on a standalone Spark cluster, while its processes, a broker and an S3 server are killed."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import venv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow.parquet as pq
import pytest

import support.spark  # noqa: F401 - names the directories of jars
from authorizer.cli.failure import ExitCode
from records.entries import AclRecord, RemoveAccessControlEntryRecord
from records.ids import uuid_to_string
from records.log.directory import DirectoryLog
from records.log.topic import TopicLog
from records.log_batch import LogRecord
from replay.load_image import load_image
from snapshot.store.layout import MANIFEST_NAME
from snapshot.store.snapshot_store import SnapshotStore
from support.aclog_command import aclog
from support.class_archives import jvm_options
from support.connections import connected_ports
from support.digests import digest_of
from support.directory_logs import read_path, records_of
from support.go_programs import VERSITYGW
from support.histories import random_batches
from support.kafka_cluster import KafkaCluster, kafka_cluster
from support.naive_changes import naive_changes
from support.naive_counts import NaiveCounts
from support.naive_tables import NaiveTables, assert_tables_have, record_states
from support.s3_server import BUCKET, S3Server, s3_server
from support.seeds import seeded
from support.snapshots import acl, acl_id
from support.spark_cluster import SparkCluster, spark_cluster
from support.topic_nodes import raw_topic, unique_topic
from support.topic_records import topic_records
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark-cluster")]

ACLOG = [sys.executable, "-m", "authorizer.cli"]
#: Never waited for when a test passes.
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server | None]:
    """An S3 server, where there is a program for it."""
    directory = VERSITYGW.directory()
    if directory is None:
        yield None
        return
    with s3_server(directory / VERSITYGW.name, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3: S3Server | None) -> Iterator[SparkCluster]:
    """Its executors find the S3 server by the environment, as on the hosts of a cluster."""
    environment = {} if s3 is None else s3.environment
    with spark_cluster(tmp_path_factory.mktemp("cluster") / "home", environment=environment) as started:
        yield started


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """A broker that tests kill and start again."""
    with kafka_cluster(1) as started:
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
    """One run of a job on the cluster."""

    def __init__(self, home: Path, command: list[str], environment: Mapping[str, str]) -> None:
        self._errors = home / "errors.log"
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
            )

    def next_batch(self) -> dict[str, Any]:
        """The next batch that the job reports."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the job has ended: {self.errors()}"
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
        assert self._process.returncode == 0, self.errors()
        return [line for line in map(json.loads, rest.splitlines()) if "batch" in line]

    def exit_code(self) -> int:
        """Wait for the end of a run that may fail."""
        self._process.communicate(timeout=TIMEOUT_S)
        return self._process.returncode

    def is_running(self) -> bool:
        return self._process.poll() is None

    def errors(self) -> str:
        """The end of what all runs have printed to stderr."""
        return self._errors.read_text()[-4000:]


@contextmanager
def started_job(
    cluster: SparkCluster,
    home: Path,
    arguments: Sequence[object],
    max_offsets: int,
    conf: Mapping[str, str] = MappingProxyType({}),
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Job]:
    """A job that continues from its checkpoint, and ends with the block; ``arguments``: its name first."""
    options = ["--shards", "2", "--once", "--max-offsets", str(max_offsets), "--json"]
    command = [*ACLOG, "spark", *map(str, arguments), *options, *on_cluster(cluster, conf)]
    job = Job(home, command, environment)
    try:
        yield job
    finally:
        if job.is_running():
            job.kill()


def on_cluster(cluster: SparkCluster, conf: Mapping[str, str] = MappingProxyType({})) -> list[str]:
    """The options of a command that runs on the cluster."""
    settings = {
        "spark.pyspark.python": sys.executable,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": shlex.join(jvm_options("spark")),
        **conf,
    }
    pairs = [argument for pair in settings.items() for argument in ("--conf", "=".join(pair))]
    return ["--master", cluster.master_url, *pairs]


def changes_of(logs: Mapping[str, Path], home: Path) -> list[object]:
    """The arguments of `aclog spark changes` of directory logs into ``home / "history"``."""
    arguments = [argument for log in logs.values() for argument in ("--log", log)]
    return ["changes", *arguments, "--output", home / "history"]


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


def event_log(directory: Path) -> dict[str, str]:
    """Settings by which Spark writes its events to one file of text."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{directory}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }


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
    conf = {"spark.cores.max": "1", **event_log(events)}
    with started_job(cluster, tmp_path, changes_of(logs, tmp_path), max_offsets=100, conf=conf) as job:
        cluster.kill_executor_in_task()
        assert len(job.finish()) == 1
    assert lost_tasks(events) == ["ExecutorLostFailure"]
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
    arguments = [*changes_of(logs, tmp_path), "--archives", archive]
    with started_job(cluster, tmp_path, arguments, max_offsets=30, conf=conf) as job:
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
    for executor in found["executors"]:
        low, high = executor["clock_ahead_s"]
        assert low <= 0 <= high
    assert {each["interpreter"] for each in found["executors"]} == {str(bare)}
    assert {each["aclog"] for each in found["executors"]} == {found["driver"]["aclog"]}


@pytest.mark.long
def test_doctor_finds_a_directory_that_is_not_shared_and_a_wrong_clock(tmp_path: Path) -> None:
    """The worker has a file system of its own at --output, and its executors' Python a clock that is ahead.

    The mount is in a namespace of the worker, so that no other process sees it.
    """
    output, clock = tmp_path / "history", tmp_path / "clock"
    for directory in (output, clock):
        directory.mkdir()
    mount = f'mount -t tmpfs none {shlex.quote(str(output))} && exec "$@"'
    prefix = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount, "sh"]
    possible = subprocess.run([*prefix, "true"], capture_output=True, text=True, check=False)
    if possible.returncode:
        pytest.skip(f"no mount namespace: {possible.stderr}")
    (clock / "sitecustomize.py").write_text(
        "import time\nreal = time.time\ntime.time = lambda: real() + 60\n"
    )

    with spark_cluster(tmp_path / "home", workers=1, worker_prefix=prefix) as cluster:
        conf = {"spark.executorEnv.PYTHONPATH": str(clock)}
        done = subprocess.run(
            [
                *ACLOG, "spark", "doctor", "--output", output, "--checkpoint", tmp_path / "checkpoint",
                *on_cluster(cluster, conf), "--json",
            ],
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == ExitCode.NO, done.stderr
    found = json.loads(done.stdout)
    (executor,) = found["executors"]
    low, high = executor["clock_ahead_s"]
    assert low <= 60 <= high
    directory, wrong_clock = found["findings"]
    host = executor["host"]
    assert directory["what"] == f"--output {output} on {host} is not the directory of this machine"
    assert "s3://" in directory["fix"]
    assert re.fullmatch(rf"the clock of {host} is \d+ s ahead of this machine's", wrong_clock["what"])
    assert list(output.iterdir()) == []


def append_random(url: str, draw: random.Random, transactions: int) -> None:
    """ACLs of a few ids, added, replaced and removed."""

    def change() -> AclRecord:
        number = draw.randrange(12)
        if draw.random() < 0.4:
            return RemoveAccessControlEntryRecord(acl_id(number))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]), operation=draw.choice([3, 4]))

    with TopicLog.open(url, mode="write") as log:
        for _ in range(transactions):
            log.append([change() for _ in range(1 + draw.randrange(4))])


def run_with_kills(
    start: Callable[[], Any],
    victims: Sequence[tuple[str, Callable[[Job], None]]],
    is_stored: Callable[[], int],
    grow: Callable[[], None],
    draw: random.Random,
) -> None:
    """Run a job until it has processed all, and kill each victim at a random time after a new state.

    Args:
        start: starts the job, as a context manager.
        victims: their names, and how to kill each, in this order.
        is_stored: the number of states that were ever stored.
        grow: appends to the logs, before each start.
        draw: of the times.
    """
    waiting, errors = list(victims), ""
    for _ in range(2 * len(victims)):
        grow()
        with start() as job:
            before = is_stored()
            while waiting and job.is_running():
                if is_stored() == before:
                    time.sleep(0.05)  # polls without a deadline; the job ends by itself
                    continue
                time.sleep(draw.uniform(0, 2))  # the random point
                if job.is_running():
                    waiting.pop(0)[1](job)
                    before = is_stored()
            exit_code, errors = job.exit_code(), job.errors()
        # A job whose broker or store was away for long ends with the exit code for "try again".
        assert exit_code in (0, ExitCode.NOT_READY, -signal.SIGKILL), errors
        if exit_code == 0 and not waiting:
            return
    pytest.fail(f"the job did not end: {errors}")


def victims_in(
    cluster: SparkCluster, kafka: KafkaCluster, draw: random.Random
) -> dict[str, Callable[[Job], None]]:
    """How to kill each of them, and to start what no supervisor starts."""

    def executor(_job: Job) -> None:
        cluster.kill_executor(draw.choice(cluster.workers))

    def worker(_job: Job) -> None:
        cluster.replace_worker(draw.randrange(len(cluster.workers)))

    def broker(_job: Job) -> None:
        kafka.kill(1)
        kafka.start(1)

    return {"executor": executor, "worker": worker, "broker": broker, "driver": Job.kill}


def newest_state(store: Path, cluster_id: str) -> tuple[int, int]:
    """The end offset and the digest of a cluster's newest stored state, which must be undamaged."""
    found = SnapshotStore(str(store))
    status = max(found.survey(cluster_id), key=lambda each: each.ref.end_offset)
    assert found.verify(status.ref) == ()
    assert status.manifest is not None
    return status.manifest.provenance.end_offset, status.manifest.digest


def assert_outputs_are_of(home: Path, url: str, cluster_id: str, records: Sequence[LogRecord]) -> None:
    """The stores, the counts and the history of the three jobs are those of the records, each row once."""
    with TopicLog.open(url) as log:
        end = log.high_watermark()
    *_, (_, acls) = record_states(records)
    for store in ("snapshots", "counts/state", "history/state"):
        assert newest_state(home / store, cluster_id) == (end, digest_of(acls.values())), store
    rows = read_rows(home / "history" / "changes", cluster_id)
    naive = naive_changes(records)
    assert Counter((row["offset"], row["id"], row["change"]) for row in rows) == Counter(
        (each.offset, bytes(each.id), each.change) for each in naive
    )
    counts = NaiveCounts(records)
    by_end: dict[int, Counter[tuple[str, ...]]] = {}
    for row in read_rows(home / "counts" / "counts", cluster_id):
        by_end.setdefault(row["end_offset"], Counter())[kind_of_row(row)] += row["count"]
    assert max(by_end) == end
    for at, found in by_end.items():
        last = max((each for each in counts.at_end if each <= at), default=0)
        assert +found == counts.at_end.get(last, Counter()), at
    deltas: Counter[tuple[int, tuple[str, ...]]] = Counter()
    for row in read_rows(home / "counts" / "counts_by_time", cluster_id):
        deltas[round(row["minute"].timestamp() * 1000), kind_of_row(row)] += row["delta"]
    assert {place: delta for place, delta in deltas.items() if delta} == counts.by_minute(end)


def kind_of_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in ("resource_type", "pattern_type", "permission_type", "operation"))


def read_rows(table: Path, cluster_id: str) -> list[dict[str, Any]]:
    """All rows of a cluster in a table of Parquet files."""
    files = (table / f"cluster_id={cluster_id}").rglob("*.parquet")
    return [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]


def manifests_below(home: Path) -> Callable[[], int]:
    """Counts the states that have been stored below a directory, including removed ones."""
    known: set[Path] = set()

    def counted() -> int:
        known.update(home.rglob(MANIFEST_NAME))
        return len(known)

    return counted


def run_command(*arguments: object, environment: Mapping[str, str] = MappingProxyType({})) -> list[Any]:
    """Run a command that ends well; its lines of JSON."""
    done = subprocess.run(
        [*ACLOG, *map(str, arguments), "--json"],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.long
@seeded(29)
def test_all_jobs_on_topics_survive_random_kills(
    cluster: SparkCluster, kafka: KafkaCluster, tmp_path: Path, seed: int
) -> None:
    """Three jobs on two topics; executors, a worker, the broker and the driver are killed at random times.

    Each job's store and output are those of a fold of the topics.
    """
    draw = random.Random(seed)
    prefix = unique_topic("cluster")
    urls = {name: raw_topic(kafka.bootstrap_servers, f"{prefix}-{name}") for name in ("east", "west")}
    arguments = [
        *("all", "--bootstrap-servers", kafka.bootstrap_servers, "--topics-pattern", f"{prefix}-(.+)"),
        *("--snapshots", tmp_path / "snapshots", "--counts", tmp_path / "counts"),
        *("--history", tmp_path / "history"),
    ]
    victims = victims_in(cluster, kafka, draw)
    order = ["executor", "worker", "broker", "driver", "executor"]
    draw.shuffle(order)

    def grow() -> None:
        kafka.wait_for_brokers()
        for url in urls.values():
            append_random(url, draw, 12)

    run_with_kills(
        lambda: started_job(cluster, tmp_path, arguments, max_offsets=30),
        [(name, victims[name]) for name in order],
        manifests_below(tmp_path),
        grow,
        draw,
    )
    for cluster_id, url in urls.items():
        records = topic_records(kafka.bootstrap_servers, f"{prefix}-{cluster_id}")
        assert_outputs_are_of(tmp_path, url, cluster_id, records)


def request_lines(draw: random.Random, lines: int) -> str:
    """Lines of a broker's authorizer log about the topics and principals of ``append_random``."""

    def line() -> str:
        number = draw.randrange(6)  # so that ACLs of the others are removable
        result, operation = draw.choice(["Allowed", "Denied"]), draw.choice(["READ", "WRITE"])
        return (
            f"[2026-11-23 06:{draw.randrange(60):02}:41,042] DEBUG Principal = User:u{number} is {result} "
            f"operation = {operation} from host = 10.0.0.1 on resource = Topic:LITERAL:t-{number} "
            "for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny\n"
        )

    return "".join(line() for _ in range(lines))


def review_of(
    cluster: SparkCluster, home: Path, *acls: str, conf: Mapping[str, str] = MappingProxyType({})
) -> subprocess.Popen[str]:
    """`aclog spark review` of these ACLs and the lines of ``home / "requests"``, a task for each file."""
    conf = {"spark.sql.files.openCostInBytes": str(128 << 20), **conf}
    options = ["--requests", home / "requests", *acls, *on_cluster(cluster, conf), "--json"]
    return subprocess.Popen(
        [*ACLOG, "spark", "review", *map(str, options)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def write_requests(home: Path, draw: random.Random) -> None:
    """Four files in ``home / "requests"``."""
    (home / "requests").mkdir()
    for number in range(4):
        (home / "requests" / f"{number}.log").write_text(request_lines(draw, 500))


def assert_is_review(stdout: str, home: Path, url: str) -> None:
    """The lines are those of `aclog review`."""
    requests = sorted((home / "requests").iterdir())
    expected = aclog("review", "--requests", *requests, "--log", url, "--json")
    assert expected.exit_code == ExitCode.NO, expected.output
    assert list(map(json.loads, stdout.splitlines())) == list(map(json.loads, expected.stdout.splitlines()))


@pytest.mark.long
@pytest.mark.parametrize("kill", [SparkCluster.kill_executor_in_task, SparkCluster.replace_worker_in_task])
def test_a_review_survives_a_killed_executor_or_worker(
    cluster: SparkCluster, kafka: KafkaCluster, tmp_path: Path, kill: Callable[[SparkCluster], object]
) -> None:
    """The ACLs are those of a topic; an executor or its worker is killed in a task."""
    draw = random.Random(5)
    kafka.wait_for_brokers()
    url = raw_topic(kafka.bootstrap_servers, unique_topic("review"))
    append_random(url, draw, 12)
    write_requests(tmp_path, draw)
    events = tmp_path / "events"
    events.mkdir()
    review = review_of(cluster, tmp_path, "--log", url, conf=event_log(events))
    try:
        kill(cluster)
        stdout, stderr = review.communicate(timeout=TIMEOUT_S)
    finally:
        review.kill()
    assert review.returncode == ExitCode.NO, stderr
    assert "ExecutorLostFailure" in lost_tasks(events)
    assert_is_review(stdout, tmp_path, url)


@pytest.mark.long
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_review_whose_broker_is_killed(
    cluster: SparkCluster, kafka: KafkaCluster, tmp_path: Path, *, comes_back: bool
) -> None:
    """The broker is killed while the review waits for its answer: it does not answer from the start.

    If it comes back, the report is that of `aclog review`; else there is none, and the error names the log.
    """
    draw = random.Random(6)
    kafka.wait_for_brokers()
    url = raw_topic(kafka.bootstrap_servers, unique_topic("review-broker"))
    append_random(url, draw, 12)
    write_requests(tmp_path, draw)
    kafka.pause(1)
    review = review_of(cluster, tmp_path, "--log", url)
    try:
        port = int(kafka.bootstrap_servers.rpartition(":")[2])
        wait_until(lambda: connected_ports(review.pid, port), "a connection", timeout_s=TIMEOUT_S)
        kafka.kill(1)
        if comes_back:
            kafka.start(1)
        stdout, stderr = review.communicate(timeout=TIMEOUT_S)
    finally:
        review.kill()
        if not comes_back:
            kafka.start(1)
    if comes_back:
        assert review.returncode == ExitCode.NO, stderr
        assert_is_review(stdout, tmp_path, url)
    else:
        assert_broker_is_missed(review, stdout, stderr, url)


def assert_broker_is_missed(review: subprocess.Popen[str], stdout: str, stderr: str, url: str) -> None:
    """A review has ended without a report, and with an error that names the log."""
    assert (review.returncode, stdout) == (ExitCode.NOT_READY, ""), stderr
    assert f"Error: {url}" in stderr
    assert "Traceback" not in stderr


@pytest.mark.long
def test_a_fleets_review_whose_broker_is_killed_while_spark_counts(
    cluster: SparkCluster, kafka: KafkaCluster, tmp_path: Path
) -> None:
    """The ACLs of a fleet's cluster are read after its lines are counted: the broker is away by then."""
    draw = random.Random(7)
    kafka.wait_for_brokers()
    url = raw_topic(kafka.bootstrap_servers, unique_topic("review-fleet"))
    append_random(url, draw, 12)
    write_requests(tmp_path, draw)
    fleet = ("--cluster-pattern", "/(requests)/", "--acls", f"requests={url}")
    review = review_of(cluster, tmp_path, *fleet)
    try:
        cluster.wait_for_tasks()
        kafka.kill(1)
        stdout, stderr = review.communicate(timeout=TIMEOUT_S)
    finally:
        review.kill()
        kafka.start(1)
    assert_broker_is_missed(review, stdout, stderr, url)


@pytest.mark.long
@seeded(30)
def test_everything_on_s3_survives_random_kills(
    cluster: SparkCluster, kafka: KafkaCluster, s3: S3Server | None, tmp_path: Path, seed: int
) -> None:
    """A topic as the log; checkpoints, stores and tables on S3; the server, the broker and Spark are killed.

    All is that of a fold of the topic. Then `history`, `sql` and `maintain` read and write the same tables.
    """
    if s3 is None:
        pytest.skip(VERSITYGW.missing_reason())
    server = s3
    draw, root = random.Random(seed), f"s3://{BUCKET}/all-{seed}"
    topic = unique_topic("s3")
    url = raw_topic(kafka.bootstrap_servers, topic)
    arguments = [
        *("all", "--bootstrap-servers", kafka.bootstrap_servers, "--topics-pattern", f"({topic})"),
        *("--snapshots", f"{root}/snapshots", "--counts", f"{root}/counts", "--history", f"{root}/history"),
        *("--format", "delta"),
    ]
    victims = victims_in(cluster, kafka, draw)

    def store(_job: Job) -> None:
        server.kill()
        time.sleep(draw.uniform(0, 3))  # away for a random time
        server.start()

    victims["server"] = store
    order = ["server", "executor", "broker", "driver"]
    draw.shuffle(order)

    def grow() -> None:
        kafka.wait_for_brokers()
        append_random(url, draw, 5)

    local = server.root / BUCKET / f"all-{seed}"
    run_with_kills(
        lambda: started_job(cluster, tmp_path, arguments, max_offsets=60, environment=server.environment),
        [(name, victims[name]) for name in order],
        manifests_below(local),
        grow,
        draw,
    )
    records = topic_records(kafka.bootstrap_servers, topic)
    assert_outputs_are_of(local, url, topic, records)
    tables = NaiveTables(record_states(records))
    assert_tables_have(local / "history", tables)
    assert not list(local.rglob("*.tmp"))

    def answers(*command: object) -> list[Any]:
        return run_command("spark", *command, *on_cluster(cluster), environment=server.environment)

    *_, (_, acls) = record_states(records)
    ids = sorted(map(uuid_to_string, acls))
    in_force = answers("history", "in-force", "--history", f"{root}/history")
    assert sorted(row["id"] for row in in_force) == ids
    assert any(table["merged"] for table in answers("maintain", "--history", f"{root}/history"))
    assert_tables_have(local / "history", tables)
    query = "SELECT id FROM acl_in_force WHERE valid_to_offset IS NULL ORDER BY id"
    assert [row["id"] for row in answers("sql", "--history", f"{root}/history", query)] == ids
    (found,) = answers("doctor", "--output", f"{root}/history", "--checkpoint", f"{root}/checkpoint")
    assert found["findings"] == []
    assert found["executors"]
