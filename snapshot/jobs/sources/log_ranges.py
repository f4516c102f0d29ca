"""Planner of the ranges of a log of batches that a query reads. Runs on the driver.

A range ends at the end of a record batch outside of any KRaft metadata transaction (KIP-868), below the high
watermark: so no batch of a query holds part of a transaction, and its state is one that nodes have, too (I2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from records.batch import COMPRESSION_MASK, RecordBatch
from records.content import to_log_batch
from records.errors import DecodeError, LogCorruptError, LogError, LogUnreachableError, OffsetOutOfRangeError
from records.ids import uuid_to_string
from records.log.base import BatchLog, LogIdentity
from records.log.open import open_batches
from records.log.url import DIRECTORY, QUORUM, directory_of, kind_of
from records.transactions import is_open_after
from snapshot.errors import CheckpointForeignError, SparkJobError

# Size of one read while searching an end: planning should not cost much more than the records of a batch.
_SCAN_BYTES: Final = 256 * 1024
# The first bytes of a marker's frame: frame version 1, API keys 23 to 25, version 0. Other bytes may match.
_MARKER: Final = re.compile(rb"\x01[\x17-\x19]\x00")


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """An offset between two batches of a log; ``epoch`` of the batch before it, None if unknown."""

    offset: int
    epoch: int | None


class LogRanges:
    """Finds the ends of a query's batches in one log. Not thread-safe; closed by ``close``.

    Raises, also from its methods:
        CheckpointForeignError: the log is not ``identity``.
        LogError: the log does not exist.
        SparkJobError: the log does not have the requested offsets.
        DecodeError: a damaged batch.
    """

    def __init__(self, url: str, identity: LogIdentity | None, client: Mapping[str, str]) -> None:
        self._log = open_ranged(url, identity, client)
        self._url = url
        self.identity = self._log.identity

    def high_watermark(self) -> int:
        """One past the last committed offset."""
        return self._log.high_watermark()

    def next_end(self, start: OffsetAndEpoch, *, below: int, max_offsets: int | None) -> OffsetAndEpoch:
        """The end of a query's batch that begins at ``start``; ``start`` itself if there is nothing to read.

        Args:
            start: an end found before, or the query's first offset.
            below: the high watermark, the current one or that of the query's start.
            max_offsets: limit of the batch; None: no limit. It may be exceeded by a single record batch or
                metadata transaction.
        """
        url = self._url
        try:
            self._check(start)
            end, position, is_open = start, start.offset, False
            epoch = -1 if start.epoch is None else start.epoch
            while position < below:
                try:
                    batches = self._log.read_raw(position, max_bytes=_SCAN_BYTES)
                    if not batches:
                        return end  # the broker's log is shorter than it was
                    for batch in batches:
                        if batch.epoch < epoch:
                            raise LogCorruptError(
                                f"{url}: epoch {batch.epoch} at offset {batch.base_offset} follows epoch "
                                f"{epoch}: the log was rewritten, or is damaged (aclog log verify)"
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
                    # The batches before the damage are read first.
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
        """Check that the log still has what the query has read before."""
        first, end = self._log.start_offset(), self._log.high_watermark()
        if start.offset > end:
            raise OffsetOutOfRangeError(start.offset, start=first, end=end)
        if start.epoch is None or start.offset == first:
            return
        try:
            # Also below its start offset: a leader may have some records from before its newest snapshot.
            before = self._log.read_raw(start.offset - 1, max_bytes=1)[0]
        except OffsetOutOfRangeError as error:
            raise OffsetOutOfRangeError(start.offset, start=error.start, end=error.end) from error
        if (before.end_offset, before.epoch) != (start.offset, start.epoch):
            raise LogError(
                f"{self._url}: the log was truncated below offset {start.offset} and rewritten: "
                f"epoch {start.epoch} no longer ends there. Start again with another checkpoint"
            )


def open_ranged(url: str, identity: LogIdentity | None, client: Mapping[str, str]) -> BatchLog:
    """Open the log at ``url`` and check its identity.

    Raises:
        CheckpointForeignError: it is another log.
        LogError: it does not exist.
    """
    log = open_batches(url, client=client)
    if identity is not None and log.identity != identity:
        found = log.identity
        log.close()
        raise CheckpointForeignError(
            f"{url}: the query follows {describe(identity)}, and this is {describe(found)}: the log was "
            "replaced. Follow the new one with another checkpoint"
        )
    return log


def readable_url(url: str) -> str:
    """The URL of a log for other processes, which may have another working directory."""
    return str(directory_of(url)) if kind_of(url) == DIRECTORY else url


def describe(identity: LogIdentity) -> str:
    """The log's name in messages."""
    return f"the log of cluster {identity.cluster_id} with topic id {uuid_to_string(identity.topic_id)}"


def out_of_range(url: str, error: OffsetOutOfRangeError) -> LogUnreachableError | SparkJobError:
    """The error for a log that no longer has the planned offsets."""
    if error.offset < error.start:
        return SparkJobError(
            f"{url}: the log was trimmed: it starts at offset {error.start}, but the next one to read is "
            f"{error.offset}. Start again with another checkpoint: the job starts at a stored snapshot of "
            "that offset or a later one (a node's: aclog snapshot create), or at Kafka's checkpoint"
        )
    return ends_early(url, error.end, error.offset)


def ends_early(url: str, end: int, wanted: int) -> LogUnreachableError | SparkJobError:
    """The error for a log that is shorter than it was; a controller may just be a former leader."""
    if kind_of(url) == QUORUM:
        return LogUnreachableError(
            f"{url}: the controller reports the log as committed up to offset {end}, but {wanted} already "
            "was: it is a former leader, or the cluster was restored from a backup. Start again; use another "
            "checkpoint only if the error persists"
        )
    return SparkJobError(
        f"{url}: the log was truncated: it ends at offset {end}, but the next one to read is {wanted}. Start "
        "again with another checkpoint"
    )


def _is_open_after(batch: RecordBatch, *, is_open: bool) -> bool:
    """Whether a metadata transaction is open after a batch."""
    if batch.is_control or not (batch.attributes & COMPRESSION_MASK or _MARKER.search(batch.covered)):
        return is_open
    for logged in to_log_batch(batch).records:
        is_open = is_open_after(logged.record, is_open=is_open)
    return is_open
