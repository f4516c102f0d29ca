"""The data source `aclog-log` on real Spark: restarts, crashes, logs that changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from records.entries import BeginTransactionRecord, ControlRecord, EndTransactionRecord
from records.log.directory import DirectoryLog
from snapshot.jobs.folding.schema import CHANGE, CHANGES_ARROW
from snapshot.jobs.sources.logs import FollowedLog
from snapshot.jobs.sources.range_source import read_ranges_stream
from support.data import real_log
from support.directory_logs import (
    acl,
    acls,
    batch_bytes,
    flip_bit,
    read_batches,
    records_of,
    segment_path,
    write_segment,
)

pytestmark = [pytest.mark.slow, pytest.mark.integration]


def followed(path: Path) -> FollowedLog:
    with DirectoryLog.open(path) as log:
        return FollowedLog(url=f"file:{path}", identity=log.identity)


class Query:
    """A query with a checkpoint that is started again and again; each run takes what there is and ends.

    Attributes:
        batches: (batch id, offsets of the records in its ranges) of each batch begun, in order.
    """

    def __init__(
        self, spark: SparkSession, log: FollowedLog, checkpoint: Path, max_offsets: int, start: int = 0
    ) -> None:
        self._spark, self._log, self._max_offsets, self._start = spark, log, max_offsets, start
        self.checkpoint = checkpoint
        self.batches: list[tuple[int, list[int]]] = []

    def run(self, after: Callable[[int], None] = lambda _: None) -> None:
        """``after``: called at the end of each batch, before Spark commits it."""
        begun = len(self.batches)
        try:
            self._run(after)
        except StreamingQueryException as error:
            # Spark gives the process that plans 10 s to start, always: too few on a busy machine.
            if "Python worker failed to connect back" not in str(error) or len(self.batches) > begun:
                raise
            self._run(after)

    def _run(self, after: Callable[[int], None]) -> None:
        def on_batch(rows: DataFrame, batch_id: int) -> None:
            self.batches.append((batch_id, offsets(self._log, rows)))
            after(batch_id)

        starts = {self._log.identity.cluster_id: self._start}
        stream = read_ranges_stream(self._spark, [self._log], starts, max_offsets=self._max_offsets)
        writer = stream.writeStream.foreachBatch(on_batch).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.awaitTermination()
        finally:
            query.stop()

    def failure(self) -> str:
        """What the next run fails with."""
        with pytest.raises(StreamingQueryException) as caught:
            self.run()
        return str(caught.value)

    def planned(self) -> list[dict[str, Any]]:
        """What Spark keeps of each batch: where it ends in each log."""
        offsets = self.checkpoint / "offsets"
        return [json.loads((offsets / str(batch)).read_text().splitlines()[2]) for batch, _ in self.batches]


def offsets(log: FollowedLog, rows: DataFrame) -> list[int]:
    """Of the records in the log's range, if the rows have one."""
    ranges = {row.cluster_id: (row.start_offset, row.end_offset) for row in rows.collect()}
    start, end = ranges.get(log.identity.cluster_id, (0, 0))
    with DirectoryLog.open(log.url.removeprefix("file:")) as opened:
        return [
            logged.offset
            for logged in records_of(read_batches(opened))
            if start <= logged.offset < end and not isinstance(logged.record, ControlRecord)
        ]


def test_arrow_schema_equals_sparks(spark: SparkSession) -> None:
    """Spark takes Arrow batches only if their types are those that it makes of its own schema."""
    schema = StructType.fromDDL(CHANGE.replace(":", ""))
    assert isinstance(schema, StructType)
    assert to_arrow_schema(schema, timezone="UTC") == CHANGES_ARROW


@pytest.mark.parametrize("name", ["kraft-small", pytest.param("kraft-trimmed", marks=pytest.mark.long)])
def test_spark_reads_a_real_log(spark: SparkSession, tmp_path: Path, name: str) -> None:
    """Every record but control records, once; whichever of Spark's sessions is the thread's active one."""
    with DirectoryLog.open(real_log(name)) as log:
        start = log.start_offset()
        records = records_of(read_batches(log))
    expected = [logged.offset for logged in records if not isinstance(logged.record, ControlRecord)]
    for number, session in enumerate((spark, spark.newSession())):
        query = Query(session, followed(real_log(name)), tmp_path / str(number), 20, start)
        query.run()
        assert [offset for _, of_batch in query.batches for offset in of_batch] == expected
        assert len(query.batches) > 2


