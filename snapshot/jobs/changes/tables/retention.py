"""Retention of a history's tables: deletes rows of changes before a time that no later state needs.

Queries of states and periods from that time on have the same rows as before. For each cluster the last change
before it remains, as the offset of the state at that time, and the last count of each kind. acl_coverage says
so before the first row is deleted: a killed retention leaves rows that nobody counts on, and the next one
deletes them.
"""

from __future__ import annotations

from datetime import datetime
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.jobs.changes.tables.delta_tables import quoted, table_path
from snapshot.jobs.changes.tables.schema import (
    ACL_CHANGES,
    ACL_COUNTS,
    ACL_COVERAGE,
    ACL_IN_FORCE,
    KIND,
    TABLES,
    Table,
)


class Retention:
    """What a history's tables need not keep: states before the time ``before``."""

    def __init__(self, spark: SparkSession, output: str, before: datetime) -> None:
        self._spark = spark
        self._output = output
        self._before = f"timestamp_micros({round(before.timestamp() * 1_000_000)})"

    def rows(self, table: Table) -> DataFrame:
        if table is ACL_COVERAGE:
            return self._rows_of(table).limit(0)
        rows = self._rows_of(table).where(self._condition(table))
        if table is not ACL_COUNTS:
            return rows
        later = self._rows_of(table).where(self._by_cluster("offset <= {}"))
        last = later.groupBy("cluster_id", *KIND).agg({"offset": "max"})
        return rows.join(last, ["cluster_id", *KIND]).where("offset < `max(offset)`").drop("max(offset)")

    def put_begin(self) -> None:
        """Store in acl_coverage that the tables are complete only from the states at the time on.

        Only for clusters with rows that can be deleted.
        """
        names = {
            row.cluster_id
            for table in TABLES
            for row in self.rows(table).select("cluster_id").distinct().collect()
        }
        begins = [
            (cluster_id, offset + 1, time_us)
            for cluster_id, (offset, time_us) in self._states.items()
            if cluster_id in names
        ]
        if not begins:
            return
        schema = "cluster_id string, begin_offset long, begin_us long"
        self._spark.createDataFrame(begins, schema).createOrReplaceTempView("aclog_begins")
        name = f"delta.`{table_path(self._output, ACL_COVERAGE)}`"
        self._spark.sql(
            f"MERGE INTO {name} AS known USING aclog_begins AS found "
            "ON known.cluster_id = found.cluster_id AND known.begin_offset < found.begin_offset "
            "WHEN MATCHED THEN UPDATE SET begin_offset = found.begin_offset, "
            "begin_time = timestamp_micros(found.begin_us)"
        )

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
            for cluster_id, (offset, _) in self._states.items()
        )
        return f"({' OR '.join(of_clusters) or 'false'})"

    @cached_property
    def _states(self) -> dict[str, tuple[int, datetime]]:
        """The offset of each cluster's state at the time, as in sql.py, and its time in microseconds."""
        known = self._rows_of(ACL_CHANGES).select("cluster_id", "offset", "time")
        known = known.union(self._rows_of(ACL_COUNTS).select("cluster_id", "offset", "time"))
        of_clusters = known.where(f"time <= {self._before}").groupBy("cluster_id")
        last = of_clusters.agg(F.max("offset"), F.max_by(F.unix_micros("time"), "offset")).collect()
        return {cluster_id: (offset, time_us) for cluster_id, offset, time_us in last}

    def _rows_of(self, table: Table) -> DataFrame:
        return self._spark.read.format("delta").load(table_path(self._output, table))
