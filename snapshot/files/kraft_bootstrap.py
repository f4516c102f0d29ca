"""What a new cluster begins with: the records of a ``bootstrap.checkpoint``, with ACLs among them.

Source: BootstrapDirectory, BootstrapMetadata and ActivationRecordsGenerator of Kafka 3.9 to 4.3; KIP-1170,
Formatter and QuorumController of 4.4. ``kafka-storage format`` writes the levels of metadata.version and of
the other features (and SCRAM users, where asked to), and the controller that is active first appends what it
finds to the empty log, as one metadata transaction. Where it looks differs:

- up to 4.3, ``bootstrap.checkpoint`` in the directory of the log directories that has the metadata log;
- from 4.4 on, ``__cluster_metadata-0/00000000000000000000-0000000000.checkpoint`` below it, if metadata
  records are in that (in a quorum with dynamic voters that file is there before 4.4, too, with control
  records only), else as before.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from records.batch import decode_batch
from records.entries import METADATA_VERSION_FEATURE
from records.metadata_version import metadata_version_name
from snapshot.errors import SnapshotError, SnapshotMissingError, SnapshotRefusedError
from snapshot.files.atomic_file import atomic_write, make_directories
from snapshot.files.kraft_batches import SnapshotBatches, feature_records
from snapshot.files.kraft_checkpoint import BOOTSTRAP_NAME, acl_records, checkpoint_name, read_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from snapshot.image import AclsImage

#: 3.6-IV2: without metadata transactions a controller refuses more than 10,000 records at its start.
_LEVEL_MIN: Final = 14
_METADATA: Final = "__cluster_metadata-0"
_FORMATTED: Final = "meta.properties"


def is_formatted(directory: Path) -> bool:
    """Whether ``kafka-storage format`` made it a log directory."""
    return (directory / _FORMATTED).is_file()


def write_bootstrap(image: AclsImage, path: Path, features: Mapping[str, int]) -> None:
    """Write a file of its own; equal images give equal files.

    Args:
        image: its ACLs; where in a log they stood is not kept.
        path: the file, made or replaced.
        features: the new cluster's levels, metadata.version among them.

    Raises:
        EncodeError: an ACL that the format cannot hold.
        SnapshotRefusedError: no controller would start with these features.
        SnapshotError: the file cannot be written.
    """
    _check(features)
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
    """Add the ACLs to what a formatted log directory begins with; all that is there stays, byte by byte.

    Returns:
        The file, and the feature levels in it.

    Raises:
        EncodeError: an ACL that the format cannot hold.
        SnapshotMissingError: the directory does not say what a cluster begins with.
        SnapshotRefusedError: the node has started before, or the file has ACLs in it already.
        SnapshotCorruptError, SnapshotUnsupportedError, SnapshotError: it cannot be read, or written.
    """
    if any((directory / _METADATA).glob("*.log")):
        raise SnapshotRefusedError(
            f"{directory} has a metadata log already, and what a cluster begins with is read only once: "
            f"format a new directory, or write the ACLs to the cluster"
        )
    path, there = _found(directory)
    if len(there):
        raise SnapshotRefusedError(
            f"{path} has {len(there)} ACLs already; format the directory anew to have others"
        )
    _check(there.metadata.features)
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
    return path, there.metadata.features


def _found(directory: Path) -> tuple[Path, AclsImage]:
    """The file that a controller of any release would take its first records from."""
    for path in (directory / _METADATA / checkpoint_name(0, 0), directory / BOOTSTRAP_NAME):
        if path.exists() and (image := read_checkpoint(path)).metadata.features:
            return path, image
    raise SnapshotMissingError(
        f"{directory} does not say what a cluster begins with, neither in {BOOTSTRAP_NAME} nor in "
        f"{_METADATA}: it is no controller's, or not the one that has the metadata log"
    )


def _check(features: Mapping[str, int]) -> None:
    level = features[METADATA_VERSION_FEATURE]
    if level < _LEVEL_MIN:
        raise SnapshotRefusedError(
            f"metadata.version {metadata_version_name(level)} has no metadata transactions, and a controller "
            f"begins with ACLs only in one: {metadata_version_name(_LEVEL_MIN)} is the first that has them"
        )


def _last_batch(data: bytes) -> int:
    """Where the footer begins, in a file that is whole."""
    position = 0
    while True:
        batch = decode_batch(data, position)
        if position + batch.size_bytes == len(data):
            return position
        position += batch.size_bytes
