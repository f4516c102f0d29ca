"""The rows of access_changes: an analysis, which the caller provides, of the periods of acl_in_force."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.pandas.types import to_arrow_schema

from records.acl import code_from_name
from records.columns.acl_table import UNKNOWN_OFFSET
from records.columns.acl_table_arrow import from_arrow
from records.ids import UUID_BYTES
from records.principal import WILDCARD_PRINCIPAL
from snapshot.jobs.changes.change_table import CODES, CONTENT
from snapshot.jobs.changes.history import schema_of
from snapshot.jobs.changes.tables.schema import ACCESS_CHANGES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime
    from enum import IntEnum

    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame

    from records.columns.acl_table import AclTable
    from snapshot.jobs.changes.coverage import BrokerLevels

#: The end of a period that has none.
NO_END: Final = int(np.iinfo(np.int64).max)
_OFFSETS: Final = ("valid_from_offset", "valid_to_offset")
_TIMES: Final = ("valid_from_time", "valid_to_time")


class Periods(NamedTuple):
    """ACLs, and the offsets between which each was in force.

    Attributes:
        begins: inclusive; -1: before any offset.
        ends: exclusive, or NO_END.
    """

    table: AclTable
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


class AccessAnalysis(Protocol):
    """Computes what changes of ACLs grant and revoke. Spark sends it to the executors."""

    def configs(self) -> dict[str, str]:
        """The configuration of which the same analysis can be made."""

    def needs_all_principals(self, changed: Collection[str]) -> bool:
        """Whether changed ACLs for these principals may change the answers to any principal."""

    def rows(
        self, periods: Periods, first: int, deferred: Collection[int], levels: Sequence[BrokerLevels]
    ) -> Iterator[dict[str, Any]]:
        """Yield rows of access_changes without cluster_id, topic_id, month and time, from ``first`` on.

        Args:
            periods: of one cluster.
            first: the first offset whose change is analysed.
            deferred: earlier offsets to analyse. One that is analysed has a row ANALYSED, too.
            levels: of the log's brokers.
        """


class ClusterRange(NamedTuple):
    """What is analysed of one cluster.

    Attributes:
        begin: offset of the first new change.
        end: its end.
        levels: of the log's brokers.
        deferred: earlier offsets to analyse.
    """

    begin: int
    end: int
    levels: Sequence[BrokerLevels] = ()
    deferred: frozenset[int] = frozenset()


def access_rows(
    changes: DataFrame, periods: DataFrame, ranges: Mapping[str, ClusterRange], analysis: AccessAnalysis
) -> DataFrame:
    """Rows of access_changes. One task analyses a cluster's range, as one task folds it.

    Args:
        changes: rows of acl_changes, those of the ranges and of the deferred offsets.
        periods: rows of acl_in_force, up to the ends of the ranges.
        ranges: of each cluster.
        analysis: runs on executors.
    """
    periods = periods.where(reduce(or_, map(_overlaps, ranges.items()), F.lit(False)))
    principals = changes.select("cluster_id", F.explode(F.array("principal", "previous.principal")))
    keys = principals.toDF("cluster_id", "principal").where("principal IS NOT NULL").distinct().collect()
    changed = {key.principal for key in keys}
    if not analysis.needs_all_principals(changed):
        relevant = changes.sparkSession.createDataFrame(
            [(each,) for each in sorted(changed | {WILDCARD_PRINCIPAL})], "principal string"
        )
        periods = periods.join(F.broadcast(relevant), "principal", "left_semi")
    schema = to_arrow_schema(schema_of(ACCESS_CHANGES.ddl), timezone="UTC")

    def of_cluster(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        return _analysed(rows, key[0].as_py(), ranges[key[0].as_py()], analysis, schema)

    columns = ("cluster_id", "topic_id", *CONTENT, *_OFFSETS, *_TIMES)
    return periods.select(*columns).groupBy("cluster_id").applyInArrow(of_cluster, ACCESS_CHANGES.ddl)


def _overlaps(cluster_range: tuple[str, ClusterRange]) -> Column:
    """Whether a period includes an analysed state, or the one before it."""
    cluster_id, (begin, end, _, deferred) = cluster_range
    if deferred:
        begin, end = min(deferred), max(end, *deferred) if end > begin else max(deferred) + 1
    begins, ends = map(F.col, _OFFSETS)
    return (
        (F.col("cluster_id") == cluster_id)
        & (begins.isNull() | (begins < end))
        & (ends.isNull() | (ends >= begin))
    )


def _analysed(
    rows: pa.Table, cluster_id: str, cluster_range: ClusterRange, analysis: AccessAnalysis, schema: pa.Schema
) -> pa.Table:
    """The rows of one cluster's range."""
    begins, ends = (
        pc.fill_null(rows.column(name), absent).to_numpy()
        for name, absent in zip(_OFFSETS, (UNKNOWN_OFFSET, NO_END), strict=True)
    )
    begin, _, levels, deferred = cluster_range
    times = dict(_times(rows))
    topic_id = rows.column("topic_id")[0].as_py()
    found = []
    for row in analysis.rows(Periods(_acl_table(rows), begins, ends), begin, deferred, levels):
        time = times[row["offset"]]
        found.append(
            {**row, "cluster_id": cluster_id, "topic_id": topic_id, "time": time, "month": f"{time:%Y-%m}"}
        )
    return pa.Table.from_pylist(found, schema)


def _times(rows: pa.Table) -> Iterator[tuple[int, datetime]]:
    """The time of each offset at which an ACL began or ended."""
    for offset, time in zip(_OFFSETS, _TIMES, strict=True):
        latest = rows.group_by(offset).aggregate([(time, "max")])
        yield from zip(
            latest.column(offset).to_pylist(), latest.column(f"{time}_max").to_pylist(), strict=True
        )


def _acl_table(rows: pa.Table) -> AclTable:
    columns: dict[str, Any] = {
        name: _codes(rows.column(name), CODES[name]) if name in CODES else rows.column(name)
        for name in CONTENT
    }
    numbers = pa.chunked_array([pa.repeat(pa.scalar(0, pa.int64()), len(rows))])
    # The analysis compares contents; ids, offsets and times have no meaning here.
    ids = pa.chunked_array([pa.repeat(pa.scalar(bytes(UUID_BYTES), pa.binary(UUID_BYTES)), len(rows))])
    return from_arrow({**columns, "id": ids, "offset": numbers, "timestamp_ms": numbers})


def _codes(names: pa.ChunkedArray, kind: type[IntEnum]) -> pa.ChunkedArray:
    """The codes of names; see records.acl."""
    encoded = names.combine_chunks().dictionary_encode()
    codes = pa.array([code_from_name(kind, name) for name in encoded.dictionary.to_pylist()], pa.int8())
    return pa.chunked_array([codes.take(encoded.indices)])
