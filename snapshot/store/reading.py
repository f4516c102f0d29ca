"""Reading of one stored snapshot, with all checks except its digest.

A manifest is checked by its checksum and its directory, a part by its size and SHA-256, all parts by their
counts. The digest is then trusted: hashing a million ACLs takes longer than loading them.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from records.columns.acl_table import AclTable
from records.columns.arrow_arrays import release_memory
from records.ids import uuid_to_string
from snapshot.columns import AclColumns, has_id
from snapshot.errors import SnapshotCorruptError, SnapshotForeignError, SnapshotMissingError
from snapshot.image import AclsImage
from snapshot.metadata_image import MetadataImage
from snapshot.store.layout import MANIFEST_NAME, SnapshotRef
from snapshot.store.manifest import SnapshotFile, SnapshotManifest, SnapshotPart
from snapshot.store.metadata_file import decode_metadata
from snapshot.store.parquet import decode_changes, decode_part
from snapshot.store.stored import StoredSnapshot

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.store.storage import Storage


def read_manifest(storage: Storage, ref: SnapshotRef, identity: LogIdentity | None) -> SnapshotManifest:
    """The manifest, checked against its directory and, if given, against the log.

    Raises:
        SnapshotMissingError: there is no such snapshot.
        SnapshotCorruptError: it is unfinished, or the manifest is damaged.
        SnapshotForeignError: it belongs to another log.
        SnapshotUnsupportedError: it has a newer format.
        SnapshotError: the store cannot be read.
    """
    path = ref.file(MANIFEST_NAME)
    shown = storage.shown(path)
    try:
        data = storage.read(path)
    except FileNotFoundError as error:
        if storage.files(ref.directory):
            raise SnapshotCorruptError(f"{shown} is missing: the snapshot is unfinished") from error
        raise SnapshotMissingError(f"snapshot {storage.shown(ref.directory)} does not exist") from error
    manifest = SnapshotManifest.from_json(data, source=shown)
    if manifest.identity.cluster_id != ref.cluster_id:
        raise SnapshotForeignError(
            f"{shown} belongs to cluster `{manifest.identity.cluster_id}`, not to `{ref.cluster_id}`"
        )
    if identity is not None and manifest.identity.topic_id != identity.topic_id:
        raise SnapshotForeignError(
            f"{shown} belongs to topic id {uuid_to_string(manifest.identity.topic_id)}, and this log has "
            f"topic id {uuid_to_string(identity.topic_id)}: another topic, or deleted and created again"
        )
    end_offset, epoch = manifest.provenance.end_offset, manifest.provenance.epoch
    if (end_offset, epoch) != (ref.end_offset, ref.epoch):
        raise SnapshotCorruptError(
            f"{shown} has end offset {end_offset} and epoch {epoch}, which are not those of its directory"
        )
    return manifest


def read_rows(storage: Storage, ref: SnapshotRef, part: SnapshotPart) -> AclTable:
    """The rows of one part with its changes applied.

    SnapshotCorruptError: as ``read_part``; or another number of rows than in the manifest.
    """
    source = storage.shown(ref.file(part.name))
    rows = decode_part(read_part(storage, ref, part), rows=part.rows, source=source)
    if part.changes is None:
        return rows
    source = storage.shown(ref.file(part.changes.name))
    data = read_part(storage, ref, part.changes)
    changed, removed_ids = decode_changes(data, rows=part.changes.rows, source=source)
    rows = AclTable.concat([rows.take(~has_id(rows.ids, changed.ids + removed_ids)), changed])
    if len(rows) != part.count:
        raise SnapshotCorruptError(f"{source} leaves {len(rows)} ACLs, its manifest says {part.count}")
    return rows


def read_part(storage: Storage, ref: SnapshotRef, part: SnapshotFile) -> bytes:
    """The bytes of one file, checked by size and SHA-256. SnapshotCorruptError: missing or damaged."""
    path = ref.file(part.name)
    shown = storage.shown(path)
    try:
        data = storage.read(path)
    except FileNotFoundError as error:
        raise SnapshotCorruptError(f"{shown} is missing") from error
    if len(data) != part.bytes:
        raise SnapshotCorruptError(f"{shown} has {len(data)} bytes, its manifest says {part.bytes}")
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise SnapshotCorruptError(f"{shown} is damaged: its SHA-256 differs from its manifest's")
    return data


def read_metadata(storage: Storage, manifest: SnapshotManifest) -> MetadataImage:
    """The metadata other than ACLs of a stored snapshot. SnapshotCorruptError: missing or damaged."""
    features, brokers, file = manifest.features, manifest.brokers, manifest.metadata
    if file is None:  # with features or brokers, the snapshot was written before these files existed
        return MetadataImage(features, brokers, is_complete=not features and not brokers)
    data = read_part(storage, manifest.ref, file)
    return decode_metadata(data, features, brokers, source=storage.shown(manifest.ref.file(file.name)))


def read_snapshot(storage: Storage, ref: SnapshotRef, identity: LogIdentity | None) -> StoredSnapshot:
    """Read the complete snapshot. SnapshotCorruptError: also if the rows do not match the counts."""
    manifest = read_manifest(storage, ref, identity)
    parts = [read_rows(storage, ref, part) for part in manifest.parts]
    columns = AclColumns.concat(parts)
    del parts
    shown = storage.shown(ref.directory)
    if columns.count_ids() != manifest.count:
        raise SnapshotCorruptError(f"{shown} has {manifest.count} rows but {columns.count_ids()} ids")
    if columns.count_by_resource_type() != manifest.count_by_resource_type:
        raise SnapshotCorruptError(f"{shown} has other counts by resource type than its manifest")
    release_memory()
    image = AclsImage.restored(
        columns,
        digest=manifest.digest,
        provenance=manifest.provenance,
        metadata=read_metadata(storage, manifest),
    )
    return StoredSnapshot(ref, image, manifest)
