"""The names of files in a directory log, and what a listing of one means.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from records.log.base import CheckpointId

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
