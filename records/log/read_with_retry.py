"""Reads a log that may hold back committed records for a short time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from records.log.base import MetadataLog
    from records.log_batch import LogBatch

#: Maximum pause between two reads while records are held back.
_POLL_INTERVAL_S: Final = 0.2


def read_with_retry(log: MetadataLog, offset: int) -> Sequence[LogBatch]:
    """As ``log.read``, but what is held back is waited for: empty only where nothing more is committed.

    Raises:
        LogHeldUpError: the log held it back for too long.
    """
    while not (batches := log.read(offset)) and log.blocks_readers:
        log.wait(offset, _POLL_INTERVAL_S)
    return batches
