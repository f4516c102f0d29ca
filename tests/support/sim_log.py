"""SimLog: a metadata log in memory, with all faults that a log can have.

Like every log it reports a truncation to its reader: the first read beyond the offset from which the log was
rewritten is out of range, with that offset as the end.

A full implementation of MetadataLog for one process: several threads may append and read. These methods
cause faults: ``truncate``, ``trim``, ``compact``, ``replace``, ``damage``, ``fail_reads``.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import attrgetter

from records.entries import (
    AccessControlEntryRecord,
    ControlRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from records.errors import DecodeError, LogError, LogMovedError, OffsetOutOfRangeError
from records.ids import METADATA_TOPIC_ID, Uuid
from records.log.base import READ_BYTES_MAX, LogIdentity, MetadataLog
from records.log_batch import LogBatch, LogRecord
from support.sim_history import History

RECORD_BYTES = 100
FIRST_TIMESTAMP_MS = 1_700_000_000_000


def identity(cluster_id: str = "sim-cluster", topic_id: Uuid = METADATA_TOPIC_ID) -> LogIdentity:
    return LogIdentity(cluster_id, topic_id)


def batch_of(records: Sequence[MetadataRecord | ControlRecord], base_offset: int, epoch: int = 1) -> LogBatch:
    """A batch as a log returns it; each record's timestamp follows its offset."""
    logged = tuple(
        LogRecord(offset, FIRST_TIMESTAMP_MS + offset, record)
        for offset, record in enumerate(records, base_offset)
    )
    return LogBatch(
        base_offset=base_offset,
        end_offset=base_offset + len(records),
        epoch=epoch,
        timestamp_ms=logged[-1].timestamp_ms,
        size_bytes=RECORD_BYTES * len(records),
        records=logged,
    )


