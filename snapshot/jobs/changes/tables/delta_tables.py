"""Writes a history's tables as Delta Lake's, after the batches are committed.

    OUTPUT/tables/acl_changes, acl_in_force, acl_counts, access_changes, acl_coverage      schema.py

The tables have what the committed files of the history have, so that they can be written again from those.
A commit that conflicts with another one, such as Delta's maintenance, is tried again. On a local disk Delta
excludes commits of its own process only, so a lock excludes those of others.
"""

from __future__ import annotations

import fcntl
import threading
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.storagelevel import StorageLevel

from snapshot.files.atomic_file import make_directories
from snapshot.jobs.changes.change_files import CHANGES, history_files, state_url
from snapshot.jobs.changes.coverage import read_coverage
from snapshot.jobs.changes.history import History, in_force_at, schema_of
from snapshot.jobs.changes.tables.access_rows import ClusterRange, access_rows
from snapshot.jobs.changes.tables.publication import (
    TABLES_DIRECTORY,
    Publication,
    begin_publication,
    end_publication,
    last_publication,
    next_publication,
)
from snapshot.jobs.changes.tables.rows import change_rows, count_rows, period_rows
from snapshot.jobs.changes.tables.schema import (
    ACCESS_CHANGES,
    ACL_CHANGES,
    ACL_COUNTS,
    ACL_COVERAGE,
    ACL_IN_FORCE,
    ANALYSED,
    COMPACTED_RANGES,
    DEFERRED,
    TABLES,
)
from snapshot.jobs.folding.schema import CHANGE
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from snapshot.jobs.changes.coverage import Coverage
    from snapshot.jobs.changes.tables.access_rows import AccessAnalysis
    from snapshot.jobs.changes.tables.schema import Column, Table
    from snapshot.jobs.running.claim import CheckpointClaim

_CHANGE: Final = f"{CHANGE}, cluster_id: string, date: string"
_T = TypeVar("_T")
CompactedRanges: TypeAlias = tuple[tuple[int, int], ...]
_LOCK: Final = f"{TABLES_DIRECTORY}/_commit.lock"
_ATTEMPTS: Final = 10
_RETRY_S: Final = 0.5
# Deferred changes of a log that one publication may analyse: more than the work of Bounds allows.
_DEFERRED_MAX: Final = 10_000


