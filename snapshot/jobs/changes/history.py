"""Queries of a history (changes_job.py): ACLs in force at an offset or a time, changes between two.

    intervals   a row for each period in which an ACL was in force under one id with one content: from
                valid_from_offset on, before valid_to_offset, which is null while in force. Ended ones are in
                OUTPUT/intervals, the others are the ACLs of the newest state in OUTPUT/state
    changes     a row for each change, of OUTPUT/changes

Only committed rows count: offsets below the end of the newest state. ``at_offset`` N is the state after the
record at N, as for `aclog check --at-offset`. Times are those of the log's records: the state at a time is
the one after the last change whose record is not later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import DataType, StructType

from records.acl import WILDCARD, PatternType, code_to_name
from snapshot.errors import HistoryMissingError, HistoryRangeError
from snapshot.jobs.changes.change_files import CHANGES, INTERVALS, cluster_path, state_url
from snapshot.jobs.changes.change_table import CODES
from snapshot.jobs.changes.coverage import Coverage, covered_clusters, find_history
from snapshot.jobs.folding.schema import CHANGE
from snapshot.store.storage import Storage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from enum import IntEnum

    from pyspark.sql import Column, SparkSession

    from snapshot.store.manifest import ChangePart, SnapshotManifest, SnapshotPart

#: Rows of intervals. Times are those of the records that start and end them.
INTERVAL: Final = (
    "cluster_id string, topic_id string, id binary, resource_type string, resource_name string, "
    "pattern_type string, principal string, host string, operation string, permission_type string, "
    "valid_from_offset long, valid_to_offset long, valid_from_time timestamp, valid_to_time timestamp"
)
# A part of a stored state (snapshot.store.parquet).
_PART: Final = (
    "id binary, resource_type tinyint, resource_name string, pattern_type tinyint, principal string, "
    "host string, operation tinyint, permission_type tinyint, offset long, timestamp_ms long"
)
_PATTERN: Final = ("resource_type", "resource_name", "pattern_type")
_ENTRY: Final = ("principal", "operation", "permission_type", "host")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows of a query, and the range of offsets that they cover.

    Attributes:
        rows: lazy. Compute them soon, because the job that writes the history removes old states.
        after_offset: for changes, the exclusive lower bound of their offsets; None for ACLs in force.
        at_offset: the last offset that counts; -1: none.
    """

    rows: DataFrame
    after_offset: int | None = None
    at_offset: int
    notes: tuple[str, ...] = ()