class SimLog(MetadataLog):
    """``history`` has all records of the log, including removed ones.

    ``after_read`` is called after each access to the log, for events between two accesses;
    ``read_bytes_max`` makes it slow.
    """

    url = "sim:log"
    removal_retention_ms: int | None = None

    def __init__(self, log_identity: LogIdentity | None = None) -> None:
        self._identity = log_identity or identity()
        self._changed = threading.Condition()
        self._batches: list[LogBatch] = []
        self._start = 0
        self._end = 0
        self._high_watermark = 0
        self._epoch = 1
        self._failures: list[Exception] = []
        self._damaged: dict[int, Exception] = {}
        self._is_closed = False
        self._forget_at_ms: dict[int, int] = {}
        self._read_to = 0
        self._rewritten_from: int | None = None
        self.read_bytes_max = READ_BYTES_MAX
        self.after_read: Callable[[], None] | None = None
        self.history = History()

    # --- MetadataLog -------------------------------------------------------------------------------------

    @property
    def identity(self) -> LogIdentity:
        return self._identity

    def start_offset(self) -> int:
        return self._start

    def high_watermark(self) -> int:
        high_watermark = self._high_watermark
        self._after_read()
        return high_watermark

    def read(self, offset: int, *, max_bytes: int = READ_BYTES_MAX) -> list[LogBatch]:
        with self._changed:
            if self._is_closed:
                raise LogError("closed")
            if self._failures:
                raise self._failures.pop(0)
            rewritten_from, self._rewritten_from = self._rewritten_from, None
            if rewritten_from is not None and offset > rewritten_from:
                raise OffsetOutOfRangeError(offset, start=self._start, end=rewritten_from)
            if not self._start <= offset <= self._end:
                raise OffsetOutOfRangeError(offset, start=self._start, end=self._end)
            found: list[LogBatch] = []
            size_bytes = 0
            first = bisect_right(self._batches, offset, key=attrgetter("end_offset"))
            for batch in self._batches[first:]:
                if batch.end_offset > self._high_watermark:
                    break
                if error := self._damaged.get(batch.base_offset):
                    if not found:
                        raise error
                    break
                size_bytes += batch.size_bytes
                if found and size_bytes > min(max_bytes, self.read_bytes_max):
                    break
                found.append(batch)
                self._read_to = batch.end_offset
            self._after_read()
            return found

    def wait(self, offset: int, timeout_s: float) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or self._high_watermark > offset, timeout_s)
            return self._high_watermark > offset

    def append(self, records: Sequence[MetadataRecord], *, after: int | None = None) -> int:
        if after not in (None, self._end):
            raise LogMovedError(f"it ends at {self._end} and not at {after}")
        end = self.append_uncommitted(records)
        self.commit()
        return end

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    # --- how the log goes on -----------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        return self._end

    @property
    def committed_end(self) -> int:
        """The high watermark, without a call of ``after_read``."""
        return self._high_watermark

    @property
    def batches(self) -> list[LogBatch]:
        return list(self._batches)

    def _after_read(self) -> None:
        if self.after_read is not None:
            self.after_read()

    def append_uncommitted(self, records: Sequence[MetadataRecord | ControlRecord]) -> int:
        with self._changed:
            batch = batch_of(records, self._end, self._epoch)
            self._batches.append(batch)
            self.history.add(batch)
            self._end = batch.end_offset
            return self._end

    def commit(self, end_offset: int | None = None) -> None:
        with self._changed:
            self._high_watermark = self._end if end_offset is None else end_offset
            self._changed.notify_all()

    def new_epoch(self) -> None:
        self._epoch += 1

    # --- what may happen to it ---------------------------------------------------------------------------

    def truncate(self, end_offset: int) -> None:
        """Committed batches are lost; what is appended then has a new epoch. Rounds down to a batch's end."""
        with self._changed:
            self._batches = [batch for batch in self._batches if batch.end_offset <= end_offset]
            self.history.truncate(end_offset)
            self._end = self._batches[-1].end_offset if self._batches else self._start
            if self._end < self._read_to:
                self._rewritten_from, self._read_to = self._end, self._end
            self._high_watermark = min(self._high_watermark, self._end)
            self._damaged = {base: error for base, error in self._damaged.items() if base < self._end}
            self._forget_at_ms = {at: ms for at, ms in self._forget_at_ms.items() if at < self._end}
            self._epoch += 1

    def trim(self, start_offset: int) -> None:
        """Retention: the log starts at the first batch that reaches beyond ``start_offset``."""
        with self._changed:
            self._batches = [batch for batch in self._batches if batch.end_offset > start_offset]
            self._start = self._batches[0].base_offset if self._batches else self._end

    def compact(self, end_offset: int, *, now_ms: int = 0, retention_ms: int = 1) -> None:
        """Below ``end_offset`` only the last record of each ACL id remains.

        A removal remains until a compaction that comes ``retention_ms`` after the first one that saw it
        (KIP-534). As in Kafka a batch keeps its range while it has a record, and the last batch remains.
        """
        with self._changed:
            last: dict[Uuid, int] = {}
            for batch in self._batches:
                if batch.end_offset > end_offset:
                    break
                for logged in batch.records:
                    record = logged.record
                    if isinstance(record, AccessControlEntryRecord | RemoveAccessControlEntryRecord):
                        last[record.id] = logged.offset

            def is_kept(logged: LogRecord) -> bool:
                record = logged.record
                match record:
                    case AccessControlEntryRecord():
                        return last[record.id] == logged.offset
                    case RemoveAccessControlEntryRecord():
                        forget_at_ms = self._forget_at_ms.setdefault(logged.offset, now_ms + retention_ms)
                        return last[record.id] == logged.offset and now_ms < forget_at_ms
                    case _:
                        return True

            remaining: list[LogBatch] = []
            for batch in self._batches:
                if batch.end_offset > end_offset:
                    remaining.append(batch)
                    continue
                records = tuple(filter(is_kept, batch.records))
                if records or batch is self._batches[-1]:
                    remaining.append(
                        LogBatch(
                            base_offset=batch.base_offset,
                            end_offset=batch.end_offset,
                            epoch=batch.epoch,
                            timestamp_ms=batch.timestamp_ms,
                            size_bytes=RECORD_BYTES * len(records),
                            records=records,
                        )
                    )
            self._batches = remaining

    def replace(self, log_identity: LogIdentity) -> None:
        """The log was deleted, and another one was created under its name."""
        with self._changed:
            self._identity = log_identity
            self._batches, self._start, self._end, self._high_watermark = [], 0, 0, 0
            self._damaged, self._epoch = {}, 1
            self._forget_at_ms = {}
            self.history = History()

    def damage(self, offset: int, reason: str = "CRC does not fit") -> None:
        """The batch that holds ``offset`` cannot be decoded until ``repair``."""
        with self._changed:
            batch = next(batch for batch in self._batches if batch.end_offset > offset)
            self._damaged[batch.base_offset] = DecodeError(reason, source=self.url, offset=batch.base_offset)

    def repair(self) -> None:
        with self._changed:
            self._damaged = {}

    def fail_reads(self, *errors: Exception) -> None:
        """The next reads raise these, one each."""
        with self._changed:
            self._failures += errors
