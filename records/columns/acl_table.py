"""AclTable: ACLs with the offsets and times of their records, as immutable columns. Defines the columns.

From the bytes of a batch to an image, a Parquet file or Spark's rows, ACLs are a table. An ACL as objects
(AppliedAcl, its record, their numbers) takes some 250 bytes and 2 µs to create. A row takes 48 bytes, and
numpy sorts, counts and compares columns. Objects are created only of rows that are accessed.

    row               0         1         2
    ids               16 bytes  16 bytes  16 bytes
    resource_types    2         2         3           int8, and so the other codes
    names   codes     0         1         0           int32: indexes of ...
            texts     ["orders", "payments"]          ... the distinct texts, each used by at least one row
    offsets           17        18        -1          int64, -1: unknown
    timestamps_ms     ...                             int64

The order of rows has no meaning, and an id may occur twice.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
import numpy as np

from records.acl import (
    AccessControlEntry,
    AclBinding,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from records.columns.text_column import TextColumn
from records.entries import AccessControlEntryRecord
from records.errors import EncodeError
from records.ids import UUID_BYTES, Uuid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import numpy.typing as npt

#: None in ``offsets``.
UNKNOWN_OFFSET: Final = -1
# Rows that become objects together.
_CHUNK_ROWS: Final = 1024
#: The column of each field of a record after its id, in the order of the fields.
COLUMNS: Final = {
    "resource_type": "resource_types",
    "resource_name": "names",
    "pattern_type": "pattern_types",
    "principal": "principals",
    "host": "hosts",
    "operation": "operations",
    "permission_type": "permission_types",
}
#: Columns of texts, and columns of codes.
TEXTS: Final = ("names", "principals", "hosts")
CODES: Final = tuple(name for name in COLUMNS.values() if name not in TEXTS)
_NUMBERS: Final = (*CODES, "offsets", "timestamps_ms")

_RESOURCE_TYPES: Final = ResourceType.by_code()
_PATTERN_TYPES: Final = PatternType.by_code()
_OPERATIONS: Final = AclOperation.by_code()
_PERMISSION_TYPES: Final = AclPermissionType.by_code()


def row_chunks(rows: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
    """The rows in chunks, for callers that create objects and may stop early."""
    for start in range(0, len(rows), _CHUNK_ROWS):
        yield rows[start : start + _CHUNK_ROWS]


class AppliedAcl(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """An ACL in force, with the offset and time of its record.

    Attributes:
        offset: of its log record; None: it is from a KRaft checkpoint, whose records have no log offsets.
        timestamp_ms: of its log record or its checkpoint record.
    """

    record: AccessControlEntryRecord
    offset: int | None
    timestamp_ms: int


class AclTable:
    """A table of ACLs; see the module."""

    __slots__ = ("_views", "ids", *TEXTS, *_NUMBERS)

    ids: bytes
    resource_types: npt.NDArray[np.int8]
    names: TextColumn
    pattern_types: npt.NDArray[np.int8]
    principals: TextColumn
    hosts: TextColumn
    operations: npt.NDArray[np.int8]
    permission_types: npt.NDArray[np.int8]
    offsets: npt.NDArray[np.int64]
    timestamps_ms: npt.NDArray[np.int64]

    def __init__(self, *, ids: bytes, **columns: Any) -> None:
        """Take all columns by name."""
        self.ids = ids
        for name in (*TEXTS, *_NUMBERS):
            setattr(self, name, columns[name])
        self._views: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, acls: Collection[AppliedAcl]) -> Self:
        """Create a table from objects. EncodeError: a code beyond int8, or an id that is not 16 bytes."""
        records = [acl.record for acl in acls]
        if any(len(record.id) != UUID_BYTES for record in records):
            raise EncodeError(f"an id that is not {UUID_BYTES} bytes")
        columns: dict[str, Any] = {}
        try:
            for field, name in COLUMNS.items():
                values: list[Any] = [getattr(record, field) for record in records]
                columns[name] = TextColumn.of(values) if name in TEXTS else np.array(values, np.int8)
        except OverflowError as error:
            raise EncodeError(f"a code that is not an int8: {error}") from error
        offsets = [UNKNOWN_OFFSET if acl.offset is None else acl.offset for acl in acls]
        return cls(
            ids=b"".join([record.id for record in records]),
            offsets=np.array(offsets, np.int64),
            timestamps_ms=np.array([acl.timestamp_ms for acl in acls], np.int64),
            **columns,
        )

    @classmethod
    def concat(cls, parts: Sequence[AclTable]) -> Self:
        # One part is not encoded again.
        parts = [part for part in parts if len(part)]
        if not parts:
            return cls.of(())
        if len(parts) == 1:
            (part,) = parts
            if isinstance(part, cls):
                return part
            columns = {name: getattr(part, name) for name in (*TEXTS, *_NUMBERS)}
        else:
            columns = {name: TextColumn.concat([getattr(part, name) for part in parts]) for name in TEXTS}
            columns |= {name: np.concatenate([getattr(part, name) for part in parts]) for name in _NUMBERS}
        return cls(ids=b"".join([part.ids for part in parts]), **columns)

    def take(self, rows: Any) -> AclTable:
        """Some of the rows, by any index of numpy."""
        columns = {name: getattr(self, name).take(rows) for name in TEXTS}
        columns |= {name: getattr(self, name)[rows] for name in _NUMBERS}
        return AclTable(ids=self.id_array[rows].tobytes(), **columns)

    def without_offsets(self) -> AclTable:
        """The same rows, with unknown offsets."""
        columns = {name: getattr(self, name) for name in (*TEXTS, *CODES)}
        offsets = np.full(len(self), UNKNOWN_OFFSET)
        return AclTable(ids=self.ids, offsets=offsets, timestamps_ms=self.timestamps_ms, **columns)

    @property
    def id_array(self) -> npt.NDArray[np.void]:
        return np.frombuffer(self.ids, f"V{UUID_BYTES}")

    def __len__(self) -> int:
        return len(self.resource_types)

    def __iter__(self) -> Iterator[AppliedAcl]:
        for start in range(0, len(self), _CHUNK_ROWS):
            yield from self.acls(slice(start, start + _CHUNK_ROWS))

    def id_of(self, row: int) -> Uuid:
        return Uuid(self.ids[UUID_BYTES * row : UUID_BYTES * (row + 1)])

    def count_by_resource_type(self) -> dict[int, int]:
        codes, counts = np.unique(self.resource_types, return_counts=True)
        return dict(zip(codes.tolist(), counts.tolist(), strict=True))

    def acl(self, row: int) -> AppliedAcl:
        if self._views is None:
            # Reading one number from a memoryview takes half the time.
            texts = [getattr(self, name) for name in TEXTS]
            numbers = [*(column.codes for column in texts), *(getattr(self, name) for name in _NUMBERS)]
            self._views = *(column.texts for column in texts), *(column.data for column in numbers)
        name_texts, principal_texts, host_texts, names, principals, hosts, *codes = self._views
        resource_types, pattern_types, operations, permission_types, offsets, timestamps_ms = codes
        offset = offsets[row]
        record = AccessControlEntryRecord(
            self.ids[UUID_BYTES * row : UUID_BYTES * (row + 1)],  # type: ignore[arg-type] # Uuid is a call
            resource_types[row],
            name_texts[names[row]],
            pattern_types[row],
            principal_texts[principals[row]],
            host_texts[hosts[row]],
            operations[row],
            permission_types[row],
        )
        return AppliedAcl(record, None if offset == UNKNOWN_OFFSET else offset, timestamps_ms[row])

    def records(self, rows: Any) -> Iterator[AccessControlEntryRecord]:
        """Some rows as records, by any index of numpy."""
        ids = self.id_array[rows].tobytes()
        fields: list[Iterable[Any]] = [[ids[at : at + UUID_BYTES] for at in range(0, len(ids), UUID_BYTES)]]
        for name in COLUMNS.values():
            column = getattr(self, name)
            if name in TEXTS:
                fields.append(map(column.texts.__getitem__, column.codes[rows].tolist()))
            else:
                fields.append(column[rows].tolist())
        return map(AccessControlEntryRecord, *fields)

    def acls(self, rows: Any) -> list[AppliedAcl]:
        offsets = self.offsets[rows]
        known: list[int | None] = offsets.tolist()
        if len(offsets) and offsets.min() == UNKNOWN_OFFSET:
            known = [None if offset == UNKNOWN_OFFSET else offset for offset in known]
        return list(map(AppliedAcl, self.records(rows), known, self.timestamps_ms[rows].tolist()))

    def bindings(self, rows: Any) -> list[AclBinding]:
        """Some rows as Kafka's API has them; codes without a name become UNKNOWN."""
        names, principals, hosts = self.names.texts, self.principals.texts, self.hosts.texts
        pattern_codes = zip(
            self.resource_types[rows].tolist(),
            self.names.codes[rows].tolist(),
            self.pattern_types[rows].tolist(),
            strict=True,
        )
        patterns: list[ResourcePattern] = []
        for (resource_type, name, pattern_type), same in groupby(pattern_codes):
            # Adjacent rows share one object; in Kafka's order most have equal patterns.
            pattern = ResourcePattern(
                _RESOURCE_TYPES[resource_type], names[name], _PATTERN_TYPES[pattern_type]
            )
            patterns += [pattern for _ in same]
        entries = map(
            AccessControlEntry,
            map(principals.__getitem__, self.principals.codes[rows].tolist()),
            map(hosts.__getitem__, self.hosts.codes[rows].tolist()),
            map(_OPERATIONS.__getitem__, self.operations[rows].tolist()),
            map(_PERMISSION_TYPES.__getitem__, self.permission_types[rows].tolist()),
        )
        return list(map(AclBinding, patterns, entries))
