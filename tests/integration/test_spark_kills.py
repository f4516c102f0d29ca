"""kill -9 of a job's driver, JVM and workers, wherever a batch may be: the next run makes up for it.

Three jobs run in one process and stand still at a point of one batch (support.spark_job); the disk is
looked at, and everything is killed. The next process goes on from the checkpoints, to another point of a
later batch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from itertools import count
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from records.ids import Uuid
from records.log.directory import DirectoryLog
from replay.load_image import load_image
from snapshot.jobs.changes.history import History
from snapshot.jobs.counts.count_tables import read_count_deltas, read_counts
from snapshot.jobs.planning.planned_offsets import parse_ends
from snapshot.store.layout import MANIFEST_NAME, parse_snapshot_name
from snapshot.store.snapshot_store import SnapshotStore
from support.data import TESTS
from support.directory_logs import read_path, records_of
from support.histories import as_record, random_batches
from support.naive_changes import NaiveChange, naive_changes
from support.naive_counts import Kind, NaiveCounts
from support.spark_job import JOBS, MAX_OFFSETS, POINTS, SHARDS, run
from support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.integration, pytest.mark.xdist_group("spark")]

CLUSTER = "c-1"
KIND = ("resource_type", "pattern_type", "permission_type", "operation")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
#: Spark starts slowly on a busy machine; never waited for when a test passes.
START_S = 400.0


def alive() -> Iterator[tuple[int, int, int]]:
    """Processes: number, parent, session."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has just ended
                state, parent, _group, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if state != "Z":
                    yield int(entry.name), int(parent), int(session)


def kill_all(process: subprocess.Popen[bytes]) -> int:
    """Driver, JVM and Python workers; how many they were. The driver leads a session, and so does its JVM."""
    sessions = {process.pid, *(session for _, parent, session in alive() if parent == process.pid)}
    killed = 0
    while members := [number for number, _, session in alive() if session in sessions]:
        for member in members:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
                killed += 1
    process.wait()
    return killed


@contextmanager
def halted_jobs(home: Path, log: Path, point: str, after: int) -> Iterator[None]:
    """A process whose jobs have all reached the point; it is killed at the end of the block."""
    reached = home / "reached"
    for job in JOBS:
        (reached / job).unlink(missing_ok=True)
    command = [sys.executable, "-m", "support.spark_job", str(home), str(log), point, str(after)]
    with (home / f"{point}.log").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=ENVIRONMENT, start_new_session=True
        )

    def all_there() -> bool:
        assert process.poll() is None, (home / f"{point}.log").read_text()[-4000:]
        return reached.is_dir() and {path.name for path in reached.iterdir()} == set(JOBS)

    killed = 0
    try:
        wait_until(all_there, f"all jobs at {point}", timeout_s=START_S)
        yield
    finally:
        killed = kill_all(process)
    assert killed > 2


class OnDisk:
    """What one job has of its last batch."""

    def __init__(self, home: Path, job: str) -> None:
        checkpoint = home / job / ".checkpoint"
        texts = [
            (checkpoint / "offsets" / str(number)).read_text()
            for number in range(len(list((checkpoint / "offsets").glob("[0-9]*"))))
        ]
        self.ends = [parse_ends(text).ends[CLUSTER].offset for text in texts]
        self.end = self.ends[-1]
        start = self.ends[-2] if len(self.ends) > 1 else 0
        self.is_committed = (checkpoint / "commits" / str(len(self.ends) - 1)).exists()
        names: set[str] = set()
        for directory in (home / job / "state" / CLUSTER).glob("*"):
            place = parse_snapshot_name(directory.name)
            if place is not None and place[0] == self.end:
                names |= {path.name for path in directory.iterdir()}
        self.parts = len([name for name in names if name.startswith("part-")])
        self.is_stored = MANIFEST_NAME in names
        self.changes = list((home / job).glob(f"changes/*/*/{start:020d}-{self.end:020d}.parquet"))
        self.counts = list((home / job).glob(f"counts/*/*/{self.end:020d}.parquet"))


def assert_stands(point: str, job: str, disk: OnDisk) -> None:
    """What a job that stands there has written, and what it has not."""
    wanted = {"planned": 0, "part": 1}.get(point, SHARDS)
    assert (disk.parts, disk.is_stored, disk.is_committed) == (wanted, point == "stored", False)
    if job == "changes":
        assert bool(disk.changes) == (point in ("folded", "written", "stored"))
    if job == "counts":
        assert bool(disk.counts) == (point in ("written", "stored"))


#: The gate kills at this point; `make test-all` at the others, too.
GATE_POINT = "written"


