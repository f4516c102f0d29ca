"""Which pieces of a log of batches a query reads: where they may end, and whether it is still that log.

Only the driver plans. An end is the end of a record batch outside of any KRaft metadata transaction
(KIP-868), below the high watermark: so no batch of a query holds a part of a transaction, and each of them
leads to a state that nodes have too (I2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records.batch import COMPRESSION_MASK
from records.content import to_log_batch
from records.errors import DecodeError, LogCorruptError, LogError, OffsetOutOfRangeError
from records.ids import uuid_to_string
from records.log.open import open_batches
from records.transactions import is_open_after
from snapshot.errors import CheckpointForeignError, SparkJobError
from snapshot.jobs.sources.logs import ends_early

if TYPE_CHECKING:
    from collections.abc import Mapping

    from records.batch import RecordBatch
    from records.errors import LogUnreachableError
    from records.log.base import BatchLog, BatchPosition, LogIdentity

# Read at once while looking for an end: a small batch of a query should not cost much more than its records.
_LOOK_BYTES: Final = 256 * 1024
# How a marker's frame begins: frame version 1, api keys 23 to 25, version 0. Other bytes may look so too.
_MARKER: Final = re.compile(rb"\x01[\x17-\x19]\x00")


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """Between two batches of a log; ``epoch`` is that of the batch before, None where nobody has looked."""

    offset: int
    epoch: int | None


class LogRanges:
    """Looks at one log for the ends of a query's batches. Not thread-safe; closed by ``close``.

    Raises, also from its methods:
        CheckpointForeignError: it is another log than ``identity``.
        LogError: there is no log; the message names it, as each.
        SparkJobError: it does not hold what was asked for.
        DecodeError: a damaged batch.
    """

    def __init__(self, url: str, identity: LogIdentity | None, client: Mapping[str, str]) -> None:
        """Open it.

        Args:
            url: of the log.
            identity: which log must be there; None: any.
            client: settings for asking its cluster.
        """
        self._log = open_ranged(url, identity, client)
        self._url = url
        self.identity = self._log.identity

    def high_watermark(self) -> int:
        """One past the last committed offset."""
        return self._log.high_watermark()

    def position_hint(self, offset: int) -> BatchPosition | None:
        """Where the log's readers may look for ``offset``."""
        return self._log.position_hint(offset)

    def next_end(self, start: OffsetAndEpoch, *, below: int, max_offsets: int | None) -> OffsetAndEpoch:
        """Where a batch of the query that begins at ``start`` ends; ``start`` itself if nothing can be read.

        Args:
            start: an end found before, or where the query begins.
            below: the high watermark, as it is or as it was at the start of the query.
            max_offsets: of the batch; None: any number. One record batch is read, or one metadata
                transaction, though it is longer.
        """
        url = self._url
        try:
            self._check(start)
            end, position, is_open = start, start.offset, False
            epoch = -1 if start.epoch is None else start.epoch
            while position < below:
                try:
                    batches = self._log.read_raw(position, max_bytes=_LOOK_BYTES)
                    if not batches:
                        return end  # what was the end of a broker's log before is gone
                    for batch in batches:
                        if batch.epoch < epoch:
                            raise LogCorruptError(
                                f"{url}: epoch {batch.epoch} at offset {batch.base_offset} follows epoch "
                                f"{epoch}: the log was written anew, or is damaged (aclog log verify)"
                            )
                        epoch = batch.epoch
                        is_open = _is_open_after(batch, is_open=is_open)
                        position = batch.end_offset
                        if position > below or (
                            end is not start and max_offsets and position - start.offset > max_offsets
                        ):
                            return end
                        if not is_open:
                            end = OffsetAndEpoch(position, batch.epoch)
                except (DecodeError, LogError):
                    # What stands before it is read first.
                    if end is start:
                        raise
                    return end
        except OffsetOutOfRangeError as error:
            raise out_of_range(url, error) from error
        except DecodeError as error:
            raise error.located(source=url) from error
        return end

    def close(self) -> None:
        self._log.close()

    def _check(self, start: OffsetAndEpoch) -> None:
        """The log still has what a query has read before."""
        first, end = self._log.start_offset(), self._log.high_watermark()
        if start.offset > end:
            raise OffsetOutOfRangeError(start.offset, start=first, end=end)
        if start.epoch is None or start.offset == first:
            return
        try:
            # Also below its start: a leader may have some of the log before its newest snapshot.
            before = self._log.read_raw(start.offset - 1, max_bytes=1)[0]
        except OffsetOutOfRangeError as error:
            raise OffsetOutOfRangeError(start.offset, start=error.start, end=error.end) from error
        if (before.end_offset, before.epoch) != (start.offset, start.epoch):
            raise LogError(
                f"{self._url}: the log was truncated below offset {start.offset} and written anew: "
                f"epoch {start.epoch} does not end there any more. Start again with another checkpoint"
            )


def open_ranged(url: str, identity: LogIdentity | None, client: Mapping[str, str]) -> BatchLog:
    """The log at ``url``, which must be that one.

    Raises:
        CheckpointForeignError: it is another one.
        LogError: there is none.
    """
    log = open_batches(url, client=client)
    if identity is not None and log.identity != identity:
        found = log.identity
        log.close()
        raise CheckpointForeignError(
            f"{url}: the query follows {describe(identity)}, and this is {describe(found)}: another log "
            "is in its place. Follow that one with another checkpoint"
        )
    return log


def describe(identity: LogIdentity) -> str:
    """For messages."""
    return f"the log of cluster {identity.cluster_id} with topic id {uuid_to_string(identity.topic_id)}"


def out_of_range(url: str, error: OffsetOutOfRangeError) -> LogUnreachableError | SparkJobError:
    """What is wrong with a log that does not hold what was planned, and the way out."""
    if error.offset < error.start:
        return SparkJobError(
            f"{url}: the log was trimmed: it starts at offset {error.start}, and {error.offset} was to be "
            "read next. Start again with another checkpoint: the job begins at a snapshot of the store that "
            "was made there or later, or at Kafka's own"
        )
    return ends_early(url, error.end, error.offset)


def _is_open_after(batch: RecordBatch, *, is_open: bool) -> bool:
    """Whether a metadata transaction is open at the end of a batch."""
    if batch.is_control or not (batch.attributes & COMPRESSION_MASK or _MARKER.search(batch.covered)):
        return is_open
    for logged in to_log_batch(batch).records:
        is_open = is_open_after(logged.record, is_open=is_open)
    return is_open
