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

from records.errors import DecodeError
from records.log_batch import LogBatch, LogRecord
from records.transactions import MARKERS

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
class Fetched:
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


class Assembler:
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
    def holds_back(self) -> bool:
        """Whether there is an incomplete transaction."""
        return bool(self._incomplete)

    @property
    def first_offset(self) -> int | None:
        """Of the first record that was added and not taken."""
        for batch in self._batches:
            if batch.record_offsets is not None:
                return batch.record_offsets[0]
        return self._run.first_offset if self._run.count else None

    def add(self, fetched: Fetched) -> tuple[int, DecodeError | None]:
        """Add the next records; how many were, and what is wrong with the header of the one behind them.

        Those of one transaction that follow one another are added at once, and so are those of none.
        """
        markers = _marker_places(fetched.records)
        at, count = 0, len(fetched.offsets)
        while at < count:
            header = fetched.header(at)
            try:
                parsed = None if header is None else parse_transaction_header(header)
            except DecodeError as error:
                return at, error
            if self._incomplete:
                self._give_up(fetched.offsets[at])
            epoch, is_marker = fetched.epochs[at], at in markers
            begins = parsed is not None and parsed[1] < parsed[2] - 1
            if not self._incomplete and (
                epoch != self._epoch or begins or is_marker or self._run.count >= RUN_RECORDS_MAX
            ):
                self._cut()
            self._epoch = epoch
            if parsed is not None and begins and parsed[0] not in self._incomplete:
                self._incomplete[parsed[0]] = self._uncommitted_end()
            end = at + 1 if is_marker else self._alike_end(fetched, at, parsed, markers)
            self._run.add(fetched, at, end)
            if parsed is not None and parsed[1] + end - at == parsed[2]:
                self._incomplete.pop(parsed[0], None)
            if not self._incomplete:
                if is_marker:
                    self._cut()
                self.ready_bytes = self._cut_bytes + self._run.size_bytes
            at = end
        return count, None

    def _alike_end(
        self, fetched: Fetched, at: int, parsed: tuple[bytes, int, int] | None, markers: Collection[int]
    ) -> int:
        """The end of the records from ``at`` on that are added at once: nothing happens between them.

        Two records of one transaction with as many offsets between them as it has records there have nothing
        else between them: it was written in order, and compaction only takes away. So the headers of a few
        say how far it goes on without a gap; to look at all of them takes as long as to decode the records.
        """
        offsets, epochs, header = fetched.offsets, fetched.epochs, fetched.header
        limit = bisect_right(epochs, epochs[at], at, len(offsets))
        limit = min([limit, *(marker for marker in markers if marker > at)])
        if parsed is None:
            if self._incomplete:
                return at + 1
            limit = min(limit, at + RUN_RECORDS_MAX - self._run.count)
            return next((place for place in range(at + 1, limit) if header(place) is not None), limit)
        transaction_id, index, count = parsed
        if any(each != transaction_id for each in self._incomplete):
            return at + 1
        limit = min(limit, at + count - index)
        limit = bisect_left(offsets, self._incomplete.get(transaction_id, 0), at, limit)

        def is_behind(place: int) -> bool:
            further = place - at
            return offsets[place] - offsets[at] != further or header(place) != _HEADER_FORM % (
                transaction_id,
                index + further,
                count,
            )

        following = range(at + 1, limit)
        return at + 1 + bisect_left(following, x=True, key=is_behind)

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

    def add(self, fetched: Fetched, first: int, end: int) -> None:
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


def _marker_places(records: tuple[LogRecord, ...] | TableRecords) -> Collection[int]:
    """Which of the records begin, end or abort a metadata transaction."""
    if isinstance(records, tuple):
        return {place for place, logged in enumerate(records) if type(logged.record) in MARKERS}
    return records.marker_places()


def _joined(pieces: Sequence[tuple[LogRecord, ...] | TableRecords]) -> tuple[LogRecord, ...] | TableRecords:
    """The records of all pieces, in order: as columns where all of them are."""
    tables = [piece for piece in pieces if not isinstance(piece, tuple)]
    if tables and len(tables) == len(pieces):
        return tables[0].followed_by(tables[1:])
    return tuple(chain.from_iterable(pieces))
