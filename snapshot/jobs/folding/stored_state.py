"""The ACLs of a log while a batch is folded: the stored parts, and the changes since.

    stored part     a1    b2    c3    d4          its file is not changed
    is_current      yes   no    yes   no
    changed               b7          e9          written to a changes file; d is removed

Few records touch few ids: only their rows are decoded and written. If more has changed in a shard than
CHANGES_SHARE, its part is rewritten.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from records.columns.acl_table import CODES, AclTable
from records.ids import UUID_BYTES
from snapshot.columns import AclColumns, has_id, heads_in, heads_of
from snapshot.errors import SnapshotCorruptError
from snapshot.store.layout import parse_shard_part_name, shard_changes_name, shard_part_name
from snapshot.store.manifest import ChangePart, SnapshotPart
from snapshot.store.parquet import (
    PartTable,
    decode_changes,
    encode_changes,
    encode_part,
    read_part_table,
    to_rows,
)
from snapshot.store.reading import read_part, read_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    import numpy.typing as npt

    from snapshot.fold import Heads
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.manifest import SnapshotManifest
    from snapshot.store.storage import Storage

_T = TypeVar("_T")
_R = TypeVar("_R")

#: The changes file is rewritten with every batch, and every node reads it at its start: up to an eighth of
#: the part's rows that costs less than rewriting the part each time.
CHANGES_SHARE: Final = 8
# Files that are read or written concurrently: an object store serves several as quickly as one.
_FILE_THREADS: Final = 4
# Fibonacci hashing: 2^64 by the golden ratio. The upper half of the product depends on all bits of the id.
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)


def shards_of(ids: bytes, shards: int) -> npt.NDArray[np.int32]:
    """The shard of each 16-byte id in ``ids``, 0 to ``shards`` - 1, by a stable hash of the id.

    Raises:
        ValueError: ``shards`` is less than 1, or ids that are not 16 bytes each.
    """
    if shards < 1:
        raise ValueError(f"at least 1 shard, not {shards}")
    words = np.frombuffer(ids, ">u8").astype(np.uint64).reshape(-1, 2)
    hashes = (words[:, 0] ^ words[:, 1]) * _MULTIPLIER >> _SHIFT
    return (hashes % np.uint64(shards)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """A part that holds one shard's rows; ``is_current`` masks those that no change supersedes."""

    part: SnapshotPart
    data: bytes
    table: PartTable
    is_current: npt.NDArray[np.bool_]


