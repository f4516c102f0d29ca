"""Maintenance of a history and its tables: retention, small files, and files that no reader needs.

Without retention it is safe beside the job where Delta's commits are exclusive: one that conflicts with
another is tried again on both sides. Else it needs the claim of the history, which no job has then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.errors import SparkJobError
from snapshot.jobs.changes.tables.delta_tables import DeltaHistory, committed, table_path
from snapshot.jobs.changes.tables.publication import last_publication, require_tables
from snapshot.jobs.changes.tables.retention import Retention
from snapshot.jobs.changes.tables.schema import ACCESS_CHANGES, DEFERRED, TABLES
from snapshot.jobs.session.delta import require_delta
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import Row, SparkSession

    from snapshot.jobs.changes.tables.access_rows import AccessAnalysis
    from snapshot.jobs.running.claim import CheckpointClaim

#: Delta's minimum: a reader or writer that began earlier may still need the files.
VACUUM_AFTER_HOURS: Final = 7 * 24
_LISTING_TASKS: Final = "8"
_T = TypeVar("_T")


class TableMaintenance(NamedTuple):
    """The effect on one table.

    Attributes:
        merged: number of small files that were replaced.
        written: number of files that replace them.
        files: number of data files afterwards, without those that only older versions have.
    """

    table: str
    deleted: int
    merged: int
    written: int
    files: int


def maintain(
    spark: SparkSession,
    output: str,
    *,
    vacuum_after_hours: int,
    keep_from: datetime | None = None,
    claim: CheckpointClaim | None = None,
) -> Iterator[TableMaintenance]:
    """Compact and vacuum each table of a history.

    Args:
        spark: the session, with Delta.
        output: directory of the history.
        keep_from: delete rows that only states before this time need; see Retention.
        vacuum_after_hours: files that no version of the last hours has are removed; at least
            VACUUM_AFTER_HOURS.
        claim: of the history, checked before each commit.

    Raises:
        CheckpointClaimedError: a job has taken over the history.
        HistoryMissingError: the history has no tables.
        SparkJobError: there is no Delta, or the tables are incomplete.
    """
    spark = _session(spark, output)
    history = Storage(output)
    # VACUUM starts so many tasks to list a table's files, however few they are: by default 10,000.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", _LISTING_TASKS)
    retention = None if keep_from is None else Retention(spark, output, keep_from)
    if retention is not None and (deferred := deferred_changes(spark, output)):
        raise SparkJobError(f"{deferred} changes are deferred: their analysis needs the rows before them")

    def run(commit: Callable[[], _T]) -> _T:
        if claim is not None:
            claim.check()
        return committed(history, commit)

    if retention is not None:
        run(retention.put_begin)
    for table in TABLES:
        name = f"delta.`{table_path(output, table)}`"
        deleted = 0
        if retention is not None and (deleted := retention.rows(table).count()):
            run(partial(retention.delete, table))
        (optimized,) = run(partial(_collected, spark, f"OPTIMIZE {name}"))
        run(partial(spark.sql, f"VACUUM {name} RETAIN {vacuum_after_hours} HOURS"))
        (detail,) = spark.sql(f"DESCRIBE DETAIL {name}").collect()
        metrics = optimized.metrics
        yield TableMaintenance(
            table.name, deleted, metrics.numFilesRemoved, metrics.numFilesAdded, detail.numFiles
        )


def deferred_changes(spark: SparkSession, output: str) -> int:
    """The number of changes that access_changes has no analysis of yet.

    Raises:
        HistoryMissingError: the history has no tables.
        SparkJobError: there is no Delta, or the tables are incomplete.
    """
    rows = _session(spark, output).read.format("delta").load(table_path(output, ACCESS_CHANGES))
    return rows.where(F.col("change") == DEFERRED).count()


def analyse_deferred(
    spark: SparkSession,
    output: str,
    analysis_of: Callable[[Mapping[str, str]], AccessAnalysis],
    claim: CheckpointClaim,
) -> int:
    """Analyse all deferred changes, after an interrupted publication is completed; returns their number.

    Args:
        spark: the session, with Delta.
        output: directory of a history with tables.
        analysis_of: makes the analysis of the configuration of the last publication.
        claim: of the history, checked before each commit.

    Raises:
        CheckpointClaimedError: a job has taken over the history.
        SparkJobError: there is no Delta, or the tables are incomplete.
        SnapshotError: the history cannot be read or written.
    """
    last = last_publication(Storage(output))
    analysis = analysis_of({} if last is None else last.analysis)
    return DeltaHistory(spark, output, analysis, claim).analyse_all_deferred()


def deletable_rows(
    spark: SparkSession, output: str, *, keep_from: datetime
) -> Iterator[tuple[str, int, int]]:
    """Yield for each table its name, the number of rows that retention would delete, and of all rows.

    Raises:
        HistoryMissingError: the history has no tables.
        SparkJobError: there is no Delta, or the tables are incomplete.
    """
    spark = _session(spark, output)
    retention = Retention(spark, output, keep_from)
    for table in TABLES:
        rows = spark.read.format("delta").load(table_path(output, table))
        yield table.name, retention.rows(table).count(), rows.count()


def _session(spark: SparkSession, output: str) -> SparkSession:
    """A session apart, for a history that has tables."""
    require_delta(spark)
    require_tables(Storage(output))
    return spark.newSession()


def _collected(spark: SparkSession, statement: str) -> list[Row]:
    return spark.sql(statement).collect()
