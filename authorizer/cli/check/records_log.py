"""A file of kafka-dump-log payload lines as a log to read: what ``aclog check --records`` asks.

Offsets count records, from 0: the state after the first n of them is the one after offset n - 1. Each record
is a batch of its own, whatever its "batch" key says: ``atOffset`` counts records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from authorizer.cli.input import payload_of
from records.codecs.json import from_json
from records.errors import DecodeError, LogReadOnlyError, OffsetOutOfRangeError
from records.ids import METADATA_TOPIC_ID
from records.log.base import READ_BYTES_MAX, LogIdentity
from records.log.defaults import LogDefaults, has_epoch_at
from records.log_batch import LogBatch, LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from records.entries import MetadataRecord

# One read of the state machine: enough that its overhead does not count.
_RECORDS_PER_READ: Final = 10_000


class RecordsLog(LogDefaults):
    """Implements MetadataLog over lines that were read before.

    Raises:
        DecodeError: a line that is not a record; control records of a dump are left out.
    """

    def __init__(self, lines: Iterable[bytes], source: str) -> None:
        self._source = source
        self._batches: list[LogBatch] = []
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(line, f"{source} line {number}")

    def _take(self, line: bytes, source: str) -> None:
        try:
            payload = payload_of(line)
            if "control" in payload:
                return
            record = from_json(payload)
        except DecodeError as error:
            raise error.located(source=source) from error
        offset = len(self._batches)
        timestamp_ms = payload.get("timestamp")
        at_ms = timestamp_ms if isinstance(timestamp_ms, int) else 0
        logged = LogRecord(offset, at_ms, record)
        self._batches.append(LogBatch(offset, offset + 1, 0, at_ms, len(line), (logged,)))

    @property
    def url(self) -> str:
        return self._source

    @property
    def identity(self) -> LogIdentity:
        return LogIdentity("records", METADATA_TOPIC_ID)

    def start_offset(self) -> int:
        return 0

    def high_watermark(self) -> int:
        return len(self._batches)

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> Sequence[LogBatch]:
        if not 0 <= offset <= len(self._batches):
            raise OffsetOutOfRangeError(offset, start=0, end=len(self._batches))
        return self._batches[offset : offset + _RECORDS_PER_READ]

    def is_history(self, end_offset: int, epoch: int, *, empty_tail: int = 0) -> bool | None:
        return has_epoch_at(self, end_offset, epoch)

    def wait(self, offset: int, timeout_s: float) -> bool:
        return offset < len(self._batches)

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        raise LogReadOnlyError(f"{self._source}: a file of records is only read, not {len(records)} appended")

    def close(self) -> None:
        """Nothing is open."""
