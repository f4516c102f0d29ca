"""The rows of the tables, computed from a range of a history."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from snapshot.jobs.changes.change_table import CONTENT
from snapshot.jobs.changes.tables.schema import ACL_CHANGES, ACL_COUNTS, ACL_IN_FORCE, KIND, UNKNOWN_MONTH

_PERIOD: Final = ("cluster_id", "topic_id", "id", *CONTENT, "valid_from_offset", "valid_from_time")


def change_rows(changes: DataFrame) -> DataFrame:
    """Rows of acl_changes; ``changes`` has cluster_id and folding.schema.CHANGE."""
    before = [F.col(f"before.{name}") for name in CONTENT]
    since = [
        F.col("before.offset").alias("valid_from_offset"),
        F.timestamp_millis("before.timestamp_ms").alias("valid_from_time"),
    ]
    time = F.timestamp_millis("timestamp_ms")
    return changes.select(
        "cluster_id",
        _month(time).alias("month"),
        "topic_id",
        "offset",
        time.alias("time"),
        "change",
        _id_text("id").alias("id"),
        *(F.coalesce(f"after.{name}", f"before.{name}").alias(name) for name in CONTENT),
        F.when(F.col("before").isNotNull(), F.struct(*before, *since)).alias("previous"),
    ).select(*ACL_CHANGES.names)


def period_rows(changes: DataFrame, intervals: DataFrame | None) -> DataFrame:
    """Rows of acl_in_force: the periods that changes begin or end, and the given ones.

    Args:
        changes: as for change_rows, of a range.
        intervals: rows of history.INTERVAL in force at the range's start, if the table has none yet.
    """
    begun, ended = (
        changes.where(F.col(side).isNotNull()).select(
            "cluster_id",
            "topic_id",
            "id",
            *(F.col(f"{side}.{name}") for name in CONTENT),
            F.col(f"{side}.offset").alias("valid_from_offset"),
            F.timestamp_millis(f"{side}.timestamp_ms").alias("valid_from_time"),
            (F.col("offset") if side == "before" else F.lit(None).cast("long")).alias("valid_to_offset"),
            (F.timestamp_millis("timestamp_ms") if side == "before" else F.lit(None).cast("timestamp")).alias(
                "valid_to_time"
            ),
        )
        for side in ("after", "before")
    )
    rows = begun.unionByName(ended)
    if intervals is not None:
        still = {"valid_to_offset": F.lit(None).cast("long"), "valid_to_time": F.lit(None).cast("timestamp")}
        rows = rows.unionByName(intervals.withColumns(still))
    periods = rows.groupBy(*_PERIOD).agg(
        F.max("valid_to_offset").alias("valid_to_offset"), F.max("valid_to_time").alias("valid_to_time")
    )
    columns = {"id": _id_text("id"), "month": _month(F.col("valid_from_time"))}
    return periods.withColumns(columns).select(*ACL_IN_FORCE.names)


def count_rows(changes: DataFrame, intervals: DataFrame | None, counts: DataFrame | None) -> DataFrame:
    """Rows of acl_counts, for ``changes`` as of change_rows.

    ``intervals`` as for period_rows, with ``begin_offset`` and ``begin_time``; they count at the offset
    before. ``counts``: the rows of the table below the range; None if it has none.
    """
    deltas = [
        changes.where(F.col(side).isNotNull()).select(
            "cluster_id",
            "offset",
            F.timestamp_millis("timestamp_ms").alias("time"),
            *(F.col(f"{side}.{name}") for name in KIND),
            F.lit(delta).cast("long").alias("delta"),
        )
        for side, delta in (("before", -1), ("after", 1))
    ]
    rows = deltas[0].unionByName(deltas[1])
    if intervals is not None:
        first = (F.col("begin_offset") - 1).alias("offset")
        one = F.lit(1).cast("long").alias("delta")
        rows = rows.unionByName(
            intervals.select("cluster_id", first, F.col("begin_time").alias("time"), *KIND, one)
        )
    of_kind = ("cluster_id", *KIND)
    rows = rows.groupBy(*of_kind, "offset").agg(F.max("time").alias("time"), F.sum("delta").alias("delta"))
    rows = rows.where("delta != 0")
    until = Window.partitionBy(*of_kind).orderBy("offset")
    rows = rows.withColumn("count", F.sum("delta").over(until))
    if counts is not None:
        known = counts.groupBy(*of_kind).agg(F.max_by("count", "offset").alias("known"))
        rows = rows.join(known, list(of_kind), "left")
        rows = rows.withColumn("count", F.col("count") + F.coalesce("known", F.lit(0)))
    return rows.withColumn("month", _month(F.col("time"))).select(*ACL_COUNTS.names)


def _month(time: Column) -> Column:
    return F.coalesce(F.date_format(time, "yyyy-MM"), F.lit(UNKNOWN_MONTH))


def _id_text(name: str) -> Column:
    """Kafka's text of an id: Base64 for URLs, without padding."""
    return F.translate(F.base64(F.col(name)), "+/=", "-_")
