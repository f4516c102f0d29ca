"""The snapshots job on real Spark and directory logs: every batch's snapshot is the plain fold's state."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import DataFrame, SparkSession

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import AclogError
from records.log.directory import DirectoryLog
from replay.load_image import load_image
from replay.snapshot_source import CheckpointFiles, StoredSnapshots
from snapshot.digest import digest_to_string
from snapshot.errors import SparkJobError
from snapshot.jobs.running.job import BatchReport
from snapshot.jobs.running.micro_batch import MicroBatches
from snapshot.jobs.session.spark_session import has_session, spark_session
from snapshot.jobs.snapshots_job import run_snapshots
from snapshot.store.layout import shard_part_name
from support.data import real_log
from support.directory_logs import batch_bytes, write_segment
from support.nodes import running_node
from support.snapshot_jobs import SnapshotsJob
from support.snapshots import acl, acl_id, contents

pytestmark = [pytest.mark.slow, pytest.mark.integration]

SOON_S = 120.0


def written(directory: Path, batches: Sequence[Sequence[MetadataRecord]], cluster_id: str = "c-1") -> int:
    """Append the batches to a directory log; returns its end."""
    with DirectoryLog.open(directory, mode="create", cluster_id=cluster_id) as log:
        return log.append_batches([(batch, 1_000 * (at + 1)) for at, batch in enumerate(batches)])


def random_batches(seed: int, count: int) -> Iterator[list[MetadataRecord]]:
    """ACLs of a few ids added, replaced, repeated and removed; complete, aborted and long transactions."""
    draw = random.Random(seed)

    def change() -> MetadataRecord:
        number = draw.randrange(40)
        kind = draw.random()
        if kind < 0.35:
            return RemoveAccessControlEntryRecord(acl_id(number))
        if kind < 0.45:
            return FeatureLevelRecord("group.version", draw.randrange(3))
        return acl(number, host=draw.choice(["*", "10.0.0.1"]))

    while count > 0:
        count -= 1
        if draw.random() < 0.3:
            begun: list[MetadataRecord] = [BeginTransactionRecord("t")]
            yield begun + [change() for _ in range(draw.randrange(3))]
            for _ in range(draw.randrange(3)):
                yield [change() for _ in range(1 + draw.randrange(3))]
            yield [EndTransactionRecord() if draw.random() < 0.5 else AbortTransactionRecord("no")]
        else:
            yield [change() for _ in range(1 + draw.randrange(6))]


@pytest.mark.parametrize(
    ("name", "max_offsets", "shards"),
    [("kraft-small", 100, 3), pytest.param("kraft-large", 40_000, 8, marks=pytest.mark.long)],
)
def test_every_batch_of_a_real_log_equals_the_naive_fold(
    spark: SparkSession, tmp_path: Path, name: str, max_offsets: int, shards: int
) -> None:
    """And the newest three snapshots are kept."""
    job = SnapshotsJob(spark, tmp_path, [real_log(name)], max_offsets=max_offsets, shards=shards)
    ranges = job.run()
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    with DirectoryLog.open(real_log(name)) as log:
        assert ranges[-1][1] == log.high_watermark()
    ends = [manifest.provenance.end_offset for manifest in job.manifests()]
    assert ends == [end for _, end in ranges][-3:]


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_every_batch_of_a_random_log_equals_the_naive_fold(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    """Batches of any size, the shards another number after a restart, and a node that recovers."""
    log_directory = tmp_path / "log"
    end = written(log_directory, list(random_batches(seed, 60)))
    job = SnapshotsJob(spark, tmp_path, [log_directory])
    ranges = job.run(shards=1 + seed, max_offsets=end // 3)
    assert len(ranges) >= 3
    assert job.run() == []
    end = written(log_directory, list(random_batches(seed + 100, 30)))
    ranges += job.run(shards=4, max_offsets=end // 6)
    assert [start for start, _ in ranges] == [0, *(end for _, end in ranges[:-1])]
    written(log_directory, list(random_batches(seed + 200, 10)))
    with DirectoryLog.open(log_directory) as log:
        alone = load_image(log)
        continued = load_image(log, [StoredSnapshots(job.store)])
    assert continued.origin == f"snapshot {job.manifests()[-1].ref.name}"
    assert (continued.image.digest, contents(continued.image)) == (alone.image.digest, contents(alone.image))
    with running_node(log_directory, snapshot_store=job.store.url, log_mode="read") as node:
        assert node.status().digest == digest_to_string(alone.image.digest)


@pytest.mark.long
def test_empty_batches_and_logs_give_empty_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    """Each has its snapshot; shards that did not change are copied as they are."""
    log_directory = tmp_path / "log"
    nothing: list[MetadataRecord] = [BeginTransactionRecord("t"), acl(1), AbortTransactionRecord("no")]
    written(log_directory, [nothing])
    job = SnapshotsJob(spark, tmp_path, [log_directory], shards=2, keep=5)
    assert job.run() == [(0, 3)]
    assert job.manifests()[0].parts == ()
    written(log_directory, [[acl(number) for number in range(20)], nothing])
    assert job.run(max_offsets=20) == [(3, 23), (23, 26)]
    _, full, same = job.manifests()
    assert same.parts == full.parts


def test_a_replaced_file_of_offsets_does_not_change_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Another job on the checkpoint may write it: the state ends where the batch's rows end."""
    log_directory = tmp_path / "log"
    end = written(log_directory, [[acl(number)] for number in range(6)])
    job = SnapshotsJob(spark, tmp_path, [log_directory], shards=1)
    planned = tmp_path / "checkpoint" / "offsets" / "0"
    run = MicroBatches.run

    def replaced(batches: MicroBatches, rows: DataFrame, batch_id: int) -> None:
        text = planned.read_text()
        assert f'"offset": {end}' in text
        planned.write_text(text.replace(f'"offset": {end}', f'"offset": {end - 2}'))
        run(batches, rows, batch_id)

    with patch.object(MicroBatches, "run", replaced):
        assert job.run() == [(0, end)]