@pytest.mark.parametrize(
    "points",
    [(GATE_POINT,), pytest.param(tuple(p for p in POINTS if p != GATE_POINT), marks=pytest.mark.long)],
    ids="-".join,
)
def test_killed_jobs_repeat_or_keep_a_batch_exactly_once(
    spark: SparkSession, tmp_path: Path, points: Sequence[str]
) -> None:
    """The same snapshots, each change once, the same counts, and nothing left over.

    One kill at each point, each in another batch; complete runs process the batches before it and after all
    kills.
    """
    home, log = tmp_path / "home", tmp_path / "log"
    home.mkdir()
    with DirectoryLog.open(log, mode="create", cluster_id=CLUSTER) as log_writer:
        times_ms = count(1_700_000_000_000, 20_000)
        # A batch for each kill, and two more.
        offsets = MAX_OFFSETS * (len(points) + 2)
        log_writer.append_batches(list(zip(random_batches(1, offsets), times_ms, strict=False)))
        log_end = log_writer.high_watermark()
    after = 0
    for point in points:
        with halted_jobs(home, log, point, after):
            disks = {job: OnDisk(home, job) for job in JOBS}
            for job, disk in disks.items():
                assert_stands(point, job, disk)
            (end,) = {disk.end for disk in disks.values()}
            assert after < end < log_end
            after = end
    for job in JOBS:
        run(spark, home, job, str(log))
        disk = OnDisk(home, job)
        assert disk.is_committed
        assert (disk.end, len(disk.ends) > len(points)) == (log_end, True)
        assert_snapshots(home / job / "state", log, disk.ends)
        if job == "changes":
            assert_changes(spark, home / job, log)
        if job == "counts":
            assert_counts(spark, home / job, log, disk.ends)


def assert_snapshots(state: Path, log: Path, ends: list[int]) -> None:
    """One at the end of each batch, equal to the log's state there, and no file that is not its own."""
    store = SnapshotStore(str(state))
    statuses = store.survey(CLUSTER)
    assert [status.ref.end_offset for status in statuses] == ends
    with DirectoryLog.open(log) as opened:
        for status in statuses:
            expected = load_image(opened, at_offset=status.ref.end_offset - 1).image
            assert store.verify(status.ref, opened.identity) == ()
            manifest = status.manifest
            assert manifest is not None
            assert (manifest.digest, manifest.count) == (expected.digest, len(expected))
            assert manifest.provenance == expected.provenance
            files = {path.name for path in (state / status.ref.directory).iterdir()}
            # A batch that changes few ACLs stores only these, beside the part that they belong to.
            assert files == {MANIFEST_NAME, *(each.name for each in manifest.files)}
    assert {path.name for path in (state / CLUSTER).iterdir()} == {
        Path(status.ref.directory).name for status in statuses
    }


def assert_changes(spark: SparkSession, output: Path, log: Path) -> None:
    """The changes of the naive fold, each once, both in the committed rows and in the files."""
    expected = naive_changes(records_of(read_path(log)))
    rows = []
    for row in History.open(spark, str(output)).changes().collect():
        sides = {
            side: None if row[side] is None else as_record(row[side].asDict() | {"id": row.id})
            for side in ("before", "after")
        }
        since = None if row.before is None else row.before.offset
        rows.append(
            NaiveChange(row.offset, Uuid(bytes(row.id)), row.change, sides["before"], since, sides["after"])
        )
    assert sorted(rows, key=lambda each: each[:2]) == expected
    assert rows_in_files(output / "changes") == len(expected)
    assert rows_in_files(output / "intervals") == sum(each.before is not None for each in expected)


def rows_in_files(table: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for path in table.rglob("*.parquet"))


def assert_counts(spark: SparkSession, output: Path, log: Path, ends: list[int]) -> None:
    """Those of the plain count, at the end of each batch and in each minute; each is there once."""
    plain = NaiveCounts(records_of(read_path(log)))
    at_end: dict[int, dict[Kind, int]] = {end: {} for end in ends}
    for row in read_counts(spark, str(output)).collect():
        kind = row[KIND[0]], row[KIND[1]], row[KIND[2]], row[KIND[3]]
        assert kind not in at_end[row.end_offset]
        at_end[row.end_offset][kind] = row["count"]
    for end, kinds in at_end.items():
        assert {kind: number for kind, number in kinds.items() if number} == dict(plain.at_end[end])
    deltas: Counter[tuple[int, Kind]] = Counter()
    for row in read_count_deltas(spark, str(output)).collect():
        kind = row[KIND[0]], row[KIND[1]], row[KIND[2]], row[KIND[3]]
        deltas[round(row.minute.astimezone(UTC).timestamp() * 1000), kind] += row.delta
    assert {place: delta for place, delta in deltas.items() if delta} == plain.by_minute(max(ends))
