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

from typing import TYPE_CHECKING, Final

from records.errors import DecodeError
from records.log_batch import LogBatch, LogRecord
from records.transactions import MARKERS

if TYPE_CHECKING:
    from collections.abc import Callable

#: Name of the header.
HEADER: Final = "aclog.tx"
#: Records of one batch at most, but for a transaction that is longer: small enough for a batch to be thrown
#: away without much loss where it contradicts itself, large enough to cost nothing by itself.
RUN_RECORDS_MAX: Final = 1000


def transaction_headers(transaction_id: str, count: int) -> list[bytes]:
    """What goes into the header of each of ``count`` records, in order."""
    return [f"{transaction_id}:{index}:{count}".encode("ascii") for index in range(count)]


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


class Assembler:
    """Makes batches of records that come in offset order.

    Args:
        position: where the first batch begins.
        epoch: of what is before it, as far as known.
        uncommitted_end: the log's end, committed or not, at any time after the record just added was fetched.

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
        self._run: list[LogRecord] = []
        self._run_timestamp_ms = 0
        self._run_bytes = 0
        # Incomplete transactions, each with the position at which nothing more of it can come.
        self._incomplete: dict[bytes, int] = {}

    @property
    def holds_back(self) -> bool:
        """Whether there is an incomplete transaction."""
        return bool(self._incomplete)

    @property
    def first_offset(self) -> int | None:
        """Of the first record that was added and not taken."""
        runs = (*(batch.records for batch in self._batches), self._run)
        return next((run[0].offset for run in runs if run), None)

    def add(self, logged: LogRecord, epoch: int, size_bytes: int, header: bytes | None) -> None:
        """The next record, with what its header says, if it has one.

        Raises:
            DecodeError: the header makes no sense; nothing was added.
        """
        parsed = None if header is None else parse_transaction_header(header)
        if self._incomplete:
            self._give_up(logged.offset)
        is_marker = type(logged.record) in MARKERS
        begins = parsed is not None and parsed[1] < parsed[2] - 1
        if not self._incomplete and (
            epoch != self._epoch or begins or is_marker or len(self._run) >= RUN_RECORDS_MAX
        ):
            self._cut()
        self._epoch = epoch
        self._run.append(logged)
        self._run_bytes += size_bytes
        if logged.timestamp_ms > self._run_timestamp_ms or len(self._run) == 1:
            self._run_timestamp_ms = logged.timestamp_ms
        if parsed is not None:
            transaction_id, index, count = parsed
            if index == count - 1:
                self._incomplete.pop(transaction_id, None)
            elif transaction_id not in self._incomplete:
                self._incomplete[transaction_id] = self._uncommitted_end()
        if not self._incomplete:
            if is_marker:
                self._cut()
            self.ready_bytes = self._cut_bytes + self._run_bytes

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
        end = run[-1].offset + 1 if run else self._position
        if end_offset is not None and end_offset > end:
            end = end_offset
        if end == self._position:
            return
        if run:
            self._timestamp_ms = self._run_timestamp_ms
        base = run[0].offset if run else self._position
        self._batches.append(
            LogBatch(base, end, self._epoch, self._timestamp_ms, self._run_bytes, tuple(run))
        )
        self._position = end
        self._cut_bytes += self._run_bytes
        self._run, self._run_bytes = [], 0
