"""Writing one snapshot: the image is proved, its parts are put, its manifest last."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from snapshot.digest import digest_to_string, table_digest
from snapshot.errors import SnapshotError, SnapshotRefusedError
from snapshot.store.layout import MANIFEST_NAME, part_name
from snapshot.store.manifest import SnapshotManifest, SnapshotPart
from snapshot.store.metadata_file import put_metadata
from snapshot.store.parquet import encode_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from records.log.base import LogIdentity
    from snapshot.image import AclsImage
    from snapshot.store.layout import SnapshotRef
    from snapshot.store.manifest import MetadataFile, SnapshotFile
    from snapshot.store.storage import Storage

#: About 6 MB of Parquet: a part is encoded and hashed in memory, and is small enough for one put.
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
    """Put the whole snapshot.

    Args:
        storage: where to.
        ref: which snapshot it is.
        image: its state.
        identity: the log that it is a state of.
        log_end_time_ms: the last time at which the image's end offset was the log's end.
        rows_per_part: see ROWS_PER_PART.
        commit: puts the manifest. Gives the one that is there then: it may be another attempt's, which was
            faster, and the parts of this one go.

    Raises:
        SnapshotRefusedError: the image's digest or count is not its content's; nothing was written.
        EncodeError: an ACL that the format cannot hold.
        SnapshotError: the store cannot be written to.
    """
    image = image.merged()
    columns = image.columns
    _prove(image)
    # Names of this attempt alone: another node may be writing the same snapshot right now, and one part must
    # never be half ours. Parts that no manifest came to name are collected later (retention.py).
    attempt = uuid4().hex
    parts: list[SnapshotPart] = []
    metadata: MetadataFile | None = None
    try:
        for index, start in enumerate(range(0, len(columns), rows_per_part)):
            rows = columns.taken(slice(start, start + rows_per_part))
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
        # A full disk would otherwise stay full until retention comes by. A manifest that is there may be this
        # one, though the store's answer was lost.
        with suppress(SnapshotError):
            if MANIFEST_NAME not in storage.files(ref.directory):
                _remove(storage, ref, parts if metadata is None else [*parts, metadata])
        raise
    _remove(storage, ref, set(manifest.files).difference(stored.files))
    return stored


def _remove(storage: Storage, ref: SnapshotRef, files: Iterable[SnapshotFile]) -> None:
    for file in files:
        storage.remove(ref.file(file.name))


def _prove(image: AclsImage) -> None:
    """The digest and the count followed the fold record by record; here they meet what they stand for."""
    count = len(image.columns)
    digest = table_digest(image.columns)
    if (count, digest) != (len(image), image.digest):
        raise SnapshotRefusedError(
            f"the state at end offset {image.provenance.end_offset} contradicts itself: it says {len(image)} "
            f"ACLs with digest {digest_to_string(image.digest)}, and holds {count} with "
            f"{digest_to_string(digest)}"
        )
