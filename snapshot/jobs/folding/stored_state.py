"""The ACLs of a log while a batch is folded: those of the parts as they are stored, and what changed since.

    stored part     a1    b2    c3    d4          its file stays as it is
    stays           yes   no    yes   no
    changed               b7          e9          written beside it; d is gone

Few records touch few ids: only their rows are made of the parts, and only they are written. When much has
changed in a shard, all of its rows become a part of their own.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from records.columns.acl_table import CODES, AclTable
from records.ids import UUID_BYTES
from snapshot.columns import AclColumns, among, has_id, heads_of
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
    from collections.abc import Collection, Mapping, Sequence

    import numpy.typing as npt

    from snapshot.fold import Heads
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.manifest import SnapshotManifest
    from snapshot.store.storage import Storage

#: What changed is written anew with every batch, and read by every node that starts: an eighth of the part's
#: rows takes less of both than a part that is written whole each time.
CHANGES_SHARE: Final = 8
# Files that are read or written at once: an object store answers many as quickly as one.
_FILES_AT_ONCE: Final = 4
# Fibonacci hashing: 2^64 by the golden ratio. The upper half of the product depends on all bits of the id.
_MULTIPLIER: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(32)


def shards_of(ids: bytes, shards: int) -> npt.NDArray[np.int32]:
    """The shard of each of the 16-byte ids that the blob holds, 0 to ``shards`` - 1.

    Raises:
        ValueError: no shard at all, or ids that are not 16 bytes each.
    """
    if shards < 1:
        raise ValueError(f"at least 1 shard, not {shards}")
    words = np.frombuffer(ids, ">u8").astype(np.uint64).reshape(-1, 2)
    hashes = (words[:, 0] ^ words[:, 1]) * _MULTIPLIER >> _SHIFT
    return (hashes % np.uint64(shards)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """A part that holds one shard's rows.

    Attributes:
        part: as the manifest names it.
        data: its bytes.
        table: its rows.
        stays: which of them count, when it was read.
    """

    part: SnapshotPart
    data: bytes
    table: PartTable
    stays: npt.NDArray[np.bool_]


class StoredState:
    """See the module. Not thread-safe."""

    def __init__(
        self, shards: int, changed: AclTable, stored: Mapping[int, _StoredPart] | None = None
    ) -> None:
        """``changed``: the ACLs that are not among the rows which stay of a ``stored`` part, by shard."""
        self._shards = shards
        self._changed = changed
        self._stored = stored = stored or {}
        # The rows of all parts as one: a step of numpy for each part would take most of a small batch's time.
        self._ids = b"".join([part.table.ids for part in stored.values()])
        self._stays = np.concatenate([np.zeros(0, np.bool_), *(part.stays for part in stored.values())])

    def _by_shard(self, mask: npt.NDArray[np.bool_]) -> dict[int, npt.NDArray[np.bool_]]:
        """Which rows of each stored part, of which of all stored rows."""
        ends = np.cumsum([len(part.table) for part in self._stored.values()])
        return dict(zip(self._stored, np.split(mask, ends), strict=False))  # nothing is behind the last end

    @classmethod
    def read(cls, storage: Storage, manifest: SnapshotManifest | None, shards: int) -> StoredState:
        """Of a stored snapshot; of None, without an ACL.

        A node cuts a snapshot by rows, a job with another number of shards by other hashes: then all shards
        are written anew.

        Raises:
            SnapshotCorruptError: a part is missing, damaged, or holds an id twice.
            SnapshotError: the store cannot be read.
        """
        if manifest is None:
            return cls(shards, AclColumns.EMPTY)
        ref, own = manifest.ref, _own_parts(manifest, shards)
        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            if own is None:
                rows = [*pool.map(lambda part: read_rows(storage, ref, part), manifest.parts)]
                return cls(shards, _distinct(AclColumns.joined(rows)))
            found = [*pool.map(lambda part: _read_own(storage, ref, part), own.values())]
        stored = dict(zip(own, [part for part, _ in found], strict=True))
        return cls(shards, AclTable.joined([changed for _, changed in found if len(changed)]), stored)

    def rows(self) -> AclTable:
        """All ACLs."""
        return AclTable.joined([self._stored_rows(self._stays), self._changed])

    def held(self, heads: Heads) -> AclColumns:
        """The ACLs whose ids begin with one of these eight bytes (columns.heads_of), which are sorted.

        Raises:
            SnapshotCorruptError: an id is there twice.
        """
        changed = self._changed.taken(among(heads, heads_of(self._changed.ids)))
        stored = self._stored_rows(self._stays & among(heads, heads_of(self._ids)))
        return _distinct(AclColumns.joined([changed, stored]))

    def _stored_rows(self, chosen: npt.NDArray[np.bool_]) -> AclTable:
        of_parts = self._by_shard(chosen)
        return to_rows([part.table.taken(of_parts[shard]) for shard, part in self._stored.items()])

    def apply(self, gone: Collection[bytes], rows: AclTable) -> None:
        """Take out the ACLs of some ids, and put in others, whose ids are not there otherwise."""
        ids = b"".join(gone)
        kept = self._changed.taken(~has_id(self._changed.ids, ids))
        self._changed = AclTable.joined([part for part in (kept, rows) if len(part)])
        self._stays &= ~has_id(self._ids, ids)

    def count_by_kind(self) -> dict[tuple[int, int, int, int], int]:
        """ACLs by the codes of resource type, pattern type, operation and permission type."""
        columns: list[Sequence[npt.NDArray[np.int8]]] = [[getattr(self._changed, name) for name in CODES]]
        for shard, stays in self._by_shard(self._stays).items():
            columns.append([column[stays] for column in self._stored[shard].table.codes()])
        # Four codes of one byte as one number: numpy sorts numbers many times faster than rows.
        numbers = np.concatenate([np.stack(codes, axis=1).view(np.int32) for codes in columns])
        found, counts = np.unique(numbers, return_counts=True)
        kinds = zip(*found.view(np.int8).reshape(-1, 4).T.tolist(), strict=True)
        return dict(zip(kinds, counts.tolist(), strict=True))

    def put(self, storage: Storage, ref: SnapshotRef, *, attempt: str) -> list[SnapshotPart]:
        """Write the files of all shards that have an ACL into the directory of a snapshot to come.

        ``attempt``: unique to this one attempt.

        Raises:
            SnapshotError: the store cannot be written.
        """
        shard_of, stay = shards_of(self._changed.ids, self._shards), self._by_shard(self._stays)

        def put(shard: int) -> SnapshotPart | None:
            stored = replace(self._stored[shard], stays=stay[shard]) if shard in stay else None
            return self._put(storage, ref, shard, stored, self._changed.taken(shard_of == shard), attempt)

        with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
            return [part for part in pool.map(put, range(self._shards)) if part is not None]

    def _put(
        self,
        storage: Storage,
        ref: SnapshotRef,
        shard: int,
        stored: _StoredPart | None,
        changed: AclTable,
        name: str,
    ) -> SnapshotPart | None:
        gone = b"" if stored is None else _gone(stored, changed)
        rows = len(changed) + len(gone) // UUID_BYTES
        if stored is None or rows * CHANGES_SHARE > stored.part.rows:
            count = len(changed) + (0 if stored is None else int(stored.stays.sum()))
            if not count:
                return None
            data = (
                encode_part(changed) if stored is None else stored.table.encoded_with(stored.stays, changed)
            )
            part = SnapshotPart(shard_part_name(shard, self._shards, name), count, len(data), _sha256(data))
            storage.put(ref.file(part.name), data)
            return part
        changes = None
        if rows:
            count = len(changed) + int(stored.stays.sum())
            data = encode_changes(changed, gone)
            changes = ChangePart(
                shard_changes_name(shard, self._shards, name), rows, len(data), _sha256(data), count
            )
            storage.put(ref.file(changes.name), data)
        # Each snapshot has all of its files: none needs another one's to be read, kept or removed.
        part = stored.part
        storage.put(ref.file(part.name), stored.data)
        return SnapshotPart(part.name, part.rows, part.bytes, part.sha256, changes)


def _own_parts(manifest: SnapshotManifest, shards: int) -> dict[int, SnapshotPart] | None:
    """The parts by shard, if as many shards wrote them."""
    own: dict[int, SnapshotPart] = {}
    for part in manifest.parts:
        found = parse_shard_part_name(part.name)
        if found is None or found[1] != shards or found[0] in own:
            return None
        own[found[0]] = part
    return own


def _read_own(storage: Storage, ref: SnapshotRef, part: SnapshotPart) -> tuple[_StoredPart, AclTable]:
    """One shard's part, and what changed in it."""
    data = read_part(storage, ref, part)
    table = read_part_table(data, rows=part.rows, source=storage.shown(ref.file(part.name)))
    if part.changes is None:
        return _StoredPart(part, data, table, np.ones(len(table), np.bool_)), AclColumns.EMPTY
    source = storage.shown(ref.file(part.changes.name))
    changes = read_part(storage, ref, part.changes)
    changed, gone = decode_changes(changes, rows=part.changes.rows, source=source)
    stays = ~has_id(table.ids, changed.ids + gone)
    count = int(stays.sum()) + len(changed)
    if count != part.count:
        raise SnapshotCorruptError(f"{source} leaves {count} ACLs, its manifest says {part.count}")
    return _StoredPart(part, data, table, stays), changed


def _gone(stored: _StoredPart, changed: AclTable) -> bytes:
    """The ids of the stored part's rows in whose place there is nothing."""
    ids = np.frombuffer(stored.table.ids, f"V{UUID_BYTES}")[~stored.stays]
    return ids[~has_id(ids.tobytes(), changed.ids)].tobytes()


def _distinct(found: AclColumns) -> AclColumns:
    if found.count_ids() != len(found):
        raise SnapshotCorruptError("a stored snapshot holds an id twice")
    return found


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
