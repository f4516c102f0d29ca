"""Maintenance of a history's tables: merges small files, and removes files that no reader needs.

Safe beside the job: no row changes, and a commit that conflicts with another is tried again on both sides.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from snapshot.errors import HistoryMissingError
from snapshot.jobs.changes.tables.delta_tables import retried, table_path
from snapshot.jobs.changes.tables.publication import last_publication
from snapshot.jobs.changes.tables.schema import TABLES
from snapshot.jobs.session.delta import require_delta
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Row, SparkSession

#: Delta's minimum: a reader or writer that began earlier may still need the files.
VACUUM_AFTER_HOURS: Final = 7 * 24
_LISTING_TASKS: Final = "8"


class TableMaintenance(NamedTuple):
    """The effect on one table.

    Attributes:
        table: its name.
        merged: number of small files that were replaced.
        written: number of files that replace them.
        files: number of data files afterwards, without those that only older versions have.
    """

    table: str
    merged: int
    written: int
    files: int


def maintain(spark: SparkSession, output: str, *, vacuum_after_hours: int) -> Iterator[TableMaintenance]:
    """Compact and vacuum each table of a history.

    Args:
        spark: the session, with Delta.
        output: directory of the history.
        vacuum_after_hours: files that no version of the last hours has are removed; at least
            VACUUM_AFTER_HOURS.

    Raises:
        HistoryMissingError: the history has no tables.
        SparkJobError: there is no Delta, or the tables are incomplete.
    """
    require_delta(spark)
    spark = spark.newSession()
    # VACUUM starts so many tasks to list a table's files, however few they are: by default 10,000.
    spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.parallelism", _LISTING_TASKS)
    storage = Storage(output)
    if last_publication(storage) is None:
        raise HistoryMissingError(
            f"{storage.shown('')} has no tables: `aclog spark changes --format delta` writes them"
        )
    for table in TABLES:
        name = f"delta.`{table_path(output, table)}`"
        (optimized,) = retried(partial(_collected, spark, f"OPTIMIZE {name}"))
        spark.sql(f"VACUUM {name} RETAIN {vacuum_after_hours} HOURS")
        (detail,) = spark.sql(f"DESCRIBE DETAIL {name}").collect()
        yield TableMaintenance(
            table.name, optimized.metrics.numFilesRemoved, optimized.metrics.numFilesAdded, detail.numFiles
        )


def _collected(spark: SparkSession, statement: str) -> list[Row]:
    return spark.sql(statement).collect()
