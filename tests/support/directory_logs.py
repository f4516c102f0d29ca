"""Log directories for tests: written from raw batches, and read completely."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from records.batch import encode_batch
from records.codecs.kraft import encode_frame
from records.entries import AccessControlEntryRecord
from records.errors import AclogError
from records.ids import Uuid
from records.log.base import READ_BYTES_MAX
from records.log.directory import DirectoryLog
from records.log_batch import LogBatch, LogRecord

TIMESTAMP_MS = 1_700_000_000_000


def acl(number: int) -> AccessControlEntryRecord:
    """The ACL that tests write at offset ``number``; all are different."""
    return AccessControlEntryRecord(
        Uuid(number.to_bytes(16, "big")), 2, f"topic-{number}", 3, f"User:u{number % 7}", "*", 3, 3
    )


def acls(start: int, end: int) -> list[AccessControlEntryRecord]:
    return [acl(number) for number in range(start, end)]


def batch_bytes(base_offset: int, count: int = 1, *, epoch: int = 1) -> bytes:
    """The batch of ``acls(base_offset, base_offset + count)``, as a KRaft leader writes it."""
    values = [encode_frame(record) for record in acls(base_offset, base_offset + count)]
    return encode_batch(values, base_offset=base_offset, epoch=epoch, timestamp_ms=TIMESTAMP_MS)


def segment_path(directory: Path, base_offset: int) -> Path:
    return directory / f"{base_offset:020}.log"


def write_segment(directory: Path, base_offset: int, *batches: bytes) -> Path:
    """Write a segment as another program would."""
    directory.mkdir(parents=True, exist_ok=True)
    path = segment_path(directory, base_offset)
    path.write_bytes(b"".join(batches))
    return path


def append_bytes(path: Path, *batches: bytes) -> None:
    with path.open("ab") as file:
        file.write(b"".join(batches))


def flip_bit(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def read_batches(
    log: DirectoryLog, offset: int | None = None, *, max_bytes: int = READ_BYTES_MAX
) -> list[LogBatch]:
    """All batches from ``offset`` (the log's start) to the high watermark."""
    position = log.start_offset() if offset is None else offset
    batches: list[LogBatch] = []
    end = log.high_watermark()
    while position < end:
        read = log.read(position, max_bytes=max_bytes)
        assert read, f"nothing at {position}, below the high watermark {end}"
        batches += read
        position = read[-1].end_offset
    return batches


def read_until_error(log: DirectoryLog) -> tuple[list[LogBatch], AclogError | None]:
    """The batches from the log's start up to its end, or to an error and that error."""
    batches: list[LogBatch] = []
    try:
        position = log.start_offset()
        while position < log.high_watermark():
            batches += log.read(position)
            position = batches[-1].end_offset
    except AclogError as error:
        return batches, error
    return batches, None


def records_of(batches: Iterable[LogBatch]) -> list[LogRecord]:
    return [record for batch in batches for record in batch.records]


def offsets_of(batches: Iterable[LogBatch]) -> list[int]:
    return [record.offset for record in records_of(batches)]


def assert_holds_acls(batches: Sequence[LogBatch], start: int, end: int) -> None:
    """The batches hold ``acl(n)`` at offset n, for all of [start, end), and nothing else."""
    found = [(record.offset, record.record) for record in records_of(batches)]
    assert found == [(number, acl(number)) for number in range(start, end)]


def read_path(directory: Path) -> list[LogBatch]:
    """All batches of the log in ``directory``, with a new reader."""
    with DirectoryLog.open(directory) as log:
        return read_batches(log)
