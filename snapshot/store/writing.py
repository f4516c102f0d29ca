"""Writing of one snapshot: verify the image, put its parts, put its manifest last."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from snapshot.digest import digest_to_string, table_digest
from snapshot.errors import SnapshotError, SnapshotRefusedError
from snapshot.store.layout import MANIFEST_NAME, SnapshotRef, part_name
from snapshot.store.manifest import MetadataFile, SnapshotFile, SnapshotManifest, SnapshotPart
from snapshot.store.metadata_file import put_metadata
from snapshot.store.parquet import encode_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from records.log.base import LogIdentity
    from snapshot.image import AclsImage
    from snapshot.store.storage import Storage

#: About 6 MB of Parquet: small enough to encode and hash in memory, and for one put.
ROWS_PER_PART: Final = 250_000


def write_snapshot(
    storage: Storage,
    ref: SnapshotRef,
    image: AclsImage,
    identity: LogIdentity,
    *,
    log_end_time_ms: int,
    rows_per_part: int = ROWS_PER_PART,
    commit: Callable[[SnapshotManifest], SnapshotManifest],
) -> SnapshotManifest:
    """Write the complete snapshot.

    ``commit`` puts the manifest and returns the stored one. That may be of another, faster attempt; the parts
    of this one are then removed. SnapshotRefusedError: the image's digest or count does not match its
    content; nothing was written. EncodeError: an ACL that the format cannot hold.
    """
    image = image.merged()
    columns = image.columns
    _verify(image)
    # Names are unique to this attempt: another node may be writing the same snapshot concurrently. Retention
    # removes parts that no manifest names.
    attempt = uuid4().hex
    parts: list[SnapshotPart] = []
    metadata: MetadataFile | None = None
    try:
        for index, start in enumerate(range(0, len(columns), rows_per_part)):
            rows = columns.take(slice(start, start + rows_per_part))
            data = encode_part(rows)
            part = SnapshotPart(
                part_name(index, attempt), len(rows), len(data), hashlib.sha256(data).hexdigest()
            )
            parts.append(part)
            storage.put(ref.file(part.name), data)
        metadata = put_metadata(storage, ref, image.metadata, attempt=attempt)
        manifest = SnapshotManifest(
            identity=identity,
            provenance=image.provenance,
            log_end_time_ms=log_end_time_ms,
            count=len(image),
            count_by_resource_type=columns.count_by_resource_type(),
            digest=image.digest,
            features=image.metadata.features,
            brokers=image.metadata.brokers,
            parts=tuple(parts),
            metadata=metadata,
        )
        stored = commit(manifest)
    except BaseException:
        # Frees a full disk before the next retention. A manifest that exists may be this one, if only the
        # store's response was lost.
        with suppress(SnapshotError):
            if MANIFEST_NAME not in storage.files(ref.directory):
                _remove(storage, ref, parts if metadata is None else [*parts, metadata])
        raise
    _remove(storage, ref, set(manifest.files).difference(stored.files))
    return stored


def _remove(storage: Storage, ref: SnapshotRef, files: Iterable[SnapshotFile]) -> None:
    for file in files:
        storage.remove(ref.file(file.name))


def _verify(image: AclsImage) -> None:
    """Compare digest and count, which the fold updated incrementally, with the content."""
    count = len(image.columns)
    digest = table_digest(image.columns)
    if (count, digest) != (len(image), image.digest):
        raise SnapshotRefusedError(
            f"the state at end offset {image.provenance.end_offset} is inconsistent: it claims {len(image)} "
            f"ACLs with digest {digest_to_string(image.digest)}, but holds {count} with "
            f"{digest_to_string(digest)}. Restart the node, and report this as a bug"
        )
