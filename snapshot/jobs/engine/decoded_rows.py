"""The records of some SOURCE rows as DECODED rows, in Arrow, each as if it counted from its own offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from records.columns.acl_table import COLUMNS
from records.columns.arrow import to_arrow
from records.columns.record_table import RecordTable
from records.columns.values import Values
from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError
from records.ids import UUID_BYTES
from records.log.topic.message import decode_message
from snapshot.jobs.engine.schema import DECODED_ARROW, KIND_ACL, KIND_FEATURE, KIND_REMOVAL
from snapshot.jobs.engine.sharding import shards_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from records.transactions import Marker

    _Ints = npt.NDArray[np.int64]


class DecodedRows:
    """What the rows of one log say.

    Attributes:
        rows: DECODED, in offset order; ``offsets``: of these.
        markers: the beginnings and ends of metadata transactions, with their offsets, in order.

    Raises:
        DecodeError: a record that cannot be decoded.
    """

    def __init__(self, batch: pa.RecordBatch, shards: int, source: str) -> None:
        """``batch``: SOURCE rows of one log, one at least; ``source``: names the log in errors."""
        self.markers: list[tuple[int, Marker]] = []
        self._shards = shards
        self._cluster_id, self._topic_id = batch.column("cluster_id")[0], batch.column("topic_id")[0]
        self._all_offsets = _ints(batch.column("offset"))
        self._timestamps_ms = _ints(batch.column("timestamp").cast(pa.int64())) // 1000
        keys, values = (batch.column(name).cast(pa.binary()) for name in ("key", "value"))
        table = RecordTable(
            Values.of_arrow(values), self._all_offsets, self._timestamps_ms, keys=Values.of_arrow(keys)
        )
        # Row numbers, and what stands in these rows.
        self._parts: list[tuple[_Ints, pa.RecordBatch]] = []
        self._add_plain(table)
        self._add_others(table.unread.tolist(), keys, values, source)
        if len(self._parts) == 1:
            numbers, self.rows = self._parts[0]
        else:
            numbers = np.concatenate([np.zeros(0, np.int64), *(numbers for numbers, _ in self._parts)])
            order = np.argsort(numbers)
            numbers = numbers[order]
            none = pa.RecordBatch.from_pylist([], DECODED_ARROW)
            self.rows = pa.concat_batches([none, *(part for _, part in self._parts)]).take(
                _column(pa.int64(), order)
            )
        self.offsets = self._all_offsets[numbers]

    def _add_plain(self, plain: RecordTable) -> None:
        if len(plain.acls):
            rows = to_arrow(plain.table)
            self._add(KIND_ACL, plain.acls, plain.table.ids, {name: rows.column(name) for name in COLUMNS})
        if len(plain.removals):
            self._add(KIND_REMOVAL, plain.removals, plain.removal_ids, {})

    def _add_others(self, numbers: list[int], keys: Any, values: Any, source: str) -> None:
        acls: list[tuple[int, AccessControlEntryRecord]] = []
        removals: list[tuple[int, RemoveAccessControlEntryRecord]] = []
        features: list[tuple[int, FeatureLevelRecord]] = []
        for number in numbers:
            offset = int(self._all_offsets[number])
            try:
                record = decode_message(keys[number].as_py(), values[number].as_py())
            except DecodeError as error:
                raise error.located(source=source, offset=offset) from error
            match record:
                case AccessControlEntryRecord():
                    acls.append((number, record))
                case RemoveAccessControlEntryRecord():
                    removals.append((number, record))
                case FeatureLevelRecord():
                    features.append((number, record))
                case BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord():
                    self.markers.append((offset, record))
        if acls:
            columns = {
                name: pa.array([getattr(acl, name) for _, acl in acls], DECODED_ARROW.field(name).type)
                for name in COLUMNS
            }
            self._add(KIND_ACL, _numbers(acls), b"".join(acl.id for _, acl in acls), columns)
        if removals:
            ids = b"".join(removal.id for _, removal in removals)
            self._add(KIND_REMOVAL, _numbers(removals), ids, {})
        if features:
            columns = {
                "resource_name": pa.array([feature.name for _, feature in features]),
                "feature_level": pa.array([feature.level for _, feature in features], pa.int32()),
            }
            self._add(KIND_FEATURE, _numbers(features), None, columns)

    def _add(self, kind: int, numbers: _Ints, ids: bytes | None, columns: dict[str, Any]) -> None:
        """Rows of one kind; the columns that are neither given nor made here are null."""
        count = len(numbers)
        if ids is None:
            columns["shard"] = pa.repeat(pa.scalar(0, pa.int32()), count)
        else:
            columns["shard"] = _column(pa.int32(), shards_of(ids, self._shards))
            places = np.arange(count + 1, dtype=np.int32) * UUID_BYTES
            buffers = [None, pa.py_buffer(places), pa.py_buffer(ids)]
            columns["id"] = pa.Array.from_buffers(pa.binary(), count, buffers)
        columns["cluster_id"] = pa.repeat(self._cluster_id, count)
        columns["topic_id"] = pa.repeat(self._topic_id, count)
        columns["kind"] = pa.repeat(pa.scalar(kind, pa.int8()), count)
        columns["offset"] = columns["applied_offset"] = _column(pa.int64(), self._all_offsets[numbers])
        columns["timestamp_ms"] = _column(pa.int64(), self._timestamps_ms[numbers])
        for field in DECODED_ARROW:
            columns.setdefault(field.name, pa.nulls(count, field.type))
        rows = pa.RecordBatch.from_arrays(
            [columns[name] for name in DECODED_ARROW.names], schema=DECODED_ARROW
        )
        self._parts.append((numbers, rows))


def _numbers(numbered: Sequence[tuple[int, Any]]) -> _Ints:
    return np.array([number for number, _ in numbered], np.int64)


def _ints(column: Any) -> _Ints:
    """A column of int64 without nulls."""
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def _column(kind: Any, values: npt.NDArray[Any]) -> Any:
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
