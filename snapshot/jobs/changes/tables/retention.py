"""Retention of a history's tables: deletes rows of changes before a time that no later state needs.

Queries of states and periods from that time on have the same rows as before. For each cluster the last change
before it remains, as the offset of the state at that time, and the last count of each kind.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from snapshot.jobs.changes.tables.delta_tables import quoted, table_path
from snapshot.jobs.changes.tables.schema import ACL_CHANGES, ACL_COUNTS, ACL_IN_FORCE, KIND, Table


class Retention:
    """What a history's tables need not keep: states before the time ``before``."""

    def __init__(self, spark: SparkSession, output: str, before: datetime) -> None:
        self._spark = spark
        self._output = output
        self._before = f"timestamp_micros({round(before.timestamp() * 1_000_000)})"

    def rows(self, table: Table) -> DataFrame:
        """The rows that can be deleted."""
        rows = self._rows_of(table).where(self._condition(table))
        if table is not ACL_COUNTS:
            return rows
        later = self._rows_of(table).where(self._by_cluster("offset <= {}"))
        last = later.groupBy("cluster_id", *KIND).agg({"offset": "max"})
        return rows.join(last, ["cluster_id", *KIND]).where("offset < `max(offset)`").drop("max(offset)")

    def delete(self, table: Table) -> None:
        name = f"delta.`{table_path(self._output, table)}`"
        if table is not ACL_COUNTS:
            statement = f"DELETE FROM {name} WHERE {self._condition(table)}"  # noqa: S608 - literals are quoted
            self._spark.sql(statement)
            return
        self.rows(table).createOrReplaceTempView("aclog_deleted")
        keys = ("cluster_id", "month", *KIND, "offset")
        condition = " AND ".join(f"counted.{key} = deleted.{key}" for key in keys)
        self._spark.sql(
            f"MERGE INTO {name} AS counted USING aclog_deleted AS deleted ON {condition} "
            "WHEN MATCHED THEN DELETE"
        )

    def _condition(self, table: Table) -> str:
        if table is ACL_IN_FORCE:
            return f"valid_to_time <= {self._before} AND {self._by_cluster('valid_to_offset <= {}')}"
        return f"time < {self._before} AND {self._by_cluster('offset < {}')}"

    def _by_cluster(self, condition: str) -> str:
        """A condition on the offset of each cluster's state at the time; false for clusters without one."""
        of_clusters = (
            f"cluster_id = {quoted(cluster_id)} AND {condition.format(offset)}"
            for cluster_id, offset in self._offsets.items()
        )
        return f"({' OR '.join(of_clusters) or 'false'})"

    @cached_property
    def _offsets(self) -> dict[str, int]:
        """The offset of each cluster's state at the time, as in sql.py."""
        known = self._rows_of(ACL_CHANGES).select("cluster_id", "offset", "time")
        known = known.union(self._rows_of(ACL_COUNTS).select("cluster_id", "offset", "time"))
        last = known.where(f"time <= {self._before}").groupBy("cluster_id").agg({"offset": "max"})
        return dict(map(tuple, last.collect()))

    def _rows_of(self, table: Table) -> DataFrame:
        return self._spark.read.format("delta").load(table_path(self._output, table))
