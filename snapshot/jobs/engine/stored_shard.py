"""One shard of a stored snapshot, whoever wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshot.columns import AclColumns
from snapshot.digest import digest_of
from snapshot.errors import SnapshotCorruptError
from snapshot.image import AclsImage, Provenance
from snapshot.jobs.engine.sharding import shards_of
from snapshot.store.layout import parse_shard_part_name
from snapshot.store.parquet import decode_part, part_digest
from snapshot.store.reading import read_part

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.columns.acl_table import AclTable
    from snapshot.store.manifest import SnapshotManifest, SnapshotPart
    from snapshot.store.storage import Storage


@dataclass(frozen=True, slots=True)
class StoredShard:
    """One shard's ACLs.

    Attributes:
        columns: the ACLs.
        digest: of these.
        part: the bytes of the part that holds just these and says their digest; None if there is none.
    """

    columns: AclColumns
    digest: int
    part: bytes | None

    def image(self, provenance: Provenance, features: Mapping[str, int]) -> AclsImage:
        """The ACLs as an image."""
        return AclsImage.restored(self.columns, digest=self.digest, features=features, provenance=provenance)


def read_shard(storage: Storage, manifest: SnapshotManifest, shard: int, shards: int) -> StoredShard:
    """One shard: its own part, or what all parts have of it where they were cut otherwise.

    A node cuts a snapshot by rows, a job with another number of shards by other hashes: then every part is
    read, one after the other, and the digest is computed.

    Raises:
        SnapshotCorruptError: a part is missing, damaged, or holds an id twice.
        SnapshotError: the store cannot be read.
    """
    own = _own_parts(manifest, shards)
    if own is None:
        kept = [_rows_of(storage, manifest, part, shard, shards) for part in manifest.parts]
        columns = AclColumns.joined(kept)
        digest, data = digest_of(acl.record for acl in columns), None
    elif shard in own:
        data = read_part(storage, manifest.ref, own[shard])
        source = storage.shown(manifest.ref.file(own[shard].name))
        columns = AclColumns.joined([decode_part(data, source=source)])
        said = part_digest(data, source=source)
        if said is None:
            raise SnapshotCorruptError(f"{source} does not say the digest of its rows")
        digest = said
    else:
        return StoredShard(AclColumns.EMPTY, 0, None)
    if columns.count_ids() != len(columns):
        raise SnapshotCorruptError(f"{storage.shown(manifest.ref.directory)} holds an id twice")
    return StoredShard(columns, digest, data)


def _own_parts(manifest: SnapshotManifest, shards: int) -> dict[int, SnapshotPart] | None:
    """The parts by shard, if so many shards wrote them."""
    own: dict[int, SnapshotPart] = {}
    for part in manifest.parts:
        found = parse_shard_part_name(part.name)
        if found is None or found[1] != shards or found[0] in own:
            return None
        own[found[0]] = part
    return own


def _rows_of(
    storage: Storage, manifest: SnapshotManifest, part: SnapshotPart, shard: int, shards: int
) -> AclTable:
    source = storage.shown(manifest.ref.file(part.name))
    rows = decode_part(read_part(storage, manifest.ref, part), source=source)
    return rows.taken(shards_of(rows.ids, shards) == shard)