@pytest.mark.long
def test_a_stream_continues_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Batches of limited size with complete transactions; no record is read twice, also by the next run."""
    path = tmp_path / "log"
    with DirectoryLog.open(path, mode="create") as log:
        log.append_batches((acls(at, at + 3), None) for at in range(0, 9, 3))
        log.append([BeginTransactionRecord()])
        log.append_batches((acls(at, at + 3), None) for at in range(10, 16, 3))
        log.append([EndTransactionRecord(), acl(17)])
    whose = followed(path)
    query = Query(spark, whose, tmp_path / "checkpoint", 6)
    query.run()
    assert query.batches == [(0, [*range(6)]), (1, [6, 7, 8]), (2, [*range(9, 18)])]
    ends = [planned[whose.identity.cluster_id] for planned in query.planned()]
    assert [(end["offset"], end["epoch"]) for end in ends] == [(6, 1), (9, 1), (18, 1)]
    query.run()
    assert len(query.batches) == 3
    with DirectoryLog.open(path, mode="write") as log:
        log.append([acl(18)])
    query.run()
    assert query.batches[3:] == [(3, [18])]


@pytest.mark.long
def test_a_stream_follows_a_log(spark: SparkSession, tmp_path: Path) -> None:
    """From an empty log on; a metadata transaction is seen when it has ended."""
    path = tmp_path / "log"
    found: list[int] = []

    def on_batch(rows: DataFrame, _batch_id: int) -> None:
        found.extend(offsets(whose, rows))

    with DirectoryLog.open(path, mode="create") as log:
        whose = followed(path)
        stream = read_ranges_stream(spark, [whose], {whose.identity.cluster_id: 0}, max_offsets=None)
        query = stream.writeStream.foreachBatch(on_batch).trigger(processingTime="0 seconds")
        running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        try:
            log.append([acl(0)])
            running.processAllAvailable()
            assert found == [0]
            log.append([BeginTransactionRecord(), acl(2)])
            running.processAllAvailable()
            assert found == [0]
            log.append([EndTransactionRecord()])
            running.processAllAvailable()
            assert found == [0, 1, 2, 3]
        finally:
            running.stop()


@pytest.mark.long
def test_available_now_ends_at_the_logs_end_at_the_start(spark: SparkSession, tmp_path: Path) -> None:
    """A writer who is always ahead does not keep the query running."""
    path = tmp_path / "log"
    with DirectoryLog.open(path, mode="create") as log:
        log.append_batches((acls(at, at + 2), None) for at in (0, 2))
        query = Query(spark, followed(path), tmp_path / "checkpoint", 2)

        def write_on(_batch_id: int) -> None:
            log.append([acl(log.high_watermark())])

        query.run(after=write_on)
        assert query.batches == [(0, [0, 1]), (1, [2, 3])]
        assert log.high_watermark() == 6


def test_a_failed_batch_is_repeated_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    """Planned before the crash: the same range with the same rows, though the log has grown."""
    path = tmp_path / "log"
    with DirectoryLog.open(path, mode="create") as log:
        log.append_batches((acls(at, at + 2), None) for at in range(0, 6, 2))
        query = Query(spark, followed(path), tmp_path / "checkpoint", 4)

        def crash(batch_id: int) -> None:
            log.append(acls(log.high_watermark(), log.high_watermark() + 2))
            if batch_id == 1:
                raise RuntimeError("crash before the commit")

        with pytest.raises(StreamingQueryException, match="crash before the commit"):
            query.run(after=crash)
        query.run()
    assert query.batches == [
        (0, [0, 1, 2, 3]),
        (1, [4, 5]),
        (1, [4, 5]),
        (2, [6, 7, 8, 9]),
    ]


def damage(path: Path) -> None:
    flip_bit(segment_path(path, 0), 2 * len(batch_bytes(0, 2)) + 100)


def trim(path: Path) -> None:
    segment_path(path, 0).unlink()
    write_segment(path, 6, batch_bytes(6, 2))


def truncate(path: Path) -> None:
    write_segment(path, 0, batch_bytes(0, 2))


def write_anew(path: Path) -> None:
    write_segment(path, 0, batch_bytes(0, 2), *(batch_bytes(at, 2, epoch=2) for at in (2, 4, 6)))


def create_again(path: Path) -> None:
    shutil.rmtree(path)
    with DirectoryLog.open(path, mode="create", cluster_id="another") as log:
        log.append_batches((acls(at, at + 2), None) for at in (0, 2, 4))


@pytest.mark.long
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (damage, ["the batch's CRC-32C is", "{path}/00000000000000000000.log, offset 4"]),
        (trim, ["{path}: the log was trimmed: it starts at offset 6, but the next one to read is 4"]),
        (truncate, ["{path}: the log was truncated: it ends at offset 2, but the next one to read is 4"]),
        (write_anew, ["{path}: the log was truncated below offset 4 and rewritten"]),
        (create_again, ["{path}: the query follows the log of cluster c", "the log was replaced"]),
    ],
    ids=["damaged", "trimmed", "truncated", "written anew", "created again"],
)
def test_a_log_that_changed_fails_the_query(
    spark: SparkSession, tmp_path: Path, change: Callable[[Path], None], says: Sequence[str]
) -> None:
    """With path, offset and reason; what came before is not touched, and no offset is skipped."""
    path = tmp_path / "c" / "log"
    write_segment(path, 0, batch_bytes(0, 2), batch_bytes(2, 2))
    (path.parent / "meta.properties").write_text("version=1\ncluster.id=c\n")
    query = Query(spark, followed(path), tmp_path / "checkpoint", 4)
    query.run()
    with segment_path(path, 0).open("ab") as file:
        file.write(batch_bytes(4, 2) + batch_bytes(6, 2))
    change(path)
    message = query.failure()
    for text in says:
        assert text.format(path=path) in message
    assert query.batches == [(0, [0, 1, 2, 3])]


def test_a_checkpoint_of_another_log_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark itself would go on with the other log, from the same offset."""
    path = tmp_path / "a"
    for checkpoint in (tmp_path / "checkpoint", tmp_path / "other"):
        with DirectoryLog.open(path, mode="create", cluster_id="c") as log:
            log.append_batches((acls(at, at + 2), None) for at in (0, 2))
        Query(spark, followed(path), checkpoint, 4).run()
        shutil.rmtree(path)
    with DirectoryLog.open(path, mode="create", cluster_id="c") as log:
        log.append_batches((acls(at, at + 2), None) for at in (0, 2))
    message = Query(spark, followed(path), tmp_path / "checkpoint", 4).failure()
    assert f"{path}: the checkpoint belongs to the log of cluster c with topic id" in message
    assert "but this is the log of cluster c" in message


