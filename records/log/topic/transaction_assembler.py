"""TransactionAssembler: groups messages that become visible together (I2). Pure.

Kafka returns committed messages below the last stable offset, which may be a part of a transaction: if the
transactions of two writers interleave, and one is committed and the other open, that offset is the first
record of the open one.

    offset      0    1    2    3    4        T1 is committed at 4, and T2 is open:
                T1   T2   T1   T2   end T1   the last stable offset is 1, and a reader sees half of T1

So each record has a header with the transaction's id, its index, and the number of records. A batch ends
where no transaction is incomplete. An incomplete one is held back, with all later records, until

- its last record was read (records of one transaction are in order; earlier ones may be compacted away), or
- the position reaches the log's *uncommitted* end as of reading its first record. The transaction was
  committed by then, so all its records are below: the missing ones were compacted away.

A record without the header is complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from records.entries import TRANSACTION_MARKERS
from records.errors import DecodeError
from records.log_batch import LogBatch, LogRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from records.columns.record_table import TableRecords

#: Name of the header, and its value.
HEADER: Final = "aclog.tx"
_HEADER_FORM: Final = b"%b:%d:%d"
#: Maximum number of records of a batch, except for a longer transaction: small enough that little is lost if
#: an inconsistent batch is dropped, large enough that the overhead of a batch does not matter.
RUN_RECORDS_MAX: Final = 1000


def transaction_headers(transaction_id: str, count: int) -> list[bytes]:
    """Values of the header of each of ``count`` records, in order."""
    return [_HEADER_FORM % (transaction_id.encode("ascii"), index, count) for index in range(count)]


def parse_transaction_header(value: bytes | None) -> tuple[bytes, int, int]:
    """(transaction id, index, count). Raises DecodeError: it is invalid."""
    parts = (value or b"").split(b":")
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        index, count = int(parts[1]), int(parts[2])
        if index < count:
            return parts[0], index, count
    raise DecodeError(f"header {HEADER} is {value!r}, not ID:INDEX:COUNT")


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Consecutive decoded records; each list has at least one element per record.

    Attributes:
        sizes_bytes: of keys and values.
        header: returns the value of HEADER of a record, by its index. Few headers are read.
    """

    records: tuple[LogRecord, ...] | TableRecords
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    epochs: Sequence[int]
    sizes_bytes: Sequence[int]
    header: Callable[[int], bytes | None]


class TransactionAssembler:
    """Groups records in offset order into batches.

    Args:
        position: start of the first batch.
        epoch: of the record before it, if known.
        uncommitted_end: returns the log's end, committed or not, after the last added records were fetched.
    """

    def __init__(self, position: int, epoch: int, uncommitted_end: Callable[[], int]) -> None:
        self.ready_bytes = 0
        self._uncommitted_end = uncommitted_end
        self._position = position
        # Of the last record, also for a batch without records.
        self._epoch = epoch
        self._timestamp_ms = 0
        self._batches: list[LogBatch] = []
        self._cut_bytes = 0
        # The records of the next batch.
        self._run = _Run()
        # Incomplete transactions, each with the position from which on it has no more records.
        self._incomplete: dict[bytes, int] = {}

    @property
    def blocks_readers(self) -> bool:
        """Whether there is an incomplete transaction."""
        return bool(self._incomplete)

    @property
    def first_offset(self) -> int | None:
        """Offset of the first record that was added and not taken."""
        for batch in self._batches:
            if batch.record_offsets is not None:
                return batch.record_offsets[0]
        return self._run.first_offset if self._run.count else None

    def add(self, fetched: FetchedRecords) -> tuple[int, DecodeError | None]:
        """Add the next records; returns their number, and the error of the header after them.

        Adds runs of records together and reads few headers: reading all takes as long as decoding the
        records.
        """
        markers = _marker_indexes(fetched.records)
        offsets, epochs = fetched.offsets, fetched.epochs
        at, count = 0, len(offsets)
        while at < count:
            try:
                parsed = _parsed(fetched.header(at))
            except DecodeError as error:
                return at, error
            if self._incomplete:
                self._drop_incomplete(offsets[at])
            epoch, is_marker = epochs[at], at in markers
            limit = at + 1 if is_marker else bisect_right(epochs, epoch, at, count)
            if markers:
                limit = min([limit, *(marker for marker in markers if marker > at)])
            end = at if self._incomplete else self._complete_end(fetched, at, limit)
            if not self._incomplete and (
                epoch != self._epoch or is_marker or end == at or self._run.count + end - at > RUN_RECORDS_MAX
            ):
                self._cut()
            self._epoch = epoch
            if end == at:
                end = self._part_end(fetched, at, limit, parsed)
            self._run.add(fetched, at, end)
            if not self._incomplete:
                if is_marker:
                    self._cut()
                self.ready_bytes = self._cut_bytes + self._run.size_bytes
            at = end
        return count, None

    def _complete_end(self, fetched: FetchedRecords, at: int, limit: int) -> int:
        """End of the complete transactions from ``at`` on, for one run."""
        end = at
        while end < limit:
            next_end = _transaction_end(fetched, end, limit)
            if next_end == end or (end > at and self._run.count + next_end - at > RUN_RECORDS_MAX):
                break
            end = next_end
        return end

    def _part_end(
        self, fetched: FetchedRecords, at: int, limit: int, parsed: tuple[bytes, int, int] | None
    ) -> int:
        """End of the records from ``at`` on of one transaction whose other records are not adjacent."""
        incomplete, offsets = self._incomplete, fetched.offsets
        if parsed is None:
            return at + 1
        transaction_id, index, count = parsed
        if index < count - 1 and transaction_id not in incomplete:
            incomplete[transaction_id] = self._uncommitted_end()
        end = at + 1
        if incomplete.keys() == {transaction_id}:
            limit = bisect_left(offsets, incomplete[transaction_id], at, limit)
            end += bisect_left(
                range(end, limit), x=True, key=lambda index: not _is_same(fetched, at, index, parsed)
            )
        if index + offsets[end - 1] - offsets[at] == count - 1:
            incomplete.pop(transaction_id, None)
        return end

    def take(self, end_offset: int | None) -> list[LogBatch]:
        """Return the complete batches. ``end_offset``: all records below it were added; None: unknown.

        If no records are held back, the last batch ends at ``end_offset``, and may be without records.
        """
        if end_offset is not None and self._incomplete:
            self._drop_incomplete(end_offset)
        if not self._incomplete:
            self._cut(end_offset)
        batches, self._batches = self._batches, []
        self.ready_bytes = self._cut_bytes = 0
        return batches

    def _drop_incomplete(self, position: int) -> None:
        """No longer wait for transactions whose missing records must have been compacted away."""
        for transaction_id, end in list(self._incomplete.items()):
            if position >= end:
                del self._incomplete[transaction_id]

    def _cut(self, end_offset: int | None = None) -> None:
        """Make a batch of the run; an empty one only to reach ``end_offset``."""
        run = self._run
        end = run.last_offset + 1 if run.count else self._position
        if end_offset is not None and end_offset > end:
            end = end_offset
        if end == self._position:
            return
        if run.count:
            self._timestamp_ms = run.timestamp_ms
        base = run.first_offset if run.count else self._position
        self._batches.append(
            LogBatch(base, end, self._epoch, self._timestamp_ms, run.size_bytes, _concat(run.pieces))
        )
        self._position = end
        self._cut_bytes += run.size_bytes
        self._run = _Run()