class StoredState:
    """The ACLs of one log. Not thread-safe."""

    def __init__(
        self, shards: int, changed: AclTable, stored: Mapping[int, _StoredPart] | None = None
    ) -> None:
        """``stored``: parts by shard; ``changed``: the ACLs that are not among their current rows."""
        self._shards = shards
        self._changed = changed
        self._stored = stored = stored or {}
        # The rows of all parts as one: a step of numpy for each part would take most of a small batch's time.
        self._ids = b"".join([part.table.ids for part in stored.values()])
        self._is_current = np.concatenate(
            [np.zeros(0, np.bool_), *(part.is_current for part in stored.values())]
        )

    def _by_shard(self, mask: npt.NDArray[np.bool_]) -> dict[int, npt.NDArray[np.bool_]]:
        """Split a mask of all stored rows by their parts."""
        ends = np.cumsum([len(part.table) for part in self._stored.values()])
        return dict(zip(self._stored, np.split(mask, ends), strict=False))  # the last piece is empty

    @classmethod
    def read(cls, storage: Storage, manifest: SnapshotManifest | None, shards: int) -> StoredState:
        """Read a stored snapshot; None is the empty state.

        A node splits a snapshot by rows, and a job with another number of shards by other hashes: then all
        shards are rewritten.

        Raises:
            SnapshotCorruptError: a part is missing, damaged, or holds an id twice.
            SnapshotError: the store cannot be read.
        """
        if manifest is None:
            return cls(shards, AclColumns.EMPTY)
        ref, shard_parts = manifest.ref, _shard_parts(manifest, shards)
        if shard_parts is None:
            rows = _for_files(lambda part: read_rows(storage, ref, part), manifest.parts)
            return cls(shards, _distinct(AclColumns.concat(rows)))
        found = _for_files(lambda part: _read_shard(storage, ref, part), [*shard_parts.values()])
        stored = dict(zip(shard_parts, [part for part, _ in found], strict=True))
        return cls(shards, AclTable.concat([changed for _, changed in found]), stored)

    def rows(self) -> AclTable:
        return AclTable.concat([self._stored_rows(self._is_current), self._changed])

    def rows_with_heads(self, heads: Heads) -> AclColumns:
        """The ACLs whose ids have one of these sorted heads (columns.heads_of).

        Raises:
            SnapshotCorruptError: an id occurs twice.
        """
        changed = self._changed.take(heads_in(heads, heads_of(self._changed.ids)))
        stored = self._stored_rows(self._is_current & heads_in(heads, heads_of(self._ids)))
        return _distinct(AclColumns.concat([changed, stored]))

    def _stored_rows(self, chosen: npt.NDArray[np.bool_]) -> AclTable:
        of_parts = self._by_shard(chosen)
        return to_rows([part.table.take(of_parts[shard]) for shard, part in self._stored.items()])

    def apply(self, superseded_ids: Collection[bytes], rows: AclTable) -> None:
        """Remove the ACLs of the superseded ids, and add rows with ids that are then not present."""
        ids = b"".join(superseded_ids)
        unchanged = self._changed.take(~has_id(self._changed.ids, ids))
        self._changed = AclTable.concat([unchanged, rows])
        self._is_current &= ~has_id(self._ids, ids)

    def count_by_kind(self) -> dict[tuple[int, int, int, int], int]:
        """ACLs by the codes of resource type, pattern type, operation and permission type."""
        columns: list[Sequence[npt.NDArray[np.int8]]] = [[getattr(self._changed, name) for name in CODES]]
        for shard, is_current in self._by_shard(self._is_current).items():
            columns.append([column[is_current] for column in self._stored[shard].table.codes()])
        # Four codes of one byte as one number: numpy sorts numbers many times faster than rows.
        numbers = np.concatenate([np.stack(codes, axis=1).view(np.int32) for codes in columns])
        found, counts = np.unique(numbers, return_counts=True)
        kinds = zip(*found.view(np.int8).reshape(-1, 4).T.tolist(), strict=True)
        return dict(zip(kinds, counts.tolist(), strict=True))

    def put(self, storage: Storage, ref: SnapshotRef, *, attempt: str) -> list[SnapshotPart]:
        """Write the files of all shards with ACLs into the directory of a new snapshot.

        ``attempt``: unique to this attempt.

        Raises:
            SnapshotError: the store cannot be written.
        """
        shard_of, current = shards_of(self._changed.ids, self._shards), self._by_shard(self._is_current)

        def put(shard: int) -> SnapshotPart | None:
            stored = replace(self._stored[shard], is_current=current[shard]) if shard in current else None
            return self._put(storage, ref, shard, stored, self._changed.take(shard_of == shard), attempt)

        return [part for part in _for_files(put, range(self._shards)) if part is not None]

    def _put(
        self,
        storage: Storage,
        ref: SnapshotRef,
        shard: int,
        stored: _StoredPart | None,
        changed: AclTable,
        name: str,
    ) -> SnapshotPart | None:
        removed_ids = b"" if stored is None else _removed_ids(stored, changed)
        rows = len(changed) + len(removed_ids) // UUID_BYTES
        if stored is None or rows * CHANGES_SHARE > stored.part.rows:
            count = len(changed) + (0 if stored is None else int(stored.is_current.sum()))
            if not count:
                return None
            data = (
                encode_part(changed)
                if stored is None
                else stored.table.encoded_with(stored.is_current, changed)
            )
            part = SnapshotPart(shard_part_name(shard, self._shards, name), count, len(data), _sha256(data))
            storage.put(ref.file(part.name), data)
            return part
        changes = None
        if rows:
            count = len(changed) + int(stored.is_current.sum())
            data = encode_changes(changed, removed_ids)
            changes = ChangePart(
                shard_changes_name(shard, self._shards, name), rows, len(data), _sha256(data), count
            )
            storage.put(ref.file(changes.name), data)
        # Each snapshot has all of its files, so that it can be read, retained or removed on its own.
        part = stored.part
        storage.put(ref.file(part.name), stored.data)
        return SnapshotPart(part.name, part.rows, part.bytes, part.sha256, changes)


def _for_files(function: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call a function that reads or writes the files of each item."""
    if len(items) <= 1:  # most logs of a fleet; a thread would cost as much as its file
        return [*map(function, items)]
    with ThreadPoolExecutor(_FILE_THREADS) as pool:
        return [*pool.map(function, items)]


def _shard_parts(manifest: SnapshotManifest, shards: int) -> dict[int, SnapshotPart] | None:
    """The parts by shard, if written with the same number of shards."""
    parts: dict[int, SnapshotPart] = {}
    for part in manifest.parts:
        found = parse_shard_part_name(part.name)
        if found is None or found[1] != shards or found[0] in parts:
            return None
        parts[found[0]] = part
    return parts


def _read_shard(storage: Storage, ref: SnapshotRef, part: SnapshotPart) -> tuple[_StoredPart, AclTable]:
    """One shard's part, and the new rows of its changes file."""
    data = read_part(storage, ref, part)
    table = read_part_table(data, rows=part.rows, source=storage.shown(ref.file(part.name)))
    if part.changes is None:
        return _StoredPart(part, data, table, np.ones(len(table), np.bool_)), AclColumns.EMPTY
    source = storage.shown(ref.file(part.changes.name))
    changes = read_part(storage, ref, part.changes)
    changed, removed_ids = decode_changes(changes, rows=part.changes.rows, source=source)
    is_current = ~has_id(table.ids, changed.ids + removed_ids)
    count = int(is_current.sum()) + len(changed)
    if count != part.count:
        raise SnapshotCorruptError(f"{source} leaves {count} ACLs, its manifest says {part.count}")
    return _StoredPart(part, data, table, is_current), changed


def _removed_ids(stored: _StoredPart, changed: AclTable) -> bytes:
    """The ids of the stored part's superseded rows that are not in ``changed``."""
    ids = np.frombuffer(stored.table.ids, f"V{UUID_BYTES}")[~stored.is_current]
    return ids[~has_id(ids.tobytes(), changed.ids)].tobytes()


def _distinct(found: AclColumns) -> AclColumns:
    if found.count_ids() != len(found):
        raise SnapshotCorruptError("a stored snapshot holds an ACL id twice")
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
