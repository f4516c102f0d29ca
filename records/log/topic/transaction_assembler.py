"""Which messages become visible together (I2). Pure.

Kafka shows what is committed below the last stable offset, and that may be a part of a transaction: where
those of two writers interleave, and one is committed and the other open, the offset stands at the first
record of the open one.

    offset      0    1    2    3    4        T1 is committed at 4, and T2 is open:
                T1   T2   T1   T2   end T1   the last stable offset is 1, and a reader sees half of T1

So each record that we write says in a header which transaction it belongs to, which one it is in there, and
of how many. Batches are cut where no transaction is incomplete; an incomplete one is held back, with all that
follows it, until

- its last record has come (records of one transaction come in order; earlier ones may be compacted away), or
- the position reaches the log's *uncommitted* end as it was when its first record was seen. The transaction
  was committed by then, so all of it was below: what has not come was compacted away.

Records without the header are whole by themselves.
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
#: Records of one batch at most, but for a transaction that is longer: small enough for a batch to be thrown
#: away without much loss where it contradicts itself, large enough to cost nothing by itself.
RUN_RECORDS_MAX: Final = 1000


def transaction_headers(transaction_id: str, count: int) -> list[bytes]:
    """What goes into the header of each of ``count`` records, in order."""
    return [_HEADER_FORM % (transaction_id.encode("ascii"), index, count) for index in range(count)]


def parse_transaction_header(value: bytes | None) -> tuple[bytes, int, int]:
    """(transaction id, index, count).

    Raises:
        DecodeError: it makes no sense, so nobody knows what belongs together.
    """
    parts = (value or b"").split(b":")
    if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
        index, count = int(parts[1]), int(parts[2])
        if index < count:
            return parts[0], index, count
    raise DecodeError(f"header {HEADER} is {value!r}, not ID:INDEX:COUNT")


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """Consecutive records that were fetched and decoded; each list has an element for each of them.

    Attributes:
        sizes_bytes: of keys and values.
        header: HEADER's value in one of them, by its place; None where there is none. Few are asked for.
    """

    records: tuple[LogRecord, ...] | TableRecords
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    epochs: Sequence[int]
    sizes_bytes: Sequence[int]
    header: Callable[[int], bytes | None]


class TransactionAssembler:
    """Makes batches of records that come in offset order.

    Args:
        position: where the first batch begins.
        epoch: of what is before it, as far as known.
        uncommitted_end: the log's end, committed or not, at any time after what was just added was fetched.

    Attributes:
        ready_bytes: of the records that can be taken.
    """

    def __init__(self, position: int, epoch: int, uncommitted_end: Callable[[], int]) -> None:
        self.ready_bytes = 0
        self._uncommitted_end = uncommitted_end
        self._position = position
        # Of the last record seen, and of what a batch without records goes on from.
        self._epoch = epoch
        self._timestamp_ms = 0
        self._batches: list[LogBatch] = []
        self._cut_bytes = 0
        # The run that the next batch is made of, and how much of it may be cut off.
        self._run = _Run()
        # Incomplete transactions, each with the position at which nothing more of it can come.
        self._incomplete: dict[bytes, int] = {}

    @property
    def blocks_readers(self) -> bool:
        """Whether there is an incomplete transaction."""
        return bool(self._incomplete)

    @property
    def first_offset(self) -> int | None:
        """Of the first record that was added and not taken."""
        for batch in self._batches:
            if batch.record_offsets is not None:
                return batch.record_offsets[0]
        return self._run.first_offset if self._run.count else None

    def add(self, fetched: FetchedRecords) -> tuple[int, DecodeError | None]:
        """Add the next records; how many were, and what is wrong with the header of the one behind them.

        Those that nothing happens between are added at once. Few headers are looked at: to look at all takes
        as long as to decode the records.
        """
        markers = _marker_places(fetched.records)
        offsets, epochs = fetched.offsets, fetched.epochs
        at, count = 0, len(offsets)
        while at < count:
            try:
                parsed = _parsed(fetched.header(at))
            except DecodeError as error:
                return at, error
            if self._incomplete:
                self._give_up(offsets[at])
            epoch, is_marker = epochs[at], at in markers
            limit = at + 1 if is_marker else bisect_right(epochs, epoch, at, count)
            if markers:
                limit = min([limit, *(marker for marker in markers if marker > at)])
            end = at if self._incomplete else self._whole_end(fetched, at, limit)
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

    def _whole_end(self, fetched: FetchedRecords, at: int, limit: int) -> int:
        """The end of the records from ``at`` on that need nothing of what follows them, for one run."""
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
        """The end of the records from ``at`` on of one transaction, of which more is to come, or was."""
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
                range(end, limit), x=True, key=lambda place: not _is_same(fetched, at, place, parsed)
            )
        if index + offsets[end - 1] - offsets[at] == count - 1:
            incomplete.pop(transaction_id, None)
        return end

    def take(self, end_offset: int | None) -> list[LogBatch]:
        """What is whole, in batches. ``end_offset``: everything below it was seen; None if that is not known.

        Where nothing is held back the last batch reaches to ``end_offset``; it may be without records.
        """
        if end_offset is not None and self._incomplete:
            self._give_up(end_offset)
        if not self._incomplete:
            self._cut(end_offset)
        batches, self._batches = self._batches, []
        self.ready_bytes = self._cut_bytes = 0
        return batches

    def _give_up(self, position: int) -> None:
        for transaction_id, end in list(self._incomplete.items()):
            if position >= end:
                del self._incomplete[transaction_id]

    def _cut(self, end_offset: int | None = None) -> None:
        """Make a batch of the run; of an empty one only to reach ``end_offset``."""
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
            LogBatch(base, end, self._epoch, self._timestamp_ms, run.size_bytes, _joined(run.pieces))
        )
        self._position = end
        self._cut_bytes += run.size_bytes
        self._run = _Run()


class _Run:
    """Records that follow one another, and what a batch says of them."""

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
    """The end of the transaction that begins at ``at``; ``at`` if its last record is not below ``limit``."""
    try:
        parsed = _parsed(fetched.header(at))
    except DecodeError:
        return at
    if parsed is None or parsed[1] == parsed[2] - 1:
        return at + 1
    last = bisect_left(fetched.offsets, fetched.offsets[at] + parsed[2] - 1 - parsed[1], at, limit)
    return last + 1 if last < limit and _is_same(fetched, at, last, parsed) else at


def _is_same(fetched: FetchedRecords, at: int, place: int, parsed: tuple[bytes, int, int]) -> bool:
    """Whether the records from ``at``, which has this header, to ``place`` are all of one transaction.

    They are if these two are, with as many offsets between them as it has records there: it was written in
    order, and compaction only takes away.
    """
    transaction_id, index, count = parsed
    index += fetched.offsets[place] - fetched.offsets[at]
    return index < count and fetched.header(place) == _HEADER_FORM % (transaction_id, index, count)


def _marker_places(records: tuple[LogRecord, ...] | TableRecords) -> Collection[int]:
    """Which of the records begin, end or abort a metadata transaction."""
    if isinstance(records, tuple):
        return {place for place, logged in enumerate(records) if type(logged.record) in TRANSACTION_MARKERS}
    return records.marker_indexes()


def _joined(pieces: Sequence[tuple[LogRecord, ...] | TableRecords]) -> tuple[LogRecord, ...] | TableRecords:
    """The records of all pieces, in order: as columns where all of them are."""
    tables = [piece for piece in pieces if not isinstance(piece, tuple)]
    if tables and len(tables) == len(pieces):
        return tables[0].extended(tables[1:])
    return tuple(chain.from_iterable(pieces))
