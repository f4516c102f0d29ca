"""The count tables as tables of Delta Lake (session.delta).

Each batch is one commit to each table. It replaces the rows of an earlier attempt at the same offsets, so
that a repeated batch, also with another end, is in the table once.

Delta skips a commit whose version of the job's transactions is not above that of the table. The version has
the epoch of the checkpoint's owner, then the number of the commit in this run: so a job that has lost its
checkpoint cannot replace rows of the next owner, and a repeated batch is not skipped.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.jobs.counts.count_files import COUNTS, COUNTS_BY_TIME
from snapshot.jobs.counts.count_rows import AclKind, CountRows, counts_by_kind
from snapshot.jobs.session.delta import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from snapshot.jobs.running.claim import CheckpointClaim

_COMMITS_MAX: Final = 2**32


class DeltaTables:
    """Both tables below ``output``, a URL that Hadoop supports. The owner of a checkpoint writes to them."""

    def __init__(self, spark: SparkSession, output: str, claim: CheckpointClaim) -> None:
        self._spark = spark
        self._claim = claim
        self._versions = count(claim.owner.epoch * _COMMITS_MAX)
        self._output = output.rstrip("/")

    def counts_at(self, cluster_id: str, end: int) -> Mapping[AclKind, int]:
        """The counts of the last batch that ended at ``end`` or before; empty if there is none."""
        counts = self._counts(cluster_id)
        if counts is None:
            return {}
        counts = counts.where(F.col("end_offset") <= end)
        last = counts.agg(F.max("end_offset")).head()
        if last is None or last[0] is None:
            return {}
        return counts_by_kind(counts.where(F.col("end_offset") == last[0]).toArrow())

    def ends(self, cluster_id: str) -> set[int]:
        """The end offsets of all batches, committed or not."""
        counts = self._counts(cluster_id)
        return (
            set() if counts is None else {row[0] for row in counts.select("end_offset").distinct().collect()}
        )

    def append(self, batch: Sequence[CountRows]) -> None:
        """Write the rows of one batch: one commit to each table."""
        again = " OR ".join(
            f"(cluster_id = {_literal(rows.cluster_id)} AND end_offset > {rows.start})" for rows in batch
        )
        for table, columns in ((COUNTS_BY_TIME, "deltas"), (COUNTS, "counts")):
            self._claim.check()
            added = pa.concat_tables([_with_partition(getattr(rows, columns), rows) for rows in batch])
            (
                self._spark.createDataFrame(added)
                .write.format("delta")
                .mode("overwrite")
                .option("replaceWhere", again)
                .option("txnAppId", f"aclog-{self._claim.owner.checkpoint_id}")
                .option("txnVersion", next(self._versions))
                .partitionBy("cluster_id", "date")
                .save(f"{self._output}/{table}")
            )

    def _counts(self, cluster_id: str) -> DataFrame | None:
        """All rows of one cluster; None if there is no table yet."""
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
    """A string literal of Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
