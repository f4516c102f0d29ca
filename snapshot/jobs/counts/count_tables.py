"""The committed rows of the count tables as DataFrames, and their aggregation by time windows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.errors import SparkJobError
from snapshot.jobs.counts.count_files import COUNTS, COUNTS_BY_TIME, state_store
from snapshot.jobs.counts.count_rows import MINUTE_MS, AclKind
from snapshot.jobs.session.delta import MISSING
from snapshot.store.snapshot_store import SnapshotStore

TableFormat = Literal["parquet", "delta"]

_KINDS: Final = AclKind._fields
_KIND: Final = ", ".join(f"{name} string" for name in _KINDS)
_PARTITION: Final = "cluster_id string, date date"
COUNTS_DDL: Final = f"end_offset long, time timestamp, {_KIND}, count long, {_PARTITION}"
DELTAS_DDL: Final = f"end_offset long, minute timestamp, {_KIND}, delta long, {_PARTITION}"


def read_counts(spark: SparkSession, output: str, table_format: TableFormat = "parquet") -> DataFrame:
    """The number of ACLs of each kind at the end of every batch; 0 once all of a kind are removed.

    Raises:
        SnapshotError: the store of the states cannot be read.
    """
    return _committed(spark, output, COUNTS, COUNTS_DDL, table_format).select(
        "cluster_id", "date", "end_offset", "time", *_KINDS, "count"
    )


def read_count_deltas(spark: SparkSession, output: str, table_format: TableFormat = "parquet") -> DataFrame:
    """The changes of the counts by the records of each minute; a minute may have rows of several batches.

    Raises:
        SnapshotError: the store of the states cannot be read.
    """
    return _committed(spark, output, COUNTS_BY_TIME, DELTAS_DDL, table_format).select(
        "cluster_id", "date", "end_offset", "minute", *_KINDS, "delta"
    )


def by_window(deltas: DataFrame, window: timedelta, by: Sequence[str] = _KINDS) -> DataFrame:
    """The deltas of each window in which a count changed; ``last_minute`` is that of the last change.

    Raises:
        SparkJobError: the window is not a multiple of a minute.
    """
    window_ms = round(window.total_seconds() * 1000)
    if window_ms < MINUTE_MS or window_ms % MINUTE_MS:
        raise SparkJobError(f"counts are stored by the minute: choose a multiple of one, not {window}")
    windows = F.window("minute", f"{window_ms // 1000} seconds")
    changed = deltas.groupBy("cluster_id", windows.alias("window"), *by).agg(
        F.max("minute").alias("last_minute"), F.sum("delta").alias("delta")
    )
    return changed.where("delta != 0").select(
        "cluster_id",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "last_minute",
        *by,
        "delta",
    )


def _committed(
    spark: SparkSession, output: str, table: str, ddl: str, table_format: TableFormat
) -> DataFrame:
    """The rows of one table up to the newest stored state of each cluster."""
    ends = sorted(SnapshotStore(state_store(output)).newest_complete_ends().items())
    rows = _rows(spark, f"{output.rstrip('/')}/{table}", ddl, table_format) if ends else None
    if rows is None:
        return spark.createDataFrame([], ddl)
    committed = F.broadcast(spark.createDataFrame(ends, "cluster_id string, committed_end long"))
    return rows.join(committed, "cluster_id").where("end_offset <= committed_end").drop("committed_end")


def _rows(spark: SparkSession, path: str, ddl: str, table_format: TableFormat) -> DataFrame | None:
    """All rows, or None if there is no table yet."""
    try:
        if table_format == "delta":
            return spark.read.format("delta").load(path)
        # With an explicit schema: otherwise a numeric cluster id would become a number.
        rows = spark.read.schema(ddl).parquet(path)
    except AnalysisException as error:
        if error.getCondition() in MISSING:
            return None
        raise
    # Spark decodes each %XX of a partition's name as one character; it is one byte of UTF-8.
    return rows.withColumn("cluster_id", F.decode(F.encode("cluster_id", "ISO-8859-1"), "UTF-8"))