class DeltaHistory:
    """The tables of one history.

    Raises:
        SparkJobError: the tables are incomplete.
        SnapshotError: the history cannot be read.
    """

    def __init__(
        self, spark: SparkSession, output: str, analysis: AccessAnalysis, claim: CheckpointClaim
    ) -> None:
        # A session apart: Delta takes a transaction's id and version from its settings.
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.session.timeZone", "UTC")
        self._output = output.rstrip("/")
        self._analysis = analysis
        self._claim = claim
        self._storage = Storage(output)
        # Batches publish in another thread than `analyse_deferred`.
        self._lock = threading.RLock()
        self._last = last_publication(self._storage)
        # The compacted ranges of each cluster in acl_coverage, once they are read.
        self._covered: dict[str, CompactedRanges | None] | None = None
        self._deferred = 0
        if self._last is not None and (self._last.is_complete or self._last.number > 1):
            self._deferred = self._deferred_rows().count()

    @property
    def deferred(self) -> int:
        """Number of changes that access_changes has no analysis of yet."""
        return self._deferred

    def catch_up(self) -> None:
        """Complete an interrupted publication, and publish everything that is committed.

        Raises:
            CheckpointClaimedError: another job has taken over the checkpoint.
        """
        with self._lock:
            self._complete()
            self.publish(SnapshotStore(state_url(self._output)).newest_complete_ends())

    def publish(self, ends: Mapping[str, int]) -> None:
        """Publish the committed changes of these clusters up to these ends.

        Raises:
            CheckpointClaimedError: another job has taken over the checkpoint.
        """
        with self._lock:
            publication = next_publication(self._last, ends)
            stale = {cluster_id for cluster_id in ends if self._is_coverage_stale(cluster_id)}
            advanced = {
                cluster_id: end
                for cluster_id, (begin, end) in publication.ranges.items()
                if cluster_id in stale or self._files(cluster_id, begin, end)
            }
            if advanced or stale:
                self._begin_and_write(advanced, stale)

    def analyse_deferred(self) -> None:
        """Analyse the oldest deferred changes, unless there are none or a publication is running.

        Raises:
            CheckpointClaimedError: another job has taken over the checkpoint.
        """
        if self._deferred and self._lock.acquire(blocking=False):
            try:
                self._begin_and_write({})
            finally:
                self._lock.release()

    def analyse_all_deferred(self) -> int:
        """Complete an interrupted publication, and analyse all deferred changes; returns their number.

        Raises:
            CheckpointClaimedError: a job has taken over the history.
        """
        with self._lock:
            self._complete()
            deferred = self._deferred
            while self._deferred:
                self.analyse_deferred()
            return deferred

    def _complete(self) -> None:
        """Write an interrupted publication again."""
        if self._last is not None and not self._last.is_complete:
            self._write(self._last)

    def _begin_and_write(self, ends: Mapping[str, int], stale: Collection[str] = ()) -> None:
        publication = next_publication(self._last, ends, self._analysis.configs())
        if begin_publication(self._storage, publication):
            self._write(publication, stale)
        else:
            # A job from which this one has taken over began it later.
            self._last = last_publication(self._storage)
            self._covered = None
            self.catch_up()

    def _write(self, publication: Publication, stale: Collection[str] = ()) -> None:
        """Write a publication; ``stale``: more clusters whose coverage is to be written."""
        # The publication is stored: a job that takes over from now on repeats it.
        self._claim.check()
        for table in TABLES if publication.number == 1 else ():
            self._spark.sql(create_table(table, f"{self._output}/{TABLES_DIRECTORY}/{table.name}"))
        covered = self._covered_ranges()
        changes = self._changes(publication.ranges).persist(StorageLevel.MEMORY_AND_DISK)
        settings = {
            "spark.databricks.delta.write.txnAppId": publication.writer,
            "spark.databricks.delta.write.txnVersion": str(publication.number),
        }
        try:
            for key, value in settings.items():
                self._spark.conf.set(key, value)
            self._write_coverage({*publication.ranges, *stale}, covered)
            if publication.ranges:
                self._write_changes(publication, changes)
            self._write_access(publication, change_rows(changes))
        finally:
            for key in settings:
                self._spark.conf.unset(key)
            changes.unpersist()
        self._claim.check()
        self._last = end_publication(self._storage, publication)
        self._deferred = self._deferred_rows().count()

    def _covered_ranges(self) -> dict[str, CompactedRanges | None]:
        """The compacted ranges in acl_coverage, by cluster; a table of an older version gets the column."""
        if self._covered is not None:
            return self._covered
        self._covered = {}
        if self._last is None:
            return self._covered
        rows = self._read(ACL_COVERAGE)
        if COMPACTED_RANGES.name not in rows.columns:
            self._merge(
                f"ALTER TABLE delta.`{self._path(ACL_COVERAGE)}` ADD COLUMNS ({_column(COMPACTED_RANGES)})"
            )
            rows = self._read(ACL_COVERAGE)
        for cluster_id, ranges in rows.select("cluster_id", COMPACTED_RANGES.name).collect():
            self._covered[cluster_id] = None if ranges is None else tuple(map(tuple, ranges))
        return self._covered

    def _is_coverage_stale(self, cluster_id: str) -> bool:
        """Whether acl_coverage lacks what the history's coverage says, also if no ACL has changed."""
        covered, coverage = self._covered_ranges(), self._coverage(cluster_id)
        if cluster_id in covered:
            return covered[cluster_id] != coverage.coarse
        return bool(coverage.begin_offset or coverage.coarse)

    def _write_coverage(
        self, cluster_ids: Collection[str], covered: dict[str, CompactedRanges | None]
    ) -> None:
        """Add these clusters to acl_coverage, and replace compacted ranges that have changed."""
        rows = []
        for coverage in map(self._coverage, cluster_ids):
            begin = coverage.begin_offset
            time = datetime.fromtimestamp(coverage.begin_time_ms / 1000, UTC) if begin else None
            if covered.get(coverage.cluster_id) != coverage.coarse:
                rows.append((coverage.cluster_id, begin, time, list(coverage.coarse)))
        if not rows:
            return
        self._spark.createDataFrame(rows, ACL_COVERAGE.ddl).createOrReplaceTempView("aclog_coverage")
        name = COMPACTED_RANGES.name
        # Retention has changed the begins of those that are there.
        statement = (
            f"MERGE INTO delta.`{self._path(ACL_COVERAGE)}` AS known USING aclog_coverage AS found "
            "ON known.cluster_id = found.cluster_id "
            f"WHEN MATCHED THEN UPDATE SET {name} = found.{name} "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        try:
            self._merge(statement)
        finally:
            self._spark.catalog.dropTempView("aclog_coverage")
        covered.update((row[0], tuple(row[3])) for row in rows)

    def _write_changes(self, publication: Publication, changes: DataFrame) -> None:
        """Write the tables of changes, periods and counts."""
        ranges = publication.ranges
        first = self._first_intervals(ranges)
        self._append(ACL_CHANGES, change_rows(changes))
        self._merge_periods(period_rows(changes, None if first is None else _intervals_only(first)))
        known = None
        if publication.number > 1:
            known = self._read(ACL_COUNTS).where(F.col("cluster_id").isin(list(ranges)))
        self._append(ACL_COUNTS, count_rows(changes, first, known))

    def _write_access(self, publication: Publication, changes: DataFrame) -> None:
        """Write the analysis of the publication's changes, and of the oldest deferred ones.

        Args:
            publication: with its ranges.
            changes: rows of acl_changes of the ranges.
        """
        oldest = Window.partitionBy("cluster_id").orderBy("offset")
        deferred = []
        if self._deferred:
            numbered = self._deferred_rows().select("cluster_id", "month", "offset")
            numbered = numbered.withColumn("number", F.row_number().over(oldest))
            deferred = numbered.where(F.col("number") <= _DEFERRED_MAX).collect()
        ranges = {}
        for cluster_id in {*publication.ranges, *(row.cluster_id for row in deferred)}:
            end = publication.ends[cluster_id]
            begin, _ = publication.ranges.get(cluster_id, (end, end))
            coverage = self._coverage(cluster_id)
            ranges[cluster_id] = ClusterRange(
                coverage.begin_offset if begin is None else begin,
                end,
                coverage.brokers,
                frozenset(row.offset for row in deferred if row.cluster_id == cluster_id),
            )
        if not deferred:
            rows = access_rows(changes, self._read(ACL_IN_FORCE), ranges, self._analysis)
            self._append(ACCESS_CHANGES, rows)
            return
        offsets = F.broadcast(self._spark.createDataFrame(deferred).select("cluster_id", "offset"))
        changes = changes.unionByName(self._read(ACL_CHANGES).join(offsets, ["cluster_id", "offset"], "semi"))
        rows = access_rows(changes, self._read(ACL_IN_FORCE), ranges, self._analysis)
        self._replace_deferred(rows, {row.month for row in deferred})

    def _replace_deferred(self, rows: DataFrame, months: Collection[str]) -> None:
        """Append rows of access_changes, and delete the deferred ones of analysed offsets."""
        rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
        rows.createOrReplaceTempView("aclog_access")
        statement = (
            f"MERGE INTO delta.`{self._path(ACCESS_CHANGES)}` AS known USING aclog_access AS found "
            f"ON known.month IN ({', '.join(map(quoted, sorted(months)))}) "
            f"AND known.change = '{DEFERRED}' AND found.change = '{ANALYSED}' "
            "AND known.cluster_id = found.cluster_id AND known.offset = found.offset "
            "WHEN MATCHED THEN DELETE "
            f"WHEN NOT MATCHED AND found.change <> '{ANALYSED}' THEN INSERT *"
        )
        try:
            self._merge(statement)
        finally:
            self._spark.catalog.dropTempView("aclog_access")
            rows.unpersist()

    def _merge(self, statement: str) -> None:
        def merge() -> None:
            self._claim.check()
            self._spark.sql(statement)

        committed(self._storage, merge)

    def _deferred_rows(self) -> DataFrame:
        return self._read(ACCESS_CHANGES).where(F.col("change") == DEFERRED)

    def _read(self, table: Table) -> DataFrame:
        return self._spark.read.format("delta").load(self._path(table))

    def _append(self, table: Table, rows: DataFrame) -> None:
        def write() -> None:
            self._claim.check()
            parted = rows.repartition(*table.partitions) if table.partitions else rows.coalesce(1)
            parted.write.format("delta").mode("append").save(self._path(table))

        committed(self._storage, write)

    def _merge_periods(self, rows: DataFrame) -> None:
        """Add the periods that began, and end those that ended."""
        months = [row.month for row in rows.select("month").distinct().collect()]
        if not months:
            return
        rows.createOrReplaceTempView("aclog_periods")
        statement = (
            f"MERGE INTO delta.`{self._path(ACL_IN_FORCE)}` AS known USING aclog_periods AS period "
            f"ON known.month IN ({', '.join(map(quoted, months))}) AND known.month = period.month "
            "AND known.cluster_id = period.cluster_id AND known.id = period.id "
            "AND known.valid_from_offset <=> period.valid_from_offset "
            "WHEN MATCHED THEN UPDATE SET valid_to_offset = period.valid_to_offset, "
            "valid_to_time = period.valid_to_time "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        try:
            self._merge(statement)
        finally:
            self._spark.catalog.dropTempView("aclog_periods")

    def _changes(self, ranges: Mapping[str, tuple[int | None, int]]) -> DataFrame:
        """The changes of these ranges: cluster_id and the columns of CHANGE."""
        paths = [
            f"{self._output}/{path}"
            for cluster_id, (begin, end) in ranges.items()
            for path in self._files(cluster_id, begin, end)
        ]
        schema = schema_of(_CHANGE)
        if not paths:
            return self._spark.createDataFrame([], schema)
        rows = self._spark.read.schema(schema).option("basePath", f"{self._output}/{CHANGES}")
        # Spark decodes each %XX of a partition's name as one character; it is one byte of UTF-8.
        name = F.decode(F.encode("cluster_id", "ISO-8859-1"), "UTF-8")
        return rows.parquet(*paths).withColumn("cluster_id", name)

    def _files(self, cluster_id: str, begin: int | None, end: int) -> Sequence[str]:
        if begin is None:
            begin = self._coverage(cluster_id).begin_offset
        return [
            file.path
            for file in history_files(self._storage, cluster_id)
            if file.path.startswith(f"{CHANGES}/") and begin < file.end <= end
        ]

    def _coverage(self, cluster_id: str) -> Coverage:
        coverage = read_coverage(self._storage, cluster_id)
        assert coverage is not None  # each published batch has put it
        return coverage

    def _first_intervals(self, ranges: Mapping[str, tuple[int | None, int]]) -> DataFrame | None:
        """The intervals in force where histories begin, of clusters without rows; None if there are none."""
        found = []
        for cluster_id, (begin, _) in ranges.items():
            if begin is not None or not self._coverage(cluster_id).begin_offset:
                continue
            history = History.open(self._spark, self._output, cluster_id)
            coverage = history.coverage
            rows = in_force_at(history.intervals(), coverage.begin_offset - 1)
            found.append(
                rows.withColumns(
                    {
                        "begin_offset": F.lit(coverage.begin_offset).cast("long"),
                        "begin_time": F.timestamp_millis(F.lit(coverage.begin_time_ms).cast("long")),
                    }
                )
            )
        return reduce(DataFrame.unionByName, found) if found else None

    def _path(self, table: Table) -> str:
        return table_path(self._output, table)


def table_path(output: str, table: Table) -> str:
    """The URL of one table of a history."""
    return f"{output.rstrip('/')}/{TABLES_DIRECTORY}/{table.name}"


def create_table(table: Table, path: str) -> str:
    """The statement that creates a table unless it exists."""
    columns = ", ".join(map(_column, table.columns))
    return (
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` ({columns}) USING delta "
        + (f"PARTITIONED BY ({', '.join(table.partitions)}) " if table.partitions else "")
        + f"COMMENT {quoted(table.comment)}"
    )


def _column(column: Column) -> str:
    """The definition of a column in a statement that creates it."""
    return f"{column.name} {column.type} COMMENT {quoted(column.comment)}"


def _intervals_only(rows: DataFrame) -> DataFrame:
    return rows.drop("begin_offset", "begin_time")


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def committed(history: Storage, commit: Callable[[], _T]) -> _T:
    """Run a commit, again where another one, such as maintenance, changed the same files."""
    attempt = 1
    while True:
        try:
            with _locked(history):
                return commit()
        except Exception as error:
            if attempt == _ATTEMPTS or not _is_conflict(error):
                raise
            time.sleep(_RETRY_S * attempt)
            attempt += 1


@contextmanager
def _locked(history: Storage) -> Iterator[None]:
    """On a local disk, no other process commits to the tables in the block.

    There Delta renames a commit's file over that of another process which was put in the same moment.
    """
    path = history.local_path(_LOCK)
    if path is None:
        yield
        return
    make_directories(path.parent)
    with path.open("ab") as file:
        with suppress(OSError):  # a disk without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _is_conflict(error: Exception) -> bool:
    """Whether Delta refused a commit because of a concurrent one."""
    # The text: without Delta's Python package, pyspark does not translate Delta's exceptions.
    return "DELTA_CONCURRENT" in str(error) or "io.delta.exceptions.Concurrent" in str(error)
