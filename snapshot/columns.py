"""AclColumns: a set of ACLs by column, immutable. What an image keeps of a million ACLs.

An ACL as objects (AppliedAcl, its record, their numbers) takes some 250 bytes and 2 µs to make; as a row it
takes 48 bytes, and numpy sorts, counts and compares whole columns at once. Objects are made of rows when
somebody asks for them.

    row               0         1         2
    ids               16 bytes  16 bytes  16 bytes
    resource_types    2         2         3           int8, and so the other codes
    names   codes     0         1         0           int32: places in ...
            texts     ["orders", "payments"]          ... the distinct texts, each used by at least one row
    offsets           17        18        -1          int64, -1: unknown
    timestamps_ms     ...                             int64

The order of rows means nothing. Finding an id is a bisection of the ids' first eight bytes, sorted; a table
by their first bits says where to bisect: a few steps in one place of memory, not twenty all over.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from records.entries import AccessControlEntryRecord
from records.errors import EncodeError
from records.ids import UUID_BYTES, Uuid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    import numpy.typing as npt

_HEAD_BYTES: Final = 8
_HEAD_BITS: Final = 8 * _HEAD_BYTES
# Ids are random: a bucket of so many has nearly the same number of them each.
_BUCKET_BITS: Final = 4
#: In ``offsets``, for None.
UNKNOWN_OFFSET: Final = -1
# Rows that are made into objects at once when somebody looks at all of them.
_PIECE_ROWS: Final = 4096


class AppliedAcl(msgspec.Struct, frozen=True, gc=False):
    """An ACL in force and where it was written.

    Attributes:
        record: the ACL.
        offset: of the log record that wrote it; None when it came from a KRaft checkpoint, whose records
            have no log offsets of their own.
        timestamp_ms: of that record; of the checkpoint's record where offset is None.
    """

    record: AccessControlEntryRecord
    offset: int | None
    timestamp_ms: int


class TextColumn:
    """A column of texts: for each row the place of its text among the distinct ones."""

    __slots__ = ("codes", "texts")

    def __init__(self, texts: list[str], codes: npt.NDArray[np.int32]) -> None:
        self.texts = texts
        self.codes = codes

    @classmethod
    def of(cls, rows: Sequence[str]) -> TextColumn:
        """From one text for each row."""
        texts = list(dict.fromkeys(rows))
        places = {text: place for place, text in enumerate(texts)}
        return cls(texts, np.fromiter(map(places.__getitem__, rows), np.int32, len(rows)))

    @classmethod
    def joined(cls, parts: Sequence[TextColumn]) -> TextColumn:
        """The rows of all parts, in order; a part may say one text twice."""
        texts = list(dict.fromkeys(chain.from_iterable(part.texts for part in parts)))
        if len(parts) == 1 and len(texts) == len(parts[0].texts):
            return parts[0].without_unused()
        places = {text: place for place, text in enumerate(texts)}
        codes = [
            np.fromiter(map(places.__getitem__, part.texts), np.int32, len(part.texts))[part.codes]
            for part in parts
        ]
        return cls(texts, np.concatenate(codes) if codes else np.empty(0, np.int32)).without_unused()

    def text(self, row: int) -> str:
        """The text of one row."""
        return self.texts[self.codes.item(row)]

    def taken(self, rows: Any) -> TextColumn:
        """Some of the rows, by whatever numpy takes as an index."""
        return TextColumn(self.texts, self.codes[rows]).without_unused()

    def without_unused(self) -> TextColumn:
        """Without texts that no row has: after years of changes they would be most of the memory."""
        used = np.zeros(len(self.texts), np.bool_)
        used[self.codes] = True
        if used.all():
            return self
        texts = [text for text, is_used in zip(self.texts, used.tolist(), strict=True) if is_used]
        return TextColumn(texts, (np.cumsum(used, dtype=np.int32) - np.int32(1))[self.codes])


def heads_of(ids: bytes) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each id, as numbers that have the same order."""
    return np.frombuffer(ids, ">u8")[:: UUID_BYTES // _HEAD_BYTES].astype(np.uint64)


class AclColumns:
    """See the module. Ids are distinct where an image holds them; ``count_ids`` tells of others."""

    __slots__ = (
        "_bucket_shift",
        "_buckets",
        "_head_rows",
        "_heads",
        "hosts",
        "ids",
        "names",
        "offsets",
        "operations",
        "pattern_types",
        "permission_types",
        "principals",
        "resource_types",
        "timestamps_ms",
    )

    EMPTY: AclColumns

    def __init__(  # noqa: PLR0913 - one for each column
        self,
        *,
        ids: bytes,
        resource_types: npt.NDArray[np.int8],
        names: TextColumn,
        pattern_types: npt.NDArray[np.int8],
        principals: TextColumn,
        hosts: TextColumn,
        operations: npt.NDArray[np.int8],
        permission_types: npt.NDArray[np.int8],
        offsets: npt.NDArray[np.int64],
        timestamps_ms: npt.NDArray[np.int64],
    ) -> None:
        self.ids = ids
        self.resource_types = resource_types
        self.names = names
        self.pattern_types = pattern_types
        self.principals = principals
        self.hosts = hosts
        self.operations = operations
        self.permission_types = permission_types
        self.offsets = offsets
        self.timestamps_ms = timestamps_ms
        heads = heads_of(ids)
        order = np.argsort(heads)
        heads = heads[order]
        bits = max(0, len(heads).bit_length() - _BUCKET_BITS)
        self._bucket_shift = _HEAD_BITS - bits
        firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(self._bucket_shift % _HEAD_BITS)
        buckets = np.append(np.searchsorted(heads, firsts), len(heads)).astype(np.int32)
        # As memoryviews: bisect reads one number of them in 40 ns, of an array in 100.
        self._heads = memoryview(heads)  # type: ignore[arg-type] # arrays are buffers
        self._head_rows = memoryview(order.astype(np.int32))  # type: ignore[arg-type]
        self._buckets = memoryview(buckets)  # type: ignore[arg-type]

    @classmethod
    def of(cls, acls: Collection[AppliedAcl]) -> AclColumns:
        """From objects.

        Raises:
            EncodeError: a code beyond int8, or an id that is not 16 bytes.
        """
        records = [acl.record for acl in acls]
        ids = b"".join([record.id for record in records])
        if any(len(record.id) != UUID_BYTES for record in records):
            raise EncodeError(f"an id that is not {UUID_BYTES} bytes")
        try:
            return cls(
                ids=ids,
                resource_types=np.array([record.resource_type for record in records], np.int8),
                names=TextColumn.of([record.resource_name for record in records]),
                pattern_types=np.array([record.pattern_type for record in records], np.int8),
                principals=TextColumn.of([record.principal for record in records]),
                hosts=TextColumn.of([record.host for record in records]),
                operations=np.array([record.operation for record in records], np.int8),
                permission_types=np.array([record.permission_type for record in records], np.int8),
                offsets=np.array(
                    [UNKNOWN_OFFSET if acl.offset is None else acl.offset for acl in acls], np.int64
                ),
                timestamps_ms=np.array([acl.timestamp_ms for acl in acls], np.int64),
            )
        except OverflowError as error:
            raise EncodeError(f"a code that is not an int8: {error}") from error

    @classmethod
    def joined(cls, parts: Sequence[AclColumns]) -> AclColumns:
        """The rows of all parts, in order."""
        if len(parts) == 1:
            return parts[0]

        def each(name: str) -> Any:
            return np.concatenate([getattr(part, name) for part in (cls.EMPTY, *parts)])

        return cls(
            ids=b"".join([part.ids for part in parts]),
            resource_types=each("resource_types"),
            names=TextColumn.joined([part.names for part in parts]),
            pattern_types=each("pattern_types"),
            principals=TextColumn.joined([part.principals for part in parts]),
            hosts=TextColumn.joined([part.hosts for part in parts]),
            operations=each("operations"),
            permission_types=each("permission_types"),
            offsets=each("offsets"),
            timestamps_ms=each("timestamps_ms"),
        )

    def taken(self, rows: Any) -> AclColumns:
        """Some of the rows, by whatever numpy takes as an index."""
        ids = np.frombuffer(self.ids, f"V{UUID_BYTES}")[rows].tobytes()
        return AclColumns(
            ids=ids,
            resource_types=self.resource_types[rows],
            names=self.names.taken(rows),
            pattern_types=self.pattern_types[rows],
            principals=self.principals.taken(rows),
            hosts=self.hosts.taken(rows),
            operations=self.operations[rows],
            permission_types=self.permission_types[rows],
            offsets=self.offsets[rows],
            timestamps_ms=self.timestamps_ms[rows],
        )

    def with_changes(self, changes: Mapping[Uuid, AppliedAcl | None]) -> AclColumns:
        """With the rows of these ids replaced, added, or removed where the value is None."""
        added = [acl for acl in changes.values() if acl is not None]
        if not len(self):
            return AclColumns.of(added)
        gone = [row for row in map(self.row_of, changes) if row is not None]
        kept = self
        if gone:
            keep = np.ones(len(self), np.bool_)
            keep[gone] = False
            kept = self.taken(keep)
        return AclColumns.joined([kept, AclColumns.of(added)]) if added else kept

    def __len__(self) -> int:
        return len(self._heads)

    def __iter__(self) -> Iterator[AppliedAcl]:
        """Every row as an object."""
        for start in range(0, len(self), _PIECE_ROWS):
            yield from self.acls(slice(start, start + _PIECE_ROWS))

    def row_of(self, acl_id: Uuid) -> int | None:
        """The row with this id."""
        heads = self._heads
        head = int.from_bytes(acl_id[:_HEAD_BYTES], "big")
        bucket = head >> self._bucket_shift
        at = bisect_left(heads, head, self._buckets[bucket], self._buckets[bucket + 1])
        while at < len(heads) and heads[at] == head:
            row = self._head_rows[at]
            if self.id_of(row) == acl_id:
                return row
            at += 1
        return None

    def may_hold(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of the first eight bytes of ids (`heads_of`), which ones a row's id begins with."""
        if not len(self):
            return np.zeros(len(heads), np.bool_)
        held = np.asarray(self._heads)
        found: npt.NDArray[np.bool_] = held[np.minimum(np.searchsorted(held, heads), len(held) - 1)] == heads
        return found

    def id_of(self, row: int) -> Uuid:
        """The id of one row."""
        return Uuid(self.ids[UUID_BYTES * row : UUID_BYTES * (row + 1)])

    def count_ids(self) -> int:
        """How many distinct ids there are."""
        heads = np.asarray(self._heads)
        shared = np.zeros(len(heads), np.bool_)
        same = heads[1:] == heads[:-1]
        shared[1:] |= same
        shared[:-1] |= same
        if not shared.any():
            return len(heads)
        # Ids of one head are few, if they are ids at all.
        rows = np.asarray(self._head_rows)[shared].tolist()
        return len(heads) - len(rows) + len({self.id_of(row) for row in rows})

    def count_by_resource_type(self) -> dict[int, int]:
        """How many rows each resource type has, of those that have any."""
        codes, counts = np.unique(self.resource_types, return_counts=True)
        return dict(zip(codes.tolist(), counts.tolist(), strict=True))

    def acl(self, row: int) -> AppliedAcl:
        """One row as an object."""
        offset = self.offsets.item(row)
        record = AccessControlEntryRecord(
            self.id_of(row),
            self.resource_types.item(row),
            self.names.text(row),
            self.pattern_types.item(row),
            self.principals.text(row),
            self.hosts.text(row),
            self.operations.item(row),
            self.permission_types.item(row),
        )
        return AppliedAcl(record, None if offset == UNKNOWN_OFFSET else offset, self.timestamps_ms.item(row))

    def acls(self, rows: Any) -> list[AppliedAcl]:
        """Some rows as objects, by whatever numpy takes as an index."""
        names, principals, hosts = self.names.texts, self.principals.texts, self.hosts.texts
        ids = np.frombuffer(self.ids, f"V{UUID_BYTES}")[rows].tobytes()
        records = map(
            AccessControlEntryRecord,
            [ids[at : at + UUID_BYTES] for at in range(0, len(ids), UUID_BYTES)],
            self.resource_types[rows].tolist(),
            map(names.__getitem__, self.names.codes[rows].tolist()),
            self.pattern_types[rows].tolist(),
            map(principals.__getitem__, self.principals.codes[rows].tolist()),
            map(hosts.__getitem__, self.hosts.codes[rows].tolist()),
            self.operations[rows].tolist(),
            self.permission_types[rows].tolist(),
        )
        offsets = self.offsets[rows]
        known: list[int | None] = offsets.tolist()
        if len(offsets) and offsets.min() == UNKNOWN_OFFSET:
            known = [None if offset == UNKNOWN_OFFSET else offset for offset in known]
        return list(map(AppliedAcl, records, known, self.timestamps_ms[rows].tolist()))


AclColumns.EMPTY = AclColumns.of(())
