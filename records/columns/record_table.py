"""RecordTable: many records of one log, in order, the ACLs among them as a table. Pure.

    row       0     1         2     3        4
              ACL   removal   ACL   ignored  feature
    acls      0               2                         with their rows in the AclTable
    removals        1
    unread                                   4          decoded one by one, by the general decoders

Plain values (records.columns.values) are decoded by column: KRaft frames, Avro values, and null values that
remove the ACL of their key.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from records.codecs.avro_header import MAGIC
from records.codecs.kraft import FRAME_VERSION
from records.columns.acl_table import AclTable
from records.columns.arrow_arrays import dictionary_encoded
from records.columns.layouts import KeyIds, avro_fields, frame_fields
from records.columns.text_column import TextColumn
from records.columns.values import texts
from records.entries import TRANSACTION_MARKERS, OtherRecord, RemoveAccessControlEntryRecord
from records.ids import UUID_BYTES, Uuid
from records.log_batch import LazyRecords, LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from records.columns.values import Fields, Ints, Mask, Values
    from records.entries import MetadataRecord


class RecordTable:
    """Consecutive records of one log.

    Attributes:
        offsets, timestamps_ms: of each record.
        acls: rows of ACLs, in order; ``table``: these ACLs, in the same order.
        removals: rows of removals, in order; ``removal_ids``: 16 bytes for each.
        unread: rows to be decoded one by one.
        other_records: records of the unread rows by row, once decoded; ``markers``: rows of transaction
            markers among them. All other rows are ignored records.
    """

    __slots__ = (
        "_is_framed",
        "_values",
        "acls",
        "markers",
        "offsets",
        "other_records",
        "removal_ids",
        "removals",
        "table",
        "timestamps_ms",
        "unread",
    )

    def __init__(
        self,
        values: Values,
        offsets: Ints,
        timestamps_ms: Ints,
        *,
        keys: Values | None = None,
        is_unread: Mask | None = None,
    ) -> None:
        """Decode the plain values; ``keys`` if they have a meaning.

        ``is_unread``: rows to skip, as the positions of their values are invalid.
        """
        self._values = values
        self.offsets, self.timestamps_ms = offsets, timestamps_ms
        self.other_records: Mapping[int, MetadataRecord] = {}
        self.markers: Sequence[int] = ()
        is_unread = np.zeros(len(values), np.bool_) if is_unread is None else is_unread.copy()
        self._is_framed, found = _plain_fields(values, is_unread)
        is_unread[found.unread] = True
        acls = np.ones(len(found.acls), np.bool_)
        acl_ids, removal_ids = (values.windows(UUID_BYTES, at) for at in (found.acl_ids, found.removal_ids))
        removals = found.removals
        if keys is not None and (keys.is_null is None or not keys.is_null.all()):
            key_ids = KeyIds(keys)
            acls &= ~key_ids.contradict(found.acls, acl_ids)
            is_consistent = ~key_ids.contradict(removals, removal_ids)
            is_unread[found.acls[~acls]] = is_unread[removals[~is_consistent]] = True
            removals, removal_ids = removals[is_consistent], removal_ids[is_consistent]
            if values.is_null is not None:
                removals = np.concatenate([removals, np.flatnonzero(values.is_null & key_ids.is_id)])
                removal_ids = np.concatenate([removal_ids, key_ids.ids[removals[len(removal_ids) :]]])
                order = np.argsort(removals)
                removals, removal_ids = removals[order], removal_ids[order]
                is_unread |= values.is_null & ~key_ids.is_id
        elif values.is_null is not None:
            is_unread |= values.is_null
        bounds = [positions[acls] for positions in found.bounds]
        try:
            columns = [TextColumn(*dictionary_encoded([text])) for text in texts(values.data, bounds)]
        except pa.ArrowInvalid:  # a text is not UTF-8; the general decoder finds out which
            is_unread[found.acls] = True
            acls[:] = False
            columns = [
                TextColumn(*dictionary_encoded([text]))
                for text in texts(values.data, [positions[:0] for positions in bounds])
            ]
        self.acls = found.acls[acls]
        names, principals, hosts = columns
        resource_types, pattern_types, operations, permission_types = (code[acls] for code in found.codes)
        self.table = AclTable(
            ids=acl_ids[acls].tobytes(),
            resource_types=resource_types,
            names=names,
            pattern_types=pattern_types,
            principals=principals,
            hosts=hosts,
            operations=operations,
            permission_types=permission_types,
            offsets=offsets[self.acls],
            timestamps_ms=timestamps_ms[self.acls],
        )
        self.removals, self.removal_ids = removals, removal_ids.tobytes()
        self.unread = np.flatnonzero(is_unread)

    def set_other_records(self, records: Mapping[int, MetadataRecord]) -> None:
        self.other_records = records
        self.markers = [row for row, record in records.items() if type(record) in TRANSACTION_MARKERS]

    def other_records_between(self, first: int, end: int) -> list[tuple[int, MetadataRecord]]:
        """The records of the unread rows in this range, in order."""
        rows = self.unread[slice(*np.searchsorted(self.unread, (first, end)))].tolist()
        return [(row, self.other_records[row]) for row in rows]

    def frames(self, first: int, end: int) -> tuple[bytes, list[int], list[int]] | None:
        """Bytes, starts and ends of the frames of these rows of ``table``; None: they are not frames."""
        if not self._is_framed:
            return None
        rows = self.acls[first:end]
        return self._values.data, self._values.starts[rows].tolist(), self._values.ends[rows].tolist()

    def value(self, row: int) -> bytes | None:
        return self._values.value(row)

    def records(self, first: int, end: int) -> Iterator[MetadataRecord]:
        begin, stop = np.searchsorted(self.acls, (first, end)).tolist()
        records: dict[int, MetadataRecord] = dict(
            zip(self.acls[begin:stop].tolist(), self.table.records(slice(begin, stop)), strict=True)
        )
        begin, stop = np.searchsorted(self.removals, (first, end)).tolist()
        for row, at in zip(self.removals[begin:stop].tolist(), range(begin, stop), strict=True):
            acl_id = Uuid(self.removal_ids[UUID_BYTES * at : UUID_BYTES * (at + 1)])
            records[row] = RemoveAccessControlEntryRecord(acl_id)
        for row in range(first, end):
            record = records.get(row) or self.other_records.get(row)
            if record is None:  # an ignored frame
                start = self._values.starts.item(row)
                record = OtherRecord(*self._values.data[start + 1 : start + 3])
            yield record


def _plain_fields(values: Values, is_unread: Mask) -> tuple[bool, Fields]:
    """Whether most values are KRaft frames, and the fields of the prevailing format."""
    firsts = values.bytes_[np.minimum(values.starts, values.size)]
    has_value = (values.ends > values.starts) & ~is_unread
    if values.is_null is not None:
        has_value &= ~values.is_null
    is_frame, is_avro = has_value & (firsts == FRAME_VERSION), has_value & (firsts == MAGIC[0])
    is_framed = bool(is_frame.sum() >= is_avro.sum())
    is_plain = is_frame if is_framed else is_avro
    is_unread |= ~is_plain if values.is_null is None else ~is_plain & ~values.is_null
    if is_framed:
        return True, frame_fields(values, np.flatnonzero(is_plain))
    return False, avro_fields(values, np.flatnonzero(is_plain))


class TableRecords(LazyRecords):
    """Consecutive records of one or more tables, in order.

    ``parts``: each a table, its first row, and the row after its last.
    """

    __slots__ = ("parts",)

    def __init__(self, *parts: tuple[RecordTable, int, int]) -> None:
        """Take parts with at least one record each."""
        self.parts = parts
        first_table, first, _ = parts[0]
        last_table, _, end = parts[-1]
        self.offsets = first_table.offsets.item(first), last_table.offsets.item(end - 1)
        self.has_markers = False
        for table, first, end in parts:  # most tables have no markers
            if table.markers and any(first <= row < end for row in table.markers):
                self.has_markers = True

    def acls_and_others(self) -> tuple[AclTable, tuple[LogRecord, ...]] | None:
        """The ACLs and the other records of the tables; None if they remove ACLs."""
        tables = [table for table, _, _ in self.parts]
        if any(len(table.removals) for table in tables):
            return None
        other_records = [
            LogRecord(table.offsets.item(row), table.timestamps_ms.item(row), record)
            for table in tables
            for row, record in table.other_records.items()
        ]
        return AclTable.concat([table.table for table in tables]), tuple(other_records)

    def marker_indexes(self) -> set[int]:
        indexes: set[int] = set()
        start = 0
        for table, first, end in self.parts:
            indexes.update([start + row - first for row in table.markers if first <= row < end])
            start += end - first
        return indexes

    def part(self, first: int, end: int) -> TableRecords:
        """A range of these records, which must have one part."""
        ((table, shift, _),) = self.parts
        return TableRecords((table, shift + first, shift + end))

    def extended(self, following: Iterable[TableRecords]) -> TableRecords:
        parts = [*self.parts]
        for table, first, end in chain.from_iterable([records.parts for records in following]):
            last_table, begin, stop = parts[-1]
            if table is last_table and first == stop:
                parts[-1] = (table, begin, end)
            else:
                parts.append((table, first, end))
        return TableRecords(*parts)

    def __len__(self) -> int:
        count = 0
        for _, first, end in self.parts:
            count += end - first
        return count

    def __iter__(self) -> Iterator[LogRecord]:
        for table, first, end in self.parts:
            rows = slice(first, end)
            yield from map(
                LogRecord,
                table.offsets[rows].tolist(),
                table.timestamps_ms[rows].tolist(),
                table.records(first, end),
            )

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]
