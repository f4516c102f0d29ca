"""The counts job on real Spark: its tables, its metrics and its plot, against a count record by record."""

from __future__ import annotations

import json
import random
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.request import urlopen

import pytest
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.log.base import LogIdentity
from records.log.directory import DirectoryLog
from records.log.directory.identity import random_id, write_owner
from records.log.topic import TopicLog
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles
from snapshot.errors import SnapshotError, SparkJobError
from snapshot.jobs.counts.count_tables import by_window, read_count_deltas, read_counts
from snapshot.jobs.counts.counts_job import run_counts
from snapshot.jobs.counts.plot import plot_counts
from snapshot.jobs.running import query
from snapshot.jobs.running.job import BatchReport, JobSettings
from snapshot.jobs.running.progress_metrics import serve_metrics
from snapshot.jobs.session import delta as delta_lake
from snapshot.jobs.sources.logs import resolve_logs
from snapshot.store.snapshot_store import SnapshotStore
from support.data import TESTS, real_log
from support.directory_logs import read_batches, records_of
from support.naive_counts import Kind, NaiveCounts, kind_of
from support.snapshots import acl, acl_id
from support.topic_logs import ONE_BROKER
from support.topic_nodes import pattern_logs, unique_topic
from support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from support.kafka_broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.integration]

KIND = ("resource_type", "pattern_type", "permission_type", "operation")
START_MS = 1_700_000_000_000
MINUTE = timedelta(minutes=1)
#: A cluster id is any text; as a directory it is encoded.
CITY = "zürich/1=a"


def write_random_log(directory: Path, cluster_id: str, seed: int, batches: int = 60) -> Path:
    """Few ids, so that they are added, replaced by another kind and removed; times go back and forth."""
    choice = random.Random(seed)
    # No id that aclog gives, but one that a cluster may have.
    directory.mkdir()
    write_owner(directory, LogIdentity(cluster_id, random_id()))
    # Times out of order are the log's own: a batch's is given.
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        for _ in range(batches):
            records: list[MetadataRecord] = [random_record(choice) for _ in range(choice.randrange(1, 6))]
            match choice.randrange(6):
                case 0:
                    records = [BeginTransactionRecord("t"), *records, EndTransactionRecord()]
                case 1:
                    records = [BeginTransactionRecord("t"), *records, AbortTransactionRecord("why")]
            log.append(records, timestamp_ms=START_MS + choice.randrange(20 * 60_000))
    return directory


def random_record(choice: random.Random) -> MetadataRecord:
    number = choice.randrange(12)
    if choice.random() < 0.3:
        return RemoveAccessControlEntryRecord(acl_id(number))
    return acl(
        number,
        resource_type=choice.choice([2, 2, 3, 99]),
        pattern_type=choice.choice([3, 4]),
        operation=choice.choice([3, 4]),
        permission_type=choice.choice([2, 3]),
    )


def naive_counts(directory: Path) -> NaiveCounts:
    with DirectoryLog.open(directory) as log:
        return NaiveCounts(records_of(read_batches(log)))


class Job:
    """A counts job on some logs, to be run again and again."""

    def __init__(
        self,
        spark: SparkSession,
        output: Path,
        *directories: Path,
        max_offsets: int | None,
        topics_pattern: tuple[str, str] | None = None,
    ) -> None:
        self.spark = spark
        self.output = f"file://{output}"
        self.checkpoint = output / ".checkpoints" / "counts"
        self.settings = JobSettings(
            logs=tuple(
                pattern_logs(*topics_pattern)
                if topics_pattern is not None
                else resolve_logs([str(each) for each in directories])
            ),
            checkpoint=f"file://{self.checkpoint}",
            store=f"{self.output}/state",
            shards=2,
            max_offsets=max_offsets,
        )

    def run(self, **changes: Any) -> list[BatchReport]:
        """What is there, to its end; the batches."""
        reports: list[BatchReport] = []
        run_counts(self.spark, self.settings, self.output, reports.append, **changes)
        return reports

    def counts(self) -> dict[str, dict[int, dict[Kind, int]]]:
        """By cluster and end offset: how many of each kind; each kind once."""
        return counts_in(read_counts(self.spark, self.output))

    def deltas(self) -> dict[str, dict[tuple[int, Kind], int]]:
        """By cluster, minute and kind."""
        found: dict[str, dict[tuple[int, Kind], int]] = {}
        for row in by_window(read_count_deltas(self.spark, self.output), MINUTE).collect():
            place = milliseconds(row.window_start), tuple(row[name] for name in KIND)
            assert row.window_end - row.window_start == MINUTE
            assert found.setdefault(row.cluster_id, {}).setdefault(place, row.delta) == row.delta
        return found


