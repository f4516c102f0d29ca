"""Replica: the batches that an observer has buffered, from the reader's position on.

A leader also sends batches that are not committed yet. They are buffered, so that the next fetch continues
after them, and are never returned above the high watermark (I3). If the leader's log has another history than
the buffer, the buffer is dropped and fetched again; without a buffer, the reader's position is no longer in
the log (I11). A metadata log has no gaps and no producers, and its epochs never decrease: other batches are
rejected.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from records.batch import decode_batch
from records.errors import DecodeError, OffsetOutOfRangeError, TruncatedRecordError

if TYPE_CHECKING:
    from records.batch import RecordBatch
    from records.log.base import CheckpointId
    from records.log.protocol.response_values import FetchResponse

#: Limit of the buffer: above it, batches must be read, or committed, before more are fetched.
BUFFER_BYTES_MAX: Final = 32 * 1024 * 1024

_NO_PRODUCER: Final = -1


class Replica:
    """Takes responses to fetches at ``fetch_offset``. Not thread-safe.

    Attributes:
        position: of the reader: the offset at which the next batch begins, or one within it.
        high_watermark: last reported by the leader; None: not yet.
        snapshot: the one that the leader's log begins with; None: it begins with offset 0.
    """

    def __init__(self) -> None:
        self.position = 0
        self.high_watermark: int | None = None
        self.snapshot: CheckpointId | None = None
        self._epoch: int | None = None
        self._batches: deque[RecordBatch] = deque()
        self._buffered_bytes = 0

    @property
    def fetch_offset(self) -> int:
        return self._batches[-1].end_offset if self._batches else self.position

    @property
    def fetch_epoch(self) -> int | None:
        """Epoch of the batch before that; None: unknown, as after ``seek``."""
        return self._batches[-1].epoch if self._batches else self._epoch

    @property
    def is_full(self) -> bool:
        return self._buffered_bytes >= BUFFER_BYTES_MAX

    @property
    def has_committed(self) -> bool:
        """Whether a committed batch can be read."""
        return bool(self._batches) and self._batches[0].end_offset <= self._committed

    def seek(self, offset: int) -> None:
        """Move the reader: to the end of what it read, or to any other offset."""
        if not self.position <= offset <= self.fetch_offset:
            self._drop()
            self._epoch = None
        while self._batches and self._batches[0].end_offset <= offset:
            batch = self._batches.popleft()
            self._buffered_bytes -= batch.size_bytes
            self._epoch = batch.epoch
        self.position = offset
        if self._epoch is None and self.snapshot is not None and self.snapshot.end_offset == offset:
            self._epoch = self.snapshot.epoch

    def observe(self, fetched: FetchResponse) -> None:
        """Take the log's start and end from a leader's response to a fetch at any offset.

        It does not show whether the buffered, uncommitted batches are in the leader's log: they are dropped.
        """
        while self._batches and self._batches[-1].end_offset > self._committed:
            self._buffered_bytes -= self._batches.pop().size_bytes
        self._update(fetched)

    def apply(self, fetched: FetchResponse) -> None:
        """Take a leader's response to a fetch at ``fetch_offset``.

        Raises:
            OffsetOutOfRangeError: the reader's position is not in the log: it was trimmed, or truncated and
                written on; then ``end`` is at most where the new history begins.
            DecodeError: the first batch cannot be decoded, or does not follow.
        """
        if fetched.diverges_at is not None or fetched.snapshot is not None:
            self._discard(fetched)
        else:
            self._update(fetched)  # it continues the buffer, which is therefore in the leader's log
            self._buffer(fetched.records)

    def committed(self, max_bytes: int) -> list[RecordBatch]:
        """Committed batches from the reader's position on; at least one if there is one."""
        found: list[RecordBatch] = []
        size_bytes = 0
        for batch in self._batches:
            size_bytes += batch.size_bytes
            if batch.end_offset > self._committed or (found and size_bytes > max_bytes):
                break
            found.append(batch)
        return found

    @property
    def _committed(self) -> int:
        return -1 if self.high_watermark is None else self.high_watermark

    def _update(self, fetched: FetchResponse) -> None:
        if fetched.snapshot is not None:
            self.snapshot = fetched.snapshot
        if fetched.high_watermark is not None:
            # A new leader reports it only after its own first commit: it never decreases.
            self.high_watermark = max(self._committed, fetched.high_watermark)

    def _discard(self, fetched: FetchResponse) -> None:
        """The buffer, or else the reader's position, is not in the leader's log."""
        self.snapshot = fetched.snapshot or self.snapshot
        if self._batches:
            self._drop()
            return
        start = 0 if self.snapshot is None else self.snapshot.end_offset
        end = max(start, self._committed)
        if fetched.diverges_at is not None:
            end = min(end, fetched.diverges_at)
        # The high watermark of that history does not apply to this one.
        self.high_watermark = fetched.high_watermark
        raise OffsetOutOfRangeError(self.position, start=min(start, end), end=end)

    def _drop(self) -> None:
        if self._batches and self._batches[0].base_offset < self.position:
            self._epoch = None  # the reader is within a batch, so the epoch before it is unknown
        self._batches.clear()
        self._buffered_bytes = 0

    def _buffer(self, records: bytes) -> None:
        at = 0
        while at < len(records):
            try:
                batch = decode_batch(records, at)
                self._check(batch)
            except TruncatedRecordError as error:
                if at:
                    return  # truncated by the fetch's size: the next one begins with it
                raise DecodeError(
                    f"the first batch is truncated: {error.reason}", offset=self.fetch_offset
                ) from error
            except DecodeError:
                if at:
                    return  # the next fetch begins with it
                raise
            at += batch.size_bytes
            if batch.end_offset > self.fetch_offset:
                self._batches.append(batch)
                self._buffered_bytes += batch.size_bytes

    def _check(self, batch: RecordBatch) -> None:
        problem = None
        if batch.producer_id != _NO_PRODUCER or batch.is_transactional:
            problem = "is a producer's; metadata logs have none"
        elif batch.base_offset > self.fetch_offset:
            problem = f"skips offsets from {self.fetch_offset} on"
        elif self._batches and batch.base_offset < self.fetch_offset:
            problem = f"begins before {self.fetch_offset}, where the previous one ends"
        elif self.fetch_epoch is not None and batch.epoch < self._epoch_before(batch):
            problem = f"has epoch {batch.epoch}, and the previous one {self.fetch_epoch}"
        if problem is not None:
            raise DecodeError(f"the batch {problem}", offset=batch.base_offset, position=batch.position)

    def _epoch_before(self, batch: RecordBatch) -> int:
        """The least epoch that the batch may have; -1 if it reaches below the reader's position."""
        follows = batch.base_offset == self.fetch_offset
        return self.fetch_epoch if follows and self.fetch_epoch is not None else -1
