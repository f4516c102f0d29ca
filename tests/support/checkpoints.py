"""Checkpoint files with records of any kind; the product writes only ACLs and features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from records.batch import encode_batch
from records.control import (
    ControlType,
    encode_control_key,
    snapshot_footer_value,
    snapshot_header_value,
)
from records.entries import MetadataRecord
from records.log.base import CheckpointId
from support.column_logs import frame_of


def checkpoint_of(directory: Path, records: Sequence[MetadataRecord]) -> Path:
    """A checkpoint file with these records."""
    path = directory / CheckpointId(100, 1).name
    pieces: list[tuple[list[bytes], ControlType | None]] = [
        ([snapshot_header_value(5)], ControlType.SNAPSHOT_HEADER),
        ([frame_of(record) for record in records], None),
        ([snapshot_footer_value()], ControlType.SNAPSHOT_FOOTER),
    ]
    data, offset = b"", 0
    for values, control in pieces:
        keys = None if control is None else [encode_control_key(control)]
        data += encode_batch(
            values, base_offset=offset, epoch=1, timestamp_ms=5, keys=keys, is_control=control is not None
        )
        offset += len(values)
    path.write_bytes(data)
    return path
