"""The ACLs of one shard while a batch is folded: those of a part as it was stored, and what changed since.

    stored part     a1    b2    c3    d4          its file stays as it is
    stays           yes   no    yes   no
    changed               b7          e9          written beside it; d is gone

Few records touch few ids: only their rows are made of the part, and only they are written. When much has
changed, all rows become a part of their own.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import numpy as np

from records.columns.acl_table import CODES, AclTable
from records.ids import UUID_BYTES
from snapshot.columns import AclColumns, among, has_id, heads_of
from snapshot.digest import digest_of
from snapshot.errors import SnapshotCorruptError
from snapshot.jobs.engine.sharding import shards_of
from snapshot.store.layout import parse_shard_part_name, shard_changes_name, shard_part_name
from snapshot.store.manifest import ChangePart, SnapshotPart
from snapshot.store.parquet import PartTable, decode_changes, encode_changes, encode_part, part_digest
from snapshot.store.reading import read_part, read_rows

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy.typing as npt

    from snapshot.fold import Heads
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.manifest import SnapshotManifest
    from snapshot.store.storage import Storage

#: What changed is written anew with every batch, and read by every node that starts: an eighth of the part's
#: rows takes less of both than a part that is written whole each time.
CHANGES_SHARE: Final = 8

_NONE: Final = np.zeros(0, np.bool_)


@dataclass(frozen=True, slots=True)
class _StoredPart:
    """A part that holds one shard's rows: as the manifest names it, its bytes, its rows."""

    part: SnapshotPart
    data: bytes
    table: PartTable