class History:
    """The history of one log, as committed when this object was created.

    Attributes:
        coverage: the log, and where the history begins.
        manifest: of the newest state, where the history ends.
    """

    def __init__(
        self, spark: SparkSession, output: str, coverage: Coverage, manifest: SnapshotManifest
    ) -> None:
        self.coverage = coverage
        self.manifest = manifest
        self._spark = spark
        self._output = output.rstrip("/")

    @classmethod
    def open(cls, spark: SparkSession, output: str, cluster_id: str | None = None) -> History:
        """Open the history of this cluster's log, or the only one.

        Raises:
            HistoryMissingError: see find_history.
            SnapshotError: see find_history.
        """
        return cls(spark, output, *find_history(output, cluster_id))

    @property
    def end(self) -> int:
        """One past the last offset of the history."""
        return self.manifest.provenance.end_offset

    @property
    def known_until_ms(self) -> int:
        """The time, since the epoch, up to which the history is complete."""
        return max(self.manifest.log_end_time_ms, self.manifest.provenance.timestamp_ms)

    def in_force(self, *, at_offset: int | None = None, at_time: datetime | None = None) -> Answer:
        """The ACLs in force after the record at an offset, or at a time; default: at the end.

        Rows of INTERVAL, sorted by pattern, then entry, then id.

        Raises:
            HistoryRangeError: outside of the history; the text says what it covers.
            ValueError: both are given, or a time without a time zone.
        """
        if at_offset is not None and at_time is not None:
            raise ValueError("give an offset or a time, not both")
        offset = self._offset(at_offset if at_time is None else at_time, self.end - 1)
        notes = self._notes(self.coverage.is_coarse(offset + 1))
        rows = in_force_at(self.intervals(), offset).orderBy(*_PATTERN, *_ENTRY, "id")
        return Answer(rows=rows, at_offset=offset, notes=notes)

    def changed(self, *, after: int | datetime | None = None, until: int | datetime | None = None) -> Answer:
        """The changes after one offset or time up to another: rows of CHANGE, sorted by (offset, id).

        Args:
            after: exclusive; default: the history's beginning.
            until: inclusive; default: the history's end.

        Raises:
            HistoryRangeError: outside of the history, or ``until`` is before ``after``.
            ValueError: a time without a time zone.
        """
        after_offset = self._offset(after, self.coverage.begin_offset - 1)
        until_offset = self._offset(until, self.end - 1)
        if until_offset < after_offset:
            raise HistoryRangeError(
                f"the range is empty: it ends at offset {until_offset}, before {after_offset}"
            )
        rows = self.changes().where((F.col("offset") > after_offset) & (F.col("offset") <= until_offset))
        notes = self._notes(self.coverage.has_coarse(after_offset + 1, until_offset + 1))
        return Answer(
            rows=rows.orderBy("offset", "id"), after_offset=after_offset, at_offset=until_offset, notes=notes
        )

    def changes(self) -> DataFrame:
        """All changes: rows of ``cluster_id`` and CHANGE."""
        rows = self._covered(self._read(CHANGES, _struct(CHANGE)), "offset")
        return rows.select(self._cluster(), *_struct(CHANGE).names)

    def intervals(self) -> DataFrame:
        """All intervals, including those without an end: rows of INTERVAL."""
        schema = schema_of(INTERVAL)
        ended = self._read(INTERVALS, StructType([field for field in schema if field.name != "cluster_id"]))
        ended = self._covered(ended, "valid_to_offset")
        return ended.select(self._cluster(), *schema.names[1:]).unionByName(self._open())

    def _covered(self, rows: DataFrame, offset: str) -> DataFrame:
        """The rows of committed batches, without those that a killed retention has left."""
        return rows.where((F.col(offset) >= self.coverage.begin_offset) & (F.col(offset) < self.end))

    def _open(self) -> DataFrame:
        """The intervals without an end: the ACLs of the newest state."""
        parts, schema = self.manifest.parts, schema_of(INTERVAL)
        if not parts:
            return self._spark.createDataFrame([], schema)
        acls = self._read_state(parts)
        changes = [part.changes for part in parts if part.changes is not None]
        if changes:
            changed = self._read_state(changes)
            unchanged = acls.join(changed.select("id"), "id", "left_anti")
            # A removed row has only its id.
            acls = unchanged.unionByName(changed.where(F.col("resource_type").isNotNull()))
        columns = {
            "cluster_id": self._cluster(),
            "topic_id": F.lit(self.coverage.topic_id),
            **{name: _named(name, kind) for name, kind in CODES.items()},
            "valid_from_offset": F.col("offset"),
            "valid_to_offset": F.lit(None).cast("long"),
            "valid_from_time": F.timestamp_millis("timestamp_ms"),
            "valid_to_time": F.lit(None).cast("timestamp"),
        }
        return acls.select(*(columns.get(name, F.col(name)).alias(name) for name in schema.names))

    def _read_state(self, files: Sequence[SnapshotPart | ChangePart]) -> DataFrame:
        ref = self.manifest.ref
        paths = [f"{state_url(self._output)}/{ref.file(file.name)}" for file in files]
        return self._spark.read.schema(_PART).parquet(*paths)

    def _read(self, table: str, schema: StructType) -> DataFrame:
        path = cluster_path(table, self.coverage.cluster_id)
        if not Storage(self._output).directories(path):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(f"{self._output}/{path}")

    def _cluster(self) -> Column:
        return F.lit(self.coverage.cluster_id).alias("cluster_id")

    def _offset(self, position: int | datetime | None, default: int) -> int:
        """The last offset that counts at an offset or a time."""
        if position is None:
            return default
        if isinstance(position, datetime):
            return self._offset_at(position)
        begin = self.coverage.begin_offset
        if position >= self.end:
            raise HistoryRangeError(
                f"offset {position} is not in the history yet: its last one is {self.end - 1}"
            )
        if position < begin - 1:
            raise HistoryRangeError(
                f"offset {position} is not in the history, which begins with the state at {begin - 1}"
            )
        return position

    def _offset_at(self, time: datetime) -> int:
        """The offset of the last change whose record is not later than ``time``."""
        time_ms = (time - _EPOCH) // timedelta(milliseconds=1) if time.tzinfo is not None else None
        if time_ms is None:
            raise ValueError(f"{time} has no time zone")
        if time_ms > self.known_until_ms:
            raise HistoryRangeError(
                f"the history ends at {_shown(self.known_until_ms)}, before {_shown(time_ms)}: run the job "
                "again"
            )
        not_later = self.changes().where(F.col("timestamp_ms") <= time_ms)
        (found,) = not_later.agg(F.max("offset").alias("offset")).collect()
        if found.offset is not None:
            return int(found.offset)
        begin = self.coverage
        if begin.begin_offset and time_ms < begin.begin_time_ms:
            raise HistoryRangeError(
                f"the history begins with the state at {_shown(begin.begin_time_ms)}, after {_shown(time_ms)}"
            )
        return begin.begin_offset - 1

    def _notes(self, is_coarse: bool) -> tuple[str, ...]:
        if not is_coarse:
            return ()
        text = (
            "the log is compacted, and this range was read after it was written: changes may be missing, and "
            "ACLs may appear to start later than they did"
        )
        return (text,)


