"""Writes a history's tables as Delta Lake's, after the batches are committed.

    OUTPUT/tables/acl_changes, acl_in_force, acl_counts, access_changes      schema.py

The tables have what the committed files of the history have, so that they can be written again from those.
A commit that conflicts with another one, such as Delta's maintenance, is tried again.
"""

from __future__ import annotations

import time
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.storagelevel import StorageLevel

from snapshot.jobs.changes.change_files import CHANGES, history_files, state_url
from snapshot.jobs.changes.coverage import read_coverage
from snapshot.jobs.changes.history import History, in_force_at, schema_of
from snapshot.jobs.changes.tables.access_rows import access_rows
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
    ACL_IN_FORCE,
    PARTITIONS,
    TABLES,
)
from snapshot.jobs.folding.schema import CHANGE
from snapshot.store.snapshot_store import SnapshotStore
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from snapshot.jobs.changes.tables.access_rows import AccessAnalysis
    from snapshot.jobs.changes.tables.schema import Table
    from snapshot.jobs.running.claim import CheckpointClaim

_CHANGE: Final = f"{CHANGE}, cluster_id: string, date: string"
_T = TypeVar("_T")
_ATTEMPTS: Final = 10
_RETRY_S: Final = 0.5


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
        self._last = last_publication(self._storage)

    def catch_up(self) -> None:
        """Complete an interrupted publication, and publish everything that is committed.

        Raises:
            CheckpointClaimedError: another job has taken over the checkpoint.
        """
        if self._last is not None and not self._last.is_complete:
            self._write(self._last)
        self.publish(SnapshotStore(state_url(self._output)).newest_complete_ends())

    def publish(self, ends: Mapping[str, int]) -> None:
        """Publish the committed changes of these clusters up to these ends.

        Raises:
            CheckpointClaimedError: another job has taken over the checkpoint.
        """
        publication = next_publication(self._last, ends)
        advanced = {
            cluster_id: end
            for cluster_id, (begin, end) in publication.ranges.items()
            if self._files(cluster_id, begin, end) or (begin is None and self._begin(cluster_id))
        }
        if not advanced:
            return
        publication = next_publication(self._last, advanced)
        if begin_publication(self._storage, publication):
            self._write(publication)
        else:
            # A job from which this one has taken over began it later.
            self._last = last_publication(self._storage)
            self.catch_up()

    def _write(self, publication: Publication) -> None:
        # The publication is stored: a job that takes over from now on repeats it.
        self._claim.check()
        for table in TABLES if publication.number == 1 else ():
            self._spark.sql(create_table(table, f"{self._output}/{TABLES_DIRECTORY}/{table.name}"))
        ranges = publication.ranges
        changes = self._changes(ranges).persist(StorageLevel.MEMORY_AND_DISK)
        settings = {
            "spark.databricks.delta.write.txnAppId": publication.writer,
            "spark.databricks.delta.write.txnVersion": str(publication.number),
        }
        try:
            first = self._first_intervals(ranges)
            for key, value in settings.items():
                self._spark.conf.set(key, value)
            self._append(ACL_CHANGES, change_rows(changes))
            self._merge_periods(period_rows(changes, None if first is None else _intervals_only(first)))
            known = None
            if publication.number > 1:
                known = self._spark.read.format("delta").load(self._path(ACL_COUNTS))
                known = known.where(F.col("cluster_id").isin(list(ranges)))
            self._append(ACL_COUNTS, count_rows(changes, first, known))
            periods = self._spark.read.format("delta").load(self._path(ACL_IN_FORCE))
            begins = {
                cluster_id: (self._begin(cluster_id) if begin is None else begin, end)
                for cluster_id, (begin, end) in ranges.items()
            }
            self._append(ACCESS_CHANGES, access_rows(changes, periods, begins, self._analysis))
        finally:
            for key in settings:
                self._spark.conf.unset(key)
            changes.unpersist()
        self._claim.check()
        self._last = end_publication(self._storage, publication)

    def _append(self, table: Table, rows: DataFrame) -> None:
        def write() -> None:
            self._claim.check()
            rows.repartition(*PARTITIONS).write.format("delta").mode("append").save(self._path(table))

        retried(write)

    def _merge_periods(self, rows: DataFrame) -> None:
        """Add the periods that began, and end those that ended."""
        months = [row.month for row in rows.select("month").distinct().collect()]
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

        def merge() -> None:
            self._claim.check()
            self._spark.sql(statement)

        try:
            retried(merge)
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
        return [
            file.path
            for file in history_files(self._storage, cluster_id)
            if file.path.startswith(f"{CHANGES}/") and (begin or 0) < file.end <= end
        ]

    def _begin(self, cluster_id: str) -> int:
        """The first offset of a cluster's history."""
        coverage = read_coverage(self._storage, cluster_id)
        return 0 if coverage is None else coverage.begin_offset

    def _first_intervals(self, ranges: Mapping[str, tuple[int | None, int]]) -> DataFrame | None:
        """The intervals in force where histories begin, of clusters without rows; None if there are none."""
        found = []
        for cluster_id, (begin, _) in ranges.items():
            if begin is not None or not self._begin(cluster_id):
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
    columns = ", ".join(
        f"{column.name} {column.type} COMMENT {quoted(column.comment)}" for column in table.columns
    )
    return (
        f"CREATE TABLE IF NOT EXISTS delta.`{path}` ({columns}) USING delta "
        f"PARTITIONED BY ({', '.join(PARTITIONS)}) COMMENT {quoted(table.comment)}"
    )


def _intervals_only(rows: DataFrame) -> DataFrame:
    return rows.drop("begin_offset", "begin_time")


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def retried(commit: Callable[[], _T]) -> _T:
    """Run a commit, again where another one, such as maintenance, changed the same files."""
    attempt = 1
    while True:
        try:
            return commit()
        except Exception as error:
            if attempt == _ATTEMPTS or not _is_conflict(error):
                raise
            time.sleep(_RETRY_S * attempt)
            attempt += 1


def _is_conflict(error: Exception) -> bool:
    """Whether Delta refused a commit because of a concurrent one."""
    # The text: without Delta's Python package, pyspark does not translate Delta's exceptions.
    return "DELTA_CONCURRENT" in str(error) or "io.delta.exceptions.Concurrent" in str(error)