def planning_processes() -> list[str]:
    """Commands of the processes below this one that plan for a Python data source."""
    done = subprocess.run(
        ["ps", "-ww", "-eo", "ppid=,pid=,args="], capture_output=True, text=True, check=True
    )
    rows = [line.split(None, 2) for line in done.stdout.splitlines()]
    found, parents = list[str](), {str(os.getpid())}
    while parents:
        found += [args for parent, _, args in rows if parent in parents]
        parents = {pid for parent, pid, _ in rows if parent in parents}
    return [args for args in found if "python_streaming_source_runner" in args]


def test_one_process_plans_several_directories(spark: SparkSession, tmp_path: Path) -> None:
    """And one batch has them all."""
    logs = []
    for name in ("a", "b", "c"):
        with DirectoryLog.open(tmp_path / name, mode="create", cluster_id=name) as log:
            log.append(acls(0, 2))
        logs.append(followed(tmp_path / name))
    found: list[dict[str, int]] = []
    counts: list[int] = []

    def on_batch(rows: DataFrame, _batch_id: int) -> None:
        found.append({row.cluster_id: row.end_offset for row in rows.collect()})
        counts.append(len(planning_processes()))

    stream = read_ranges_stream(spark, logs, dict.fromkeys("abc", 0), max_offsets=None)
    writer = stream.writeStream.foreachBatch(on_batch).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert found == [{"a": 2, "b": 2, "c": 2}]
    assert counts == [1]
