"""Files of a directory log: their names, a listing, durable writes, and OSError as LogError.

    00000000000000001675.log                      a segment: record batches from offset 1675 on
    00000000000000001890-0000000001.checkpoint    Kafka's snapshot of everything below offset 1890, epoch 1
    leader-epoch-checkpoint, partition.metadata   see leader_epochs.py and identity.py
    aclog.properties, high-watermark, .lock       only in aclog's own logs
    aclog.sock                                    there too, while a node that writes the log takes requests

Everything else is passed by, as Kafka does: indexes (``.index``, ``.timeindex``), producer state
(``.snapshot``), and the leftovers of unfinished work (``.deleted``, ``.cleaned``, ``.swap``, ``.part``).

Source: org.apache.kafka.storage.internals.log.LogFileUtils, org.apache.kafka.snapshot.Snapshots.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from records.errors import LogNotFoundError, LogStorageError
from records.log.base import CheckpointId

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Marks a directory as an own log of aclog.
OWNER_FILE: Final = "aclog.properties"
HIGH_WATERMARK_FILE: Final = "high-watermark"
LOCK_FILE: Final = ".lock"
SOCKET_FILE: Final = "aclog.sock"
LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
#: In a broker's log.dir, beside the log's directory.
META_PROPERTIES_FILE: Final = "meta.properties"
#: How a broker names the directory of its metadata log.
METADATA_LOG_DIRECTORY: Final = "__cluster_metadata-0"

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")
_CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """A segment file; another ``inode`` at the same base offset is another file (truncated, then rolled)."""

    base_offset: int
    inode: int


@dataclass(frozen=True, slots=True)
class Listing:
    """What a directory held at one moment; both in offset order."""

    segments: tuple[SegmentId, ...]
    checkpoints: tuple[CheckpointId, ...]


def segment_name(base_offset: int) -> str:
    """The file name of the segment that begins at ``base_offset``."""
    return f"{base_offset:020}.log"


def list_directory(directory: Path) -> Listing:
    """What is in ``directory`` now. Raises OSError."""
    segments, checkpoints = [], []
    with os.scandir(directory) as entries:
        for entry in entries:
            if match := _SEGMENT.fullmatch(entry.name):
                segments.append(SegmentId(int(match[1]), entry.inode()))
            elif match := _CHECKPOINT.fullmatch(entry.name):
                checkpoints.append(CheckpointId(int(match[1]), int(match[2]), Path(entry.path)))
    return Listing(tuple(sorted(segments)), tuple(sorted(checkpoints)))


# --- durable writes and errors of the operating system ------------------------------------------------------


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into a LogError that names the file that failed; ``path`` if it is not known."""
    try:
        yield
    except OSError as error:
        failed = error.filename if isinstance(error.filename, str) else str(path)
        reason = f"{failed}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            raise LogNotFoundError(reason) from error
        raise LogStorageError(reason) from error


#: Syncs the content of a file, and of its other attributes only what reading it needs.
sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def sync_directory(directory: Path) -> None:
    """Make the creations and renames in ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, text: str) -> None:
    """Write a small file durably and in one step: a crash leaves the old content or the new one."""
    staging = path.with_name(f"{path.name}.tmp")
    with staging.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    staging.replace(path)
    sync_directory(path.parent)


def create_file(path: Path) -> int:
    """Create an empty file, durably; returns its descriptor, open for writing. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        sync_directory(path.parent)
    except OSError:
        os.close(descriptor)
        path.unlink(missing_ok=True)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes, position: int) -> None:
    """Write all of ``data`` at ``position``; a full disk may leave a part of it. Raises OSError."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, position)
        position += written
        rest = rest[written:]


def copy_command(directory: Path) -> str:
    """A command that copies what can be read: all that aclog understands, up to where it is damaged."""
    source = shlex.quote(f"file:{directory}")
    return f"aclog log dump --log {source} | aclog log append --log NEW_DIRECTORY --create --skip-others"