def changes(spark: SparkSession, output: str) -> DataFrame:
    """All changes of all clusters: rows of ``cluster_id`` and CHANGE.

    Raises:
        HistoryMissingError: there is none.
        SnapshotError: the output cannot be read, or is damaged.
    """
    return reduce(DataFrame.unionByName, [history.changes() for history in _all(spark, output)])


def intervals(spark: SparkSession, output: str) -> DataFrame:
    """All intervals of all clusters: rows of INTERVAL.

    Raises:
        HistoryMissingError: there is none.
        SnapshotError: the output cannot be read, or is damaged.
    """
    return reduce(DataFrame.unionByName, [history.intervals() for history in _all(spark, output)])


def in_force_at(rows: DataFrame, offset: int | Column) -> DataFrame:
    """Filter intervals that contain the state after the record at ``offset``, which may be a column."""
    has_started = F.col("valid_from_offset").isNull() | (F.col("valid_from_offset") <= offset)
    has_not_ended = F.col("valid_to_offset").isNull() | (F.col("valid_to_offset") > offset)
    return rows.where(has_started & has_not_ended)


def of_id(rows: DataFrame, acl_id: bytes) -> DataFrame:
    """Filter intervals or changes by the ACL's id."""
    return rows.where(F.col("id") == F.lit(bytearray(acl_id)))


def of_principal(rows: DataFrame, principal: str) -> DataFrame:
    """Filter intervals or changes whose ACL, before or after, names exactly this principal."""
    return _where_acl(rows, lambda field: field("principal") == principal)


def of_resource(rows: DataFrame, resource_type: str, name: str, pattern_type: str | None = None) -> DataFrame:
    """Filter rows whose ACL, before or after, has exactly this pattern; None: either pattern type."""
    return _where_acl(
        rows,
        lambda field: (
            (field("resource_type") == resource_type)
            & (field("resource_name") == name)
            & (F.lit(True) if pattern_type is None else field("pattern_type") == pattern_type)
        ),
    )


def covering_resource(rows: DataFrame, resource_type: str, name: str) -> DataFrame:
    """Filter rows whose ACL, before or after, covers this resource: by name, prefix or ``*``."""

    def covers(field: Callable[[str], Column]) -> Column:
        is_literal = (field("pattern_type") == PatternType.LITERAL.name) & field("resource_name").isin(
            name, WILDCARD
        )
        is_prefix = (field("pattern_type") == PatternType.PREFIXED.name) & F.startswith(
            F.lit(name), field("resource_name")
        )
        return (field("resource_type") == resource_type) & (is_literal | is_prefix)

    return _where_acl(rows, covers)


def _where_acl(rows: DataFrame, condition: Callable[[Callable[[str], Column]], Column]) -> DataFrame:
    """Filter by a condition on the ACL's fields: of intervals, or of ``before`` or ``after`` of changes."""
    if "before" not in rows.columns:
        return rows.where(condition(F.col))
    before = condition(lambda name: F.col(f"before.{name}"))
    after = condition(lambda name: F.col(f"after.{name}"))
    return rows.where(F.coalesce(before, F.lit(False)) | F.coalesce(after, F.lit(False)))


def _all(spark: SparkSession, output: str) -> Sequence[History]:
    storage = Storage(output)
    found = [History.open(spark, output, cluster_id) for cluster_id in covered_clusters(storage)]
    if not found:
        raise HistoryMissingError(f"{storage.shown('')} holds no history: `aclog spark changes` writes one")
    return found


def _named(column: str, kind: type[IntEnum]) -> Column:
    """Names for codes, as in records.acl."""
    names = F.create_map(*(F.lit(each) for code in kind for each in (int(code), code_to_name(kind, code))))
    code = F.col(column).cast("int")
    return F.coalesce(names[code], code.cast("string"))


def _struct(fields: str) -> StructType:
    schema = DataType.fromDDL(f"struct<{fields}>")
    assert isinstance(schema, StructType)
    return schema


def schema_of(fields: str) -> StructType:
    """The schema of columns in Spark's SQL."""
    schema = DataType.fromDDL(fields)
    assert isinstance(schema, StructType)
    return schema


def _shown(time_ms: int) -> str:
    return (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