def counts_in(counts: DataFrame) -> dict[str, dict[int, dict[Kind, int]]]:
    found: dict[str, dict[int, dict[Kind, int]]] = {}
    for row in counts.collect():
        of_batch = found.setdefault(row.cluster_id, {}).setdefault(row.end_offset, {})
        kind = tuple(row[name] for name in KIND)
        assert kind not in of_batch, f"{kind} twice at {row.end_offset} of {row.cluster_id}"
        of_batch[kind] = row["count"]
    return found


def milliseconds(shown: datetime) -> int:
    """pyspark gives local times without a zone."""
    return round(shown.astimezone(UTC).timestamp() * 1000)


def ends_of(reports: list[BatchReport], cluster_id: str) -> list[int]:
    return [log.end for report in reports for log in report.logs if log.cluster_id == cluster_id]


def without_zeros(counts: dict[int, dict[Kind, int]]) -> dict[int, dict[Kind, int]]:
    return {end: {kind: n for kind, n in kinds.items() if n} for end, kinds in counts.items()}


def assert_counts(job: Job, cluster_id: str, plain: NaiveCounts, ends: list[int]) -> None:
    """The tables say what the log says: at each of these ends, and in each minute."""
    expected = {end: dict(plain.at_end[end]) for end in ends if plain.at_end[end]}
    found = without_zeros(job.counts()[cluster_id])
    assert {end: kinds for end, kinds in found.items() if kinds} == expected
    assert job.deltas()[cluster_id] == plain.by_minute(max(ends))


