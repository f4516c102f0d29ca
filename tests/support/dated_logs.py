"""A log directory with records of chosen dates, for tests of what was changed when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from records.acl import AclBinding
from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord, MetadataRecord, RemoveAccessControlEntryRecord
from records.ids import binding_uuid
from support.directory_logs import write_segment


def added(binding: AclBinding) -> AccessControlEntryRecord:
    """The record that adds an ACL."""
    return AccessControlEntryRecord.from_binding(binding_uuid(binding), binding)


def removed(binding: AclBinding) -> RemoveAccessControlEntryRecord:
    """The record that removes an ACL."""
    return RemoveAccessControlEntryRecord(binding_uuid(binding))


def date_ms(year: int, month: int, day: int) -> int:
    """Milliseconds since the epoch of a date in UTC."""
    return int(datetime(year, month, day, tzinfo=UTC).timestamp() * 1000)


def write_dated_log(directory: Path, steps: Iterable[tuple[int, Sequence[MetadataRecord]]]) -> None:
    """Write a log with one batch for each step: its time, and its records."""
    batches = []
    offset = 0
    for timestamp_ms, records in steps:
        frames = [encode_frame(record) for record in records]
        batches.append(encode_batch(frames, base_offset=offset, epoch=1, timestamp_ms=timestamp_ms))
        offset += len(frames)
    write_segment(directory, 0, *batches)
