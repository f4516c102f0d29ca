"""The count tables as tables of Delta Lake, where its jars are.

Each batch is one commit to each table. It replaces what an earlier try at the same offsets left, so that a
batch that is done again, also with another end, is in the table once. Delta's txnVersion would keep the first
try, and skip the batch that goes over the same offsets with another end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it

from snapshot.errors import SparkJobError
from snapshot.jobs.counts.count_files import COUNTS, COUNTS_BY_TIME
from snapshot.jobs.counts.count_rows import AclKind, CountRows, counts_by_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

#: How a user says that Spark is to fetch Delta.
PACKAGE: Final = "io.delta:delta-spark_4.2_2.13:4.4.0"

#: Spark's conditions where there is no table at a path.
MISSING: Final = frozenset({"PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE"})

_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
#: What a session needs, from its start.
SESSION_CONF: Final[Mapping[str, str]] = {
    "spark.sql.extensions": _EXTENSION,
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # The log of a small table: Delta's 50 tasks would take longer than the work.
    "spark.databricks.delta.snapshotPartitions": "1",
}


def require_delta(spark: SparkSession) -> None:
    """See that the session can write Delta's tables.

    Raises:
        SparkJobError: it cannot; with the way out.
    """
    extensions = str(spark.conf.get("spark.sql.extensions", "")).split(",")
    if _EXTENSION not in extensions or not _is_loadable(spark, _EXTENSION):
        raise SparkJobError(
            f"this Spark runs without Delta Lake: add --packages {PACKAGE} (under spark-submit also --conf "
            f"{' --conf '.join(f'{key}={value}' for key, value in SESSION_CONF.items())}), or write Parquet"
        )


class DeltaTables:
    """Both tables below ``output``, a URL that Hadoop has a file system for. One job writes to them."""

    def __init__(self, spark: SparkSession, output: str) -> None:
        self._spark = spark
        self._output = output.rstrip("/")

    def counts_at(self, cluster_id: str, end: int) -> Mapping[AclKind, int]:
        """What the last batch that ended at ``end`` or before counted; nothing if there was none."""
        counts = self._counts(cluster_id)
        if counts is None:
            return {}
        counts = counts.where(F.col("end_offset") <= end)
        last = counts.agg(F.max("end_offset")).head()
        if last is None or last[0] is None:
            return {}
        return counts_by_kind(counts.where(F.col("end_offset") == last[0]).toArrow())

    def ends(self, cluster_id: str) -> set[int]:
        """Of all batches that are counted, committed or not."""
        counts = self._counts(cluster_id)
        return (
            set() if counts is None else {row[0] for row in counts.select("end_offset").distinct().collect()}
        )

    def append(self, batch: Sequence[CountRows]) -> None:
        """Write what one batch adds: one commit to each table."""
        again = " OR ".join(
            f"(cluster_id = {_literal(rows.cluster_id)} AND end_offset > {rows.start})" for rows in batch
        )
        for table, columns in ((COUNTS_BY_TIME, "deltas"), (COUNTS, "counts")):
            added = pa.concat_tables([_with_partition(getattr(rows, columns), rows) for rows in batch])
            (
                self._spark.createDataFrame(added)
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", again)
                .partitionBy("cluster_id", "date")
                .save(f"{self._output}/{table}")
            )

    def _counts(self, cluster_id: str) -> DataFrame | None:
        """All rows of one cluster; None where there is no table yet."""
        try:
            counts = self._spark.read.format("delta").load(f"{self._output}/{COUNTS}")
        except AnalysisException as error:
            if error.getCondition() in MISSING:
                return None
            raise
        return counts.where(F.col("cluster_id") == cluster_id)


def _with_partition(table: pa.Table, rows: CountRows) -> pa.Table:
    columns = (("cluster_id", rows.cluster_id, pa.string()), ("date", rows.date, pa.date32()))
    for name, value, kind in columns:
        table = table.append_column(name, pa.array([value] * len(table), kind))
    return table


def _literal(text: str) -> str:
    """As Spark's SQL reads it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _is_loadable(spark: SparkSession, name: str) -> bool:
    jvm: Any = spark._jvm  # noqa: SLF001 - there is no public way to ask for a class
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(f"{name.replace('.', '/')}.class") is not None