@pytest.mark.long
def test_counts_of_two_clusters_are_right_for_every_batch_and_minute(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A real broker's log and a random one in one job, cut into small batches, record for record.

    In the random one records are late, ids are replaced by other kinds, and transactions are aborted.
    """
    random_log = write_random_log(tmp_path / "log", "4711", seed=6)
    job = Job(spark, tmp_path / "out", real_log("kraft-small"), random_log, max_offsets=75)
    reports = job.run()
    plain = {
        "4711": naive_counts(random_log),
        "aclogFixtureCluster001": naive_counts(real_log("kraft-small")),
    }
    for cluster_id, expected in plain.items():
        ends = ends_of(reports, cluster_id)
        assert len(ends) > 2
        assert ends[-1] == max(expected.at_end)
        assert_counts(job, cluster_id, expected, ends)

    # Over event time, by one label: the windows up to each one's end add up to what changed until then.
    windows = by_window(read_count_deltas(spark, job.output), 5 * MINUTE, ["permission_type"]).collect()
    for cluster_id, expected in plain.items():
        rows = [row for row in windows if row.cluster_id == cluster_id]
        assert len(rows) > 1
        for row in rows:
            until_ms = milliseconds(row.window_end)
            counted = sum(
                delta
                for _, minute_ms, kind, delta in expected.changes
                if minute_ms < until_ms and kind[2] == row.permission_type
            )
            assert counted == sum(
                other.delta
                for other in rows
                if other.permission_type == row.permission_type and other.window_end <= row.window_end
            )
    # A kind whose last ACL went is there once more, with 0.
    ends = ends_of(reports, "4711")
    found = job.counts()["4711"]
    for before, end in pairwise(ends):
        removed = plain["4711"].at_end[before].keys() - plain["4711"].at_end[end].keys()
        assert {kind for kind, count in found.get(end, {}).items() if not count} == removed

    # The next run has nothing to do, and the picture is drawn from what the last one left.
    assert job.run() == []
    plot_counts(spark, job.output, tmp_path / "out.png", window=MINUTE)
    with Image.open(tmp_path / "out.png") as picture:
        assert (picture.format, picture.size) == ("PNG", (1400, 840))


@pytest.mark.long
def test_a_batch_that_failed_before_its_commit_counts_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are there, and nobody reads them before the state is; done again, they are the same.

    So too where a new checkpoint cuts the log elsewhere.
    """
    log = write_random_log(tmp_path / "log", CITY, seed=7, batches=40)
    plain = naive_counts(log)
    job = Job(spark, tmp_path / "out", log, max_offsets=60)
    commit, commits = SnapshotStore.commit, []

    def fail_at_the_second(store: SnapshotStore, *args: Any, **kwargs: Any) -> Any:
        commits.append(args)
        if len(commits) == 2:
            raise SnapshotError("the disk is full")
        return commit(store, *args, **kwargs)

    reports: list[BatchReport] = []
    with monkeypatch.context() as patched:
        patched.setattr(SnapshotStore, "commit", fail_at_the_second)
        with pytest.raises(SnapshotError, match="the disk is full"):
            run_counts(spark, job.settings, job.output, reports.append)
    (first,) = ends_of(reports, CITY)
    assert_counts(job, CITY, plain, [first])
    left = sorted(path.name for path in (tmp_path / "out" / "counts").rglob("*.parquet"))
    assert len(left) == 2

    # As it was left, with a new checkpoint that takes smaller batches.
    shutil.copytree(tmp_path / "out", tmp_path / "other" / "out")
    other = Job(spark, tmp_path / "other" / "out", log, max_offsets=40)
    shutil.rmtree(other.checkpoint)
    ends = [first, *ends_of(other.run(), CITY)]
    assert_counts(other, CITY, plain, ends)
    assert sorted(path.name for path in (tmp_path / "other" / "out" / "counts").rglob("*.parquet")) == [
        f"{end:020}.parquet" for end in ends
    ]

    ends = [first, *ends_of(job.run(), CITY)]
    assert f"{ends[1]:020}.parquet" == left[1]
    assert_counts(job, CITY, plain, ends)


@pytest.mark.long
def test_a_log_that_starts_later_is_counted_from_a_nodes_snapshot_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its ACLs count at the snapshot's time, so that the deltas add up; later changes record by record."""
    trimmed = real_log("kraft-trimmed")
    job = Job(spark, tmp_path / "out", trimmed, max_offsets=None)
    with DirectoryLog.open(trimmed) as log:
        first = load_image(log, [CheckpointFiles(log)], at_offset=1_950).image
        SnapshotStore(job.settings.store).write(first, log.identity, log_end_time_ms=0)
        last = load_image(log, [CheckpointFiles(log)]).image
    cluster_id = log.identity.cluster_id
    (end,) = ends_of(job.run(), cluster_id)
    expected = Counter(kind_of(applied.record) for applied in last)
    assert without_zeros(job.counts()[cluster_id]) == {end: dict(expected)}
    deltas = job.deltas()[cluster_id]
    opening_ms = first.provenance.timestamp_ms // 60_000 * 60_000
    assert min(deltas)[0] == opening_ms
    total: Counter[Kind] = Counter()
    for (_, kind), delta in deltas.items():
        total[kind] += delta
    assert {kind: count for kind, count in total.items() if count} == expected


@contextmanager
def running(job: Job) -> Iterator[int]:
    """The job goes on in another thread, and serves metrics; the port."""
    ports: list[int] = []
    failures: list[BaseException] = []
    control = query.RunControl()
    serving = threading.Event()

    def work() -> None:
        try:
            with serve_metrics(job.spark, job.settings.logs, ["counts"], port=0) as metrics:
                ports.append(metrics.port)
                serving.set()
                done = partial(metrics.done, "counts")
                observed = replace(control, observer=metrics.queries["counts"])
                run_counts(
                    job.spark, job.settings, job.output, done, add_metrics=metrics.add, control=observed
                )
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failures.append(error)
        finally:
            serving.set()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        serving.wait()
        assert failures == []
        yield ports[0]
    finally:
        control.stop.set()
        worker.join()
    assert failures == []


def scraped(port: int) -> dict[str, float]:
    """Name and labels -> value."""
    with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def wait_for(port: int, holds: Callable[[dict[str, float]], bool]) -> dict[str, float]:
    """Scrape until it holds."""
    return wait_until(lambda: found if holds(found := scraped(port)) else None, "the metrics", timeout_s=300)


def named(name: str, **labels: str) -> str:
    return f"{name}{sorted(labels.items())}"


def aclcount(permission_type: str, operation: str) -> str:
    return named(
        "kafka_server_authorizer_aclcount",
        cluster_id="c",
        resource_type="TOPIC",
        pattern_type="LITERAL",
        permission_type=permission_type,
        operation=operation,
    )


@pytest.mark.long
def test_a_running_job_serves_metrics(spark: SparkSession, tmp_path: Path) -> None:
    """The counts of the last committed batch, and Spark's progress, as the log grows; after a restart too."""
    end, lag = (
        named("aclog_spark_end_offset", spark_job="counts", cluster_id="c"),
        named("aclog_spark_lag_offsets", spark_job="counts", cluster_id="c"),
    )
    batches, rows = (named(f"aclog_spark_{name}_total", spark_job="counts") for name in ("batches", "rows"))
    read, write = aclcount("ALLOW", "READ"), aclcount("ALLOW", "WRITE")
    with DirectoryLog.open(tmp_path / "log", mode="create", cluster_id="c") as log:
        log.append([acl(1), acl(2), acl(3, operation=4)])
        job = Job(spark, tmp_path / "out", tmp_path / "log", max_offsets=None)
        job.settings = replace(job.settings, interval_s=0.2)
        with running(job) as port:
            # Spark reports a batch some time after the job has stored it.
            found = wait_for(port, lambda found: found[batches] == 1)
            assert (found[end], found[read], found[write], found[lag]) == (3, 2, 1, 0)
            assert found[rows] == 3
            assert found[named("aclog_spark_batch_rows", spark_job="counts")] == 3
            assert found[named("aclog_spark_query_active", spark_job="counts")] == 1
            durations = {name for name in found if name.startswith("aclog_spark_batch_duration_seconds")}
            phases = {
                named("aclog_spark_batch_duration_seconds", spark_job="counts", phase=phase)
                for phase in ("addBatch", "triggerExecution")
            }
            assert phases <= durations
            assert all(found[phase] > 0 for phase in phases)
            assert found[named("aclog_spark_processed_rows_per_second", spark_job="counts")] > 0

            log.append([RemoveAccessControlEntryRecord(acl_id(3)), acl(4)])
            found = wait_for(port, lambda found: found[batches] == 2)
            assert (found[end], found[read], found[write]) == (5, 3, 0)
            assert found[rows] == 5

    # Before its first batch, a restarted job shows what the last one counted.
    with running(job) as port:
        found = wait_for(port, lambda found: read in found)
        assert (found[read], write in found) == (3, False)


@pytest.mark.long
def test_metrics_of_a_query_in_another_session(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a checkpoint on S3."""
    monkeypatch.setattr(query, "checkpoint_session", lambda _, checkpoint: (spark.newSession(), checkpoint))
    with DirectoryLog.open(tmp_path / "log", mode="create", cluster_id="c") as log:
        log.append([acl(1)])
    job = Job(spark, tmp_path / "out", tmp_path / "log", max_offsets=None)
    job.settings = replace(job.settings, interval_s=0.2)
    with running(job) as port:
        wait_for(port, lambda found: found.get(named("aclog_spark_batches_total", spark_job="counts")) == 1)


@pytest.mark.long
def test_topics_of_a_fleet_are_counted_and_watched(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Two clusters' topics by one pattern, a removal with its tombstone; lag and end of each are shown."""
    prefix = unique_topic("counts")
    fleet: dict[str, list[MetadataRecord]] = {
        "east": [acl(1), acl(2), acl(3, operation=4), RemoveAccessControlEntryRecord(acl_id(1))],
        "west": [acl(1, permission_type=2)],
    }
    for cluster_id, records in fleet.items():
        url = f"kafka://{broker.bootstrap_servers}/{prefix}-{cluster_id}"
        with TopicLog.open(url, mode="create", settings=ONE_BROKER) as log:
            for record in records:
                log.append([record])
    pattern = (broker.bootstrap_servers, f"{prefix}-(.+)")
    job = Job(spark, tmp_path / "out", max_offsets=None, topics_pattern=pattern)
    job.settings = replace(job.settings, interval_s=0.2)
    plain, ends = {}, {}
    for followed in job.settings.logs:
        with closing(followed.open()) as opened:
            ends[followed.identity.cluster_id] = opened.high_watermark()
            plain[followed.identity.cluster_id] = NaiveCounts(records_of(opened.read(0)))
    with running(job) as port:
        names = {
            cluster: named("aclog_spark_end_offset", spark_job="counts", cluster_id=cluster)
            for cluster in ends
        }
        found = wait_for(port, lambda found: {name: found.get(names[name]) for name in ends} == ends)
        lags = {
            cluster: found[named("aclog_spark_lag_offsets", spark_job="counts", cluster_id=cluster)]
            for cluster in ends
        }
        assert lags == dict.fromkeys(ends, 0)
        assert sum(value for name, value in found.items() if name.startswith("kafka_server_")) == 3
    for cluster_id, end in ends.items():
        last = job.counts()[cluster_id][end]
        assert {kind: count for kind, count in last.items() if count} == max(
            plain[cluster_id].at_end.items()
        )[1]
        assert job.deltas()[cluster_id] == plain[cluster_id].by_minute(end)


def test_a_taken_port_is_refused_before_the_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    """The message names the port and the way out; nothing was written."""
    write_random_log(tmp_path / "log", "c", seed=1, batches=1)
    job = Job(spark, tmp_path / "out", tmp_path / "log", max_offsets=None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with (
            pytest.raises(
                SparkJobError, match=rf"cannot serve metrics on 127.0.0.1:{port}: .*--metrics-port"
            ),
            serve_metrics(spark, job.settings.logs, ["counts"], port=port),
        ):
            job.run()
    assert not (tmp_path / "out").exists()


def test_delta_without_its_jars_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """The message says which package it is."""
    write_random_log(tmp_path / "log", "c", seed=1, batches=1)
    job = Job(spark, tmp_path / "out", tmp_path / "log", max_offsets=None)
    without_jars = patch.object(delta_lake, "EXTENSION", "missing.Extension")
    refused = pytest.raises(
        SparkJobError, match=r"no Delta Lake: add --packages io.delta:delta-spark_4.2_2.13"
    )
    with without_jars, refused:
        job.run(table_format="delta")
    assert not (tmp_path / "out").exists()


def test_a_plot_before_the_first_batch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """No empty picture is drawn."""
    with pytest.raises(SparkJobError, match="has no counts yet"):
        plot_counts(spark, f"file://{tmp_path}", tmp_path / "out.png", window=MINUTE)
    assert list(tmp_path.iterdir()) == []


def test_a_window_is_a_number_of_minutes(spark: SparkSession, tmp_path: Path) -> None:
    """Counts are kept by the minute; no window can be made of parts of one."""
    deltas = read_count_deltas(spark, f"file://{tmp_path}")
    for window in (timedelta(seconds=30), timedelta(seconds=90), timedelta(0)):
        with pytest.raises(SparkJobError, match="stored by the minute"):
            by_window(deltas, window)


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_delta_tables_hold_each_batch_once(tmp_path: Path) -> None:
    """As the Parquet files: also a batch that failed before its commit, and then ended elsewhere."""
    log = write_random_log(tmp_path / "log", "it's", seed=8, batches=34)
    command = [sys.executable, "-m", "support.delta_counts", str(tmp_path / "out"), str(log)]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    plain, ends = naive_counts(log), found["ends"]
    assert len(ends) > 2
    counts: dict[int, dict[Kind, int]] = {}
    for row in found["counts"]:
        kind = tuple(row[name] for name in KIND)
        assert kind not in counts.setdefault(row["end_offset"], {})
        counts[row["end_offset"]][kind] = row["count"]
    assert without_zeros(counts) == {end: dict(plain.at_end[end]) for end in ends}
    deltas: Counter[tuple[int, Kind]] = Counter()
    for row in found["deltas"]:
        deltas[row["ms"], tuple(row[name] for name in KIND)] += row["delta"]
    assert {place: delta for place, delta in deltas.items() if delta} == plain.by_minute(ends[-1])
    # One for each batch, and one for the batch that failed.
    assert found["commits"] == len(ends) + 1