@pytest.mark.long
def test_a_batch_is_one_spark_action(spark: SparkSession, tmp_path: Path) -> None:
    """Reading, folding and writing of a batch is one job of Spark's."""
    log_directory = tmp_path / "log"
    written(log_directory, [[acl(number)] for number in range(9)])
    job = SnapshotsJob(spark, tmp_path, [log_directory], max_offsets=3, shards=2)
    settings = job.settings()
    jobs: list[int] = []

    def on_batch(_: object) -> None:
        (query,) = spark.streams.active
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId))))

    run_snapshots(spark, settings, on_batch)
    assert jobs == [1, 2, 3]


@pytest.mark.long
def test_the_callers_session_remains_active(spark: SparkSession, tmp_path: Path) -> None:
    """A batch has a separate session, which must not be Spark's active one afterwards."""
    log_directory = tmp_path / "log"
    written(log_directory, [[acl(number)] for number in range(4)])
    # Another test may have made another session active.
    active = SparkSession.getActiveSession()
    SnapshotsJob(spark, tmp_path, [log_directory], shards=2).run()
    assert SparkSession.getActiveSession() is active is not None


def test_a_session_of_another_thread_is_not_a_new_one(spark: SparkSession) -> None:
    """Spark's active session is one thread's; a command in another thread must not stop it."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(SparkSession.getActiveSession).result() is None
        assert pool.submit(has_session).result()
        session = pool.submit(spark_session, "another thread").result()
    assert session.sparkContext is spark.sparkContext


def test_an_interrupted_batch_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """Before its manifest: the same content, nothing of the first try is left. After it: nothing is done."""
    log_directory = tmp_path / "log"
    written(log_directory, [[acl(number) for number in range(20)], [acl(number) for number in range(20, 40)]])
    job = SnapshotsJob(spark, tmp_path, [log_directory], max_offsets=20, shards=3)
    assert job.run() == [(0, 20), (20, 40)]
    before = job.manifests()
    job.forget_commit(1)
    assert job.run() == []
    assert job.manifests() == before

    last = job.directory_of(before[-1].ref)
    other = last / shard_part_name(0, 3, "another-writer")
    other.write_bytes(b"")
    (last / "manifest.json").unlink()
    job.forget_commit(1)
    assert job.run() == [(20, 40)]
    again = job.manifests()
    assert again[-1].digest == before[-1].digest
    assert {path.name for path in last.iterdir()} == {
        "manifest.json",
        other.name,
        *(part.name for part in again[-1].parts),
    }
    assert all(job.writer in part.name for part in again[-1].parts)


@pytest.mark.long
def test_lost_snapshots_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    """The log is read again, from the newest snapshot that is left, or from its start."""
    log_directory = tmp_path / "log"
    written(log_directory, [[acl(number)] for number in range(10)])
    job = SnapshotsJob(spark, tmp_path, [log_directory], max_offsets=5, shards=2)
    assert job.run() == [(0, 5), (5, 10)]
    (job.directory_of(job.manifests()[-1].ref) / "manifest.json").write_text("{}")
    written(log_directory, [[acl(number)] for number in range(5, 15)])
    assert job.run(max_offsets=None) == [(10, 20)]
    assert [log.is_read_again for log in job.logs] == [True]
    for status in job.store.survey("c-1"):
        (job.directory_of(status.ref) / "manifest.json").unlink()
    written(log_directory, [[RemoveAccessControlEntryRecord(acl_id(3))]])
    assert job.run() == [(20, 21)]
    assert [log.is_read_again for log in job.logs] == [True]


@pytest.mark.long
def test_a_log_that_has_lost_its_start_needs_a_snapshot(spark: SparkSession, tmp_path: Path) -> None:
    """Of Kafka's own the newest, or a node's that is newer: the job begins there. Else it says what to do."""
    trimmed = tmp_path / real_log("kraft-trimmed").name
    shutil.copytree(real_log("kraft-trimmed").parent, tmp_path, dirs_exist_ok=True)
    with DirectoryLog.open(trimmed) as log:
        loaded = load_image(log, [CheckpointFiles(log)], at_offset=1_950)
        whole = load_image(log, [CheckpointFiles(log)]).image
        (checkpoint,) = log.checkpoints()
    for start in (checkpoint.end_offset, 1_951):
        job = SnapshotsJob(spark, tmp_path / str(start), [trimmed], max_offsets=100, shards=3)
        if start != checkpoint.end_offset:
            job.store.write(loaded.image, log.identity, log_end_time_ms=0)
        reports: list[BatchReport] = []
        run_snapshots(spark, job.settings(), reports.append)
        assert reports[0].logs[0].start == start
        newest = job.manifests()[-1]
        assert (newest.digest, newest.count) == (whole.digest, len(whole))
        assert newest.provenance == whole.provenance
    assert checkpoint.path is not None
    checkpoint.path.unlink()
    job = SnapshotsJob(spark, tmp_path / "none", [trimmed], max_offsets=100, shards=3)
    with pytest.raises(SparkJobError, match=r"starts at offset 1675, and .*\(aclog snapshot create\)"):
        job.run()


@pytest.mark.long
def test_two_clusters_are_separate(spark: SparkSession, tmp_path: Path) -> None:
    """The same ids and names in both; one of them is ahead, one is quiet for a batch."""
    first, second = tmp_path / "first", tmp_path / "second"
    written(first, list(random_batches(5, 20)), "c-1")
    written(second, list(random_batches(6, 5)), "c-2")
    job = SnapshotsJob(spark, tmp_path, [first, second], max_offsets=30, shards=2)
    ranges = job.run()
    assert sum(start == 0 for start, _ in ranges) == 2
    written(second, list(random_batches(7, 3)), "c-2")
    job.run()
    assert {log.cluster_id for log in job.logs} == {"c-2"}
    assert job.store.clusters() == ("c-1", "c-2")


@pytest.mark.long
def test_a_job_follows_its_log(spark: SparkSession, tmp_path: Path) -> None:
    """With an interval: what is appended meanwhile is in the next batch's snapshot."""
    log_directory = tmp_path / "log"
    written(log_directory, [[acl(1)]])
    job = SnapshotsJob(spark, tmp_path, [log_directory], shards=2)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(job.run, interval_s=0.1)
        try:
            assert job.wait_until(1, SOON_S)
            written(log_directory, [[acl(2)], [RemoveAccessControlEntryRecord(acl_id(1))]])
            assert job.wait_until(3, SOON_S)
        finally:
            for query in spark.streams.active:
                query.stop()
        assert running.result(SOON_S)[-1][1] == 3
    assert job.manifests()[-1].count == 1


@pytest.mark.long
def test_a_record_that_cannot_be_decoded_ends_the_job(spark: SparkSession, tmp_path: Path) -> None:
    """I7: it says which and why, without stacks; the batches before it stay, and nothing is skipped."""
    log_directory = tmp_path / "log"
    frame = bytearray(encode_frame(acl(5)))
    frame[2] = 9  # the record's version
    bad = encode_batch([bytes(frame)], base_offset=5, epoch=1, timestamp_ms=1)
    write_segment(log_directory, 0, batch_bytes(0, 5), bad, batch_bytes(6))
    job = SnapshotsJob(spark, tmp_path, [log_directory], max_offsets=5, shards=2)
    for _ in range(2):
        with pytest.raises(AclogError) as caught:
            job.run()
        assert "version 9" in str(caught.value)
        assert "offset 5" in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [manifest.provenance.end_offset for manifest in job.manifests()] == [5]
