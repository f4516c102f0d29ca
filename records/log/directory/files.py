"""Files of a directory log: names, a listing, durable writes, OSError as LogError, and whether they changed.

    00000000000000001675.log                      a segment: record batches from offset 1675 on
    00000000000000001890-0000000001.checkpoint    Kafka's snapshot of everything below offset 1890, epoch 1
    leader-epoch-checkpoint, partition.metadata   see recovery.py and identity.py
    aclog.properties, high-watermark, .lock       only in aclog-managed logs
    aclog.sock                                    in these, while a node that writes the log accepts requests

All other files are ignored, as in Kafka: indexes (``.index``, ``.timeindex``), producer state
(``.snapshot``), and leftovers of unfinished work (``.deleted``, ``.cleaned``, ``.swap``, ``.part``).

Source: org.apache.kafka.storage.internals.log.LogFileUtils, org.apache.kafka.snapshot.Snapshots.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from records.errors import LogNotFoundError, LogStorageError
from records.log.base import CheckpointId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Marks a directory as an aclog-managed log.
OWNER_FILE: Final = "aclog.properties"
HIGH_WATERMARK_FILE: Final = "high-watermark"
LOCK_FILE: Final = ".lock"
SOCKET_FILE: Final = "aclog.sock"
LEADER_EPOCHS_FILE: Final = "leader-epoch-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
#: In a broker's log.dir, next to the log's directory.
META_PROPERTIES_FILE: Final = "meta.properties"
#: Name of the directory of a broker's metadata log.
METADATA_LOG_DIRECTORY: Final = "__cluster_metadata-0"

_SEGMENT: Final = re.compile(r"([0-9]{20})\.log")


@dataclass(frozen=True, slots=True, order=True)
class SegmentId:
    """A segment file; a new ``inode`` at the same base offset is a new file (truncated, then rolled)."""

    base_offset: int
    inode: int


@dataclass(frozen=True, slots=True)
class Listing:
    """Files of a directory at one time, in offset order."""

    segments: tuple[SegmentId, ...]
    checkpoints: tuple[CheckpointId, ...]


def segment_name(base_offset: int) -> str:
    """The file name of the segment that begins at ``base_offset``."""
    return f"{base_offset:020}.log"


def list_directory(directory: Path) -> Listing:
    """List the files of a log. Raises OSError."""
    segments, checkpoints = [], []
    with os.scandir(directory) as entries:
        for entry in entries:
            if match := _SEGMENT.fullmatch(entry.name):
                segments.append(SegmentId(int(match[1]), entry.inode()))
            elif checkpoint := CheckpointId.parse(entry.name, Path(entry.path)):
                checkpoints.append(checkpoint)
    return Listing(tuple(sorted(segments)), tuple(sorted(checkpoints)))


# --- durable writes and errors of the operating system ------------------------------------------------------


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Convert an OSError to a LogError that names the file, or ``path`` if the OSError has none."""
    try:
        yield
    except OSError as error:
        failed = error.filename if isinstance(error.filename, str) else str(path)
        reason = f"{failed}: {error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            raise LogNotFoundError(reason) from error
        raise LogStorageError(reason) from error


#: Syncs the content of a file, and only those attributes that reading it needs.
sync_data: Final = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


def sync_directory(directory: Path) -> None:
    """Make the creations and renames in ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, text: str) -> None:
    """Write a small file durably and atomically: after a crash it has the old content or the new one."""
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
    """Write all of ``data`` at ``position``. Raises OSError; a part may be written, as on a full disk."""
    remaining = memoryview(data)
    while remaining:
        written = os.pwrite(descriptor, remaining, position)
        position += written
        remaining = remaining[written:]


def copy_command(directory: Path) -> str:
    """A command that copies all records that aclog understands, up to the first damaged one."""
    source = shlex.quote(f"file:{directory}")
    return f"aclog log dump --log {source} | aclog log append --log NEW_DIRECTORY --create --skip-others"


# --- whether files changed --------------------------------------------------------------------------------

#: Longer than a tick of the kernel's clock for files (10 ms at most).
_TICK_S: Final = 0.02
_CHECK_INTERVAL_S: Final = 1.0


class QuietFiles:
    """Whether a log's files are as when they were last checked completely. Not thread-safe.

    A complete check lists the directory and reads files; comparing times and sizes takes a fifth of that. Two
    writes within a tick of the file system's clock have the same time. So a check counts only if it comes
    more than a tick after the times were first seen, and it is repeated every second.
    """

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._monotonic_s = monotonic_s
        self._stamp: tuple[object, ...] = ()
        self._seen_s = self._now_s = 0.0
        self._checked_s: float | None = None

    def are_quiet(self, offset: int, paths: Sequence[Path]) -> bool:
        """Whether no complete check is needed. Raises OSError."""
        stats = [path.stat() for path in paths]
        stamp = (offset, *((each.st_ino, each.st_size, each.st_mtime_ns) for each in stats))
        now_s = self._now_s = self._monotonic_s()
        if stamp != self._stamp:
            self._stamp, self._seen_s, self._checked_s = stamp, now_s, None
        return self._checked_s is not None and now_s < self._checked_s + _CHECK_INTERVAL_S

    def record_check(self) -> None:
        """Record that a complete check after the last ``are_quiet`` found no change."""
        self._checked_s = self._now_s if self._now_s >= self._seen_s + _TICK_S else None
