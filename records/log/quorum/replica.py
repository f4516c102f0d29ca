"""What an observer holds of the log: batches from where its reader stands on, and up to where they count.

A leader also sends what is not committed yet. It is kept, so that the next fetch asks behind it, and is never
given out above the high watermark (I3). Where the leader's log has another history than what is kept, all of
it is dropped and fetched again; where nothing is kept, the reader's own place is not in the log any more
(I11). A metadata log has no gaps and no producers, and its epochs never go back: batches that say otherwise
are refused.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from records.batch import decode_batch
from records.errors import DecodeError, OffsetOutOfRangeError, TruncatedRecordError

if TYPE_CHECKING:
    from records.batch import RecordBatch
    from records.log.protocol.answers import Fetched, SnapshotId

#: Above this, what is kept must be read, or committed, before more is fetched.
KEPT_BYTES_MAX: Final = 32 * 1024 * 1024

_NO_PRODUCER: Final = -1


class Replica:
    """Fed with answers to fetches at ``fetch_offset``. Not thread-safe.

    Attributes:
        position: the reader's: where the next batch to be given out begins, or an offset within it.
        high_watermark: as the leader said last; None: it has not said.
        snapshot: what the leader last said its log begins with; None: with offset 0.
    """

    def __init__(self) -> None:
        self.position = 0
        self.high_watermark: int | None = None
        self.snapshot: SnapshotId | None = None
        self._epoch: int | None = None
        self._kept: deque[RecordBatch] = deque()
        self._kept_bytes = 0

    @property
    def fetch_offset(self) -> int:
        """Where the next fetch is to begin."""
        return self._kept[-1].end_offset if self._kept else self.position

    @property
    def fetch_epoch(self) -> int | None:
        """Epoch of the batch before that; None: not known, as the reader has just come there."""
        return self._kept[-1].epoch if self._kept else self._epoch

    @property
    def is_full(self) -> bool:
        """Whether no more is to be fetched now."""
        return self._kept_bytes >= KEPT_BYTES_MAX

    @property
    def has_news(self) -> bool:
        """Whether there is something committed to be read."""
        return bool(self._kept) and self._kept[0].end_offset <= self._committed

    def seek(self, offset: int) -> None:
        """The reader is there now, which is where it read to, or anywhere else."""
        if not self.position <= offset <= self.fetch_offset:
            self._drop()
            self._epoch = None
        while self._kept and self._kept[0].end_offset <= offset:
            batch = self._kept.popleft()
            self._kept_bytes -= batch.size_bytes
            self._epoch = batch.epoch
        self.position = offset
        if self._epoch is None and self.snapshot is not None and self.snapshot.end_offset == offset:
            self._epoch = self.snapshot.epoch

    def look(self, fetched: Fetched) -> None:
        """Take a leader's answer to a fetch anywhere: what it says of the log's start and of its end.

        It does not say whether what is kept and was not committed is in its log: that is dropped.
        """
        while self._kept and self._kept[-1].end_offset > self._committed:
            self._kept_bytes -= self._kept.pop().size_bytes
        self._learn(fetched)

    def step(self, fetched: Fetched) -> None:
        """Take a leader's answer to a fetch at ``fetch_offset``.

        Raises:
            OffsetOutOfRangeError: the reader's place is not in the log: it was trimmed, or truncated and
                written on; then ``end`` is at most where the new history begins.
            DecodeError: the first batch cannot be decoded, or does not follow.
        """
        if fetched.diverges_at is not None or fetched.snapshot is not None:
            self._lose(fetched)
        else:
            self._learn(fetched)  # it follows what is kept, so that is in its log
            self._keep(fetched.records)

    def committed(self, max_bytes: int) -> list[RecordBatch]:
        """Batches from the reader's position on that are committed; one at least if there is one."""
        found: list[RecordBatch] = []
        size_bytes = 0
        for batch in self._kept:
            size_bytes += batch.size_bytes
            if batch.end_offset > self._committed or (found and size_bytes > max_bytes):
                break
            found.append(batch)
        return found

    @property
    def _committed(self) -> int:
        return -1 if self.high_watermark is None else self.high_watermark

    def _learn(self, fetched: Fetched) -> None:
        if fetched.snapshot is not None:
            self.snapshot = fetched.snapshot
        if fetched.high_watermark is not None:
            # A new leader says it only when it has committed something itself: it never goes back.
            self.high_watermark = max(self._committed, fetched.high_watermark)

    def _lose(self, fetched: Fetched) -> None:
        """What is kept, or else the reader's place, is not in the leader's log."""
        self.snapshot = fetched.snapshot or self.snapshot
        if self._kept:
            self._drop()
            return
        start = 0 if self.snapshot is None else self.snapshot.end_offset
        end = max(start, self._committed)
        if fetched.diverges_at is not None:
            end = min(end, fetched.diverges_at)
        # What counted in that history says nothing about this one.
        self.high_watermark = fetched.high_watermark
        raise OffsetOutOfRangeError(self.position, start=min(start, end), end=end)

    def _drop(self) -> None:
        if self._kept and self._kept[0].base_offset < self.position:
            self._epoch = None  # that of the batch before is not that of the record before
        self._kept.clear()
        self._kept_bytes = 0

    def _keep(self, records: bytes) -> None:
        at = 0
        while at < len(records):
            try:
                batch = decode_batch(records, at)
                self._check(batch)
            except TruncatedRecordError as error:
                if at:
                    return  # cut by the fetch's size: the next one begins with it
                raise DecodeError(f"a batch arrived cut: {error.reason}", offset=self.fetch_offset) from error
            except DecodeError:
                if at:
                    return  # the next fetch begins with it
                raise
            at += batch.size_bytes
            if batch.end_offset > self.fetch_offset:
                self._kept.append(batch)
                self._kept_bytes += batch.size_bytes

    def _check(self, batch: RecordBatch) -> None:
        problem = None
        if batch.producer_id != _NO_PRODUCER or batch.is_transactional:
            problem = "is a producer's, which no metadata log has"
        elif batch.base_offset > self.fetch_offset:
            problem = f"leaves out offsets from {self.fetch_offset} on"
        elif self._kept and batch.base_offset < self.fetch_offset:
            problem = f"begins before {self.fetch_offset}, where the one before ends"
        elif self.fetch_epoch is not None and batch.epoch < self._epoch_before(batch):
            problem = f"is of epoch {batch.epoch}, and the one before it of {self.fetch_epoch}"
        if problem is not None:
            raise DecodeError(f"the batch {problem}", offset=batch.base_offset, position=batch.position)

    def _epoch_before(self, batch: RecordBatch) -> int:
        """The least epoch that it may have: one that reaches below the reader's place may be any."""
        follows = batch.base_offset == self.fetch_offset
        return self.fetch_epoch if follows and self.fetch_epoch is not None else -1
