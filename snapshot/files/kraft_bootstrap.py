"""The first records of a new cluster, ``bootstrap.checkpoint``, with ACLs among them.

Source: BootstrapDirectory, BootstrapMetadata and ActivationRecordsGenerator of Kafka 3.9 to 4.3; KIP-1170,
Formatter and QuorumController of 4.4. ``kafka-storage format`` writes the levels of metadata.version and of
the other features (and SCRAM users if requested). The first active controller appends these records to the
empty log as one metadata transaction. It reads them from:

- up to 4.3, ``bootstrap.checkpoint`` in the directory of the log directories that has the metadata log;
- from 4.4 on, ``__cluster_metadata-0/00000000000000000000-0000000000.checkpoint`` below it, if metadata
  records are in that (in a quorum with dynamic voters that file is there before 4.4, too, with control
  records only), else as before.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from records.batch import decode_batch
from records.entries import METADATA_VERSION_FEATURE
from records.log.base import CheckpointId
from records.metadata_version import metadata_version_name
from snapshot.errors import SnapshotError, SnapshotMissingError, SnapshotRefusedError
from snapshot.files.atomic_file import atomic_write, make_directories
from snapshot.files.kraft_checkpoint import (
    BOOTSTRAP_NAME,
    SnapshotBatches,
    acl_records,
    feature_records,
    read_checkpoint,
)
from snapshot.image import AclsImage

#: 3.6-IV2: without metadata transactions a controller refuses more than 10,000 records at its start.
_LEVEL_MIN: Final = 14
_METADATA: Final = "__cluster_metadata-0"
_FORMATTED: Final = "meta.properties"


def is_formatted(directory: Path) -> bool:
    """Whether ``kafka-storage format`` has formatted the directory."""
    return (directory / _FORMATTED).is_file()


def write_bootstrap(image: AclsImage, path: Path, features: Mapping[str, int]) -> None:
    """Write a new file; equal ACLs give equal files.

    ``features``: the new cluster's levels, including metadata.version.

    Raises:
        EncodeError: an ACL that the format cannot hold.
        SnapshotRefusedError: no controller would start with these features.
        SnapshotError: the file cannot be written.
    """
    _check_transactions(features)
    batches = SnapshotBatches(epoch=0, timestamp_ms=0)
    beginning = [batches.header(), *batches.records(feature_records(features))]
    try:
        make_directories(path.parent)
        with atomic_write(path) as file:
            file.writelines(beginning)
            file.writelines(batches.records(acl_records(image)))
            file.write(batches.footer())
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error


def add_to_formatted(image: AclsImage, directory: Path) -> tuple[Path, Mapping[str, int]]:
    """Add the ACLs to the bootstrap records of a formatted log directory; existing bytes do not change.

    Returns the file, and the feature levels in it.

    Raises:
        EncodeError: an ACL that the format cannot hold.
        SnapshotMissingError: the directory has no bootstrap records.
        SnapshotRefusedError: the node has started before, or the file already has ACLs.
        SnapshotError: the file cannot be read or written.
    """
    if any((directory / _METADATA).glob("*.log")):
        raise SnapshotRefusedError(
            f"{directory} already has a metadata log, and the bootstrap records are read only once: format a "
            f"new directory, or write the ACLs to the cluster"
        )
    path, bootstrap = _find_bootstrap(directory)
    if len(bootstrap):
        raise SnapshotRefusedError(
            f"{path} already has {len(bootstrap)} ACLs; format the directory again to replace them"
        )
    _check_transactions(bootstrap.metadata.features)
    try:
        data, status = path.read_bytes(), path.stat()
        footer = _last_batch(data)
        offset = decode_batch(data, footer).base_offset
        batches = SnapshotBatches(offset=offset, epoch=0, timestamp_ms=0)
        with atomic_write(path) as file:
            os.fchown(file.fileno(), status.st_uid, status.st_gid)  # Kafka's user, who must read it
            os.fchmod(file.fileno(), status.st_mode & 0o7777)
            file.write(data[:footer])
            file.writelines(batches.records(acl_records(image)))
            file.write(batches.footer())
    except OSError as error:
        raise SnapshotError(f"cannot write {path}: {error.strerror or error}") from error
    return path, bootstrap.metadata.features


def _find_bootstrap(directory: Path) -> tuple[Path, AclsImage]:
    """The file that a controller of any release would read its bootstrap records from."""
    for path in (directory / _METADATA / CheckpointId(0, 0).name, directory / BOOTSTRAP_NAME):
        if path.exists() and (image := read_checkpoint(path)).metadata.features:
            return path, image
    raise SnapshotMissingError(
        f"{directory} has no bootstrap records, neither in {BOOTSTRAP_NAME} nor in {_METADATA}: name the "
        f"controller's log directory that has the metadata log"
    )


def _check_transactions(features: Mapping[str, int]) -> None:
    level = features[METADATA_VERSION_FEATURE]
    if level < _LEVEL_MIN:
        raise SnapshotRefusedError(
            f"metadata.version {metadata_version_name(level)} has no metadata transactions, and a controller "
            f"needs one to start with ACLs: use {metadata_version_name(_LEVEL_MIN)} or later"
        )


def _last_batch(data: bytes) -> int:
    """The position of the footer in a complete file."""
    position = 0
    while True:
        batch = decode_batch(data, position)
        if position + batch.size_bytes == len(data):
            return position
        position += batch.size_bytes