class _Run:
    """Consecutive records, and the fields of their batch."""

    __slots__ = ("count", "first_offset", "last_offset", "pieces", "size_bytes", "timestamp_ms")

    def __init__(self) -> None:
        self.pieces: list[tuple[LogRecord, ...] | TableRecords] = []
        self.count = self.size_bytes = 0
        self.first_offset = self.last_offset = self.timestamp_ms = 0

    def add(self, fetched: FetchedRecords, first: int, end: int) -> None:
        rows = slice(first, end)
        newest_ms = max(fetched.timestamps_ms[rows])
        if not self.count:
            self.first_offset, self.timestamp_ms = fetched.offsets[first], newest_ms
        self.timestamp_ms = max(self.timestamp_ms, newest_ms)
        self.last_offset = fetched.offsets[end - 1]
        self.size_bytes += sum(fetched.sizes_bytes[rows])
        self.count += end - first
        records = fetched.records
        self.pieces.append(records[rows] if isinstance(records, tuple) else records.part(first, end))


def _parsed(header: bytes | None) -> tuple[bytes, int, int] | None:
    return None if header is None else parse_transaction_header(header)


def _transaction_end(fetched: FetchedRecords, at: int, limit: int) -> int:
    """End of the transaction that begins at ``at``; ``at``: its last record is not below ``limit``."""
    try:
        parsed = _parsed(fetched.header(at))
    except DecodeError:
        return at
    if parsed is None or parsed[1] == parsed[2] - 1:
        return at + 1
    last = bisect_left(fetched.offsets, fetched.offsets[at] + parsed[2] - 1 - parsed[1], at, limit)
    return last + 1 if last < limit and _is_same(fetched, at, last, parsed) else at


def _is_same(fetched: FetchedRecords, first: int, last: int, parsed: tuple[bytes, int, int]) -> bool:
    """Whether the records from ``first``, which has this header, to ``last`` belong to one transaction.

    They do if both belong to it, and their offsets differ as much as their indexes: a transaction is written
    in order, and compaction only removes records.
    """
    transaction_id, index, count = parsed
    index += fetched.offsets[last] - fetched.offsets[first]
    return index < count and fetched.header(last) == _HEADER_FORM % (transaction_id, index, count)


def _marker_indexes(records: tuple[LogRecord, ...] | TableRecords) -> Collection[int]:
    if isinstance(records, tuple):
        return {index for index, logged in enumerate(records) if type(logged.record) in TRANSACTION_MARKERS}
    return records.marker_indexes()


def _concat(pieces: Sequence[tuple[LogRecord, ...] | TableRecords]) -> tuple[LogRecord, ...] | TableRecords:
    """Concatenate records; columns if all of them are columns."""
    tables = [piece for piece in pieces if not isinstance(piece, tuple)]
    if tables and len(tables) == len(pieces):
        return tables[0].extended(tables[1:])
    return tuple(chain.from_iterable(pieces))