class ShardState:
    """See the module. Not thread-safe.

    Attributes:
        digest: of all ACLs; to be set with them.
    """

    def __init__(self, stored: _StoredPart | None, changed: AclTable, digest: int) -> None:
        self.digest = digest
        self._stored = stored
        self._changed = changed
        # Which of the stored part's rows count.
        self._stays = _NONE if stored is None else ~has_id(stored.table.ids, changed.ids)

    @classmethod
    def empty(cls) -> ShardState:
        """Without an ACL."""
        return cls(None, AclColumns.EMPTY, 0)

    @classmethod
    def read(cls, storage: Storage, manifest: SnapshotManifest, shard: int, shards: int) -> ShardState:
        """Of a stored snapshot: its own part, or what all parts have of it where they were cut otherwise.

        A node cuts a snapshot by rows, a job with another number of shards by other hashes: then every part
        is read, one after the other, and the digest is computed.

        Raises:
            SnapshotCorruptError: a part is missing, damaged, or holds an id twice.
            SnapshotError: the store cannot be read.
        """
        own = _own_parts(manifest, shards)
        if own is None:
            found = []
            for part in manifest.parts:
                rows = read_rows(storage, manifest.ref, part)
                found.append(rows.taken(shards_of(rows.ids, shards) == shard))
            columns = AclColumns.joined(found)
            if columns.count_ids() != len(columns):
                raise SnapshotCorruptError(f"{storage.shown(manifest.ref.directory)} holds an id twice")
            return cls(None, columns, digest_of(acl.record for acl in columns))
        if shard not in own:
            return cls.empty()
        return cls._of_part(storage, manifest.ref, own[shard])

    @classmethod
    def _of_part(cls, storage: Storage, ref: SnapshotRef, part: SnapshotPart) -> ShardState:
        data = read_part(storage, ref, part)
        source = storage.shown(ref.file(part.name))
        stored = _StoredPart(part, data, PartTable(data, source=source))
        if part.changes is None:
            return cls(stored, AclColumns.EMPTY, _digest(data, source))
        data = read_part(storage, ref, part.changes)
        source = storage.shown(ref.file(part.changes.name))
        changed, gone = decode_changes(data, source=source)
        state = cls(stored, changed, _digest(data, source))
        state._stays &= ~has_id(stored.table.ids, gone)
        if len(state) != part.count:
            raise SnapshotCorruptError(f"{source} leaves {len(state)} ACLs, its manifest says {part.count}")
        return state

    def __len__(self) -> int:
        return int(self._stays.sum()) + len(self._changed)

    def rows(self) -> AclTable:
        """All ACLs."""
        if self._stored is None:
            return self._changed
        return AclTable.joined([self._stored.table.rows(self._stays), self._changed])

    def held(self, heads: Heads) -> AclColumns:
        """The ACLs whose ids begin with one of these eight bytes (columns.heads_of), which are sorted.

        Raises:
            SnapshotCorruptError: an id is there twice.
        """
        found = [self._changed.taken(among(heads, heads_of(self._changed.ids)))]
        if self._stored is not None:
            rows = self._stays & among(heads, heads_of(self._stored.table.ids))
            found.append(self._stored.table.rows(rows))
        held = AclColumns.joined(found)
        if held.count_ids() != len(held):
            raise SnapshotCorruptError("a shard of a stored snapshot holds an id twice")
        return held

    def apply(self, gone: Collection[bytes], rows: AclTable) -> None:
        """Take out the ACLs of some ids, and put in others, whose ids are not there otherwise."""
        ids = b"".join(gone)
        kept = self._changed.taken(~has_id(self._changed.ids, ids))
        self._changed = AclTable.joined([part for part in (kept, rows) if len(part)])
        if self._stored is not None:
            self._stays &= ~has_id(self._stored.table.ids, ids)

    def count_by_kind(self) -> Counter[tuple[int, int, int, int]]:
        """ACLs by the codes of resource type, pattern type, operation and permission type."""
        changed = self._changed
        columns: list[Sequence[npt.NDArray[np.int8]]] = [[getattr(changed, name) for name in CODES]]
        if self._stored is not None:
            columns.append([column[self._stays] for column in self._stored.table.codes()])
        counts: Counter[tuple[int, int, int, int]] = Counter()
        for codes in columns:
            # Four codes of one byte as one number: numpy sorts numbers many times faster than rows.
            found, numbers = np.unique(np.stack(codes, axis=1).view(np.int32), return_counts=True)
            for kind, count in zip(
                found.view(np.int8).reshape(-1, 4).tolist(), numbers.tolist(), strict=True
            ):
                resource_type, pattern_type, operation, permission_type = kind
                counts[resource_type, pattern_type, operation, permission_type] += count
        return counts

    def put(
        self, storage: Storage, ref: SnapshotRef, *, shard: int, shards: int, attempt: str
    ) -> SnapshotPart | None:
        """Write the shard's files into the directory of a snapshot to come; None where no ACL is left.

        Raises:
            SnapshotError: the store cannot be written.
        """
        if not len(self):
            return None
        # Spark may run a task twice: each run has names of its own.
        name = f"{attempt}-{uuid4().hex[:8]}"
        gone = self._gone()
        rows = len(self._changed) + len(gone) // UUID_BYTES
        if self._stored is None or rows * CHANGES_SHARE > self._stored.part.rows:
            if self._stored is None:
                data = encode_part(self._changed, digest=self.digest)
            else:
                data = self._stored.table.encoded_with(self._stays, self._changed, digest=self.digest)
            part = SnapshotPart(shard_part_name(shard, shards, name), len(self), len(data), _sha256(data))
            storage.put(ref.file(part.name), data)
            return part
        stored = self._stored.part
        changes = None
        if rows:
            data = encode_changes(self._changed, gone, digest=self.digest)
            changes = ChangePart(
                shard_changes_name(shard, shards, name), rows, len(data), _sha256(data), len(self)
            )
            storage.put(ref.file(changes.name), data)
        # Each snapshot has all of its files: none needs another one's to be read, kept or removed.
        storage.put(ref.file(stored.name), self._stored.data)
        return SnapshotPart(stored.name, stored.rows, stored.bytes, stored.sha256, changes)

    def _gone(self) -> bytes:
        """The ids of the stored part's rows in whose place there is nothing."""
        if self._stored is None:
            return b""
        ids = np.frombuffer(self._stored.table.ids, f"V{UUID_BYTES}")[~self._stays].tobytes()
        there = set(_ids_of(self._changed.ids))
        return b"".join([acl_id for acl_id in _ids_of(ids) if acl_id not in there])


def _own_parts(manifest: SnapshotManifest, shards: int) -> dict[int, SnapshotPart] | None:
    """The parts by shard, if as many shards wrote them."""
    own: dict[int, SnapshotPart] = {}
    for part in manifest.parts:
        found = parse_shard_part_name(part.name)
        if found is None or found[1] != shards or found[0] in own:
            return None
        own[found[0]] = part
    return own


def _digest(data: bytes, source: str) -> int:
    digest = part_digest(data, source=source)
    if digest is None:
        raise SnapshotCorruptError(f"{source} does not say the digest of its rows")
    return digest


def _ids_of(ids: bytes) -> list[bytes]:
    return [ids[at : at + UUID_BYTES] for at in range(0, len(ids), UUID_BYTES)]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
