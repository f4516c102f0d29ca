"""Whether a log that has the epoch of each batch still has the history that was read of it before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.errors import DecodeError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from records.log.base import MetadataLog


def shows_epoch(log: MetadataLog, end_offset: int, epoch: int) -> bool | None:
    """MetadataLog.is_history for a log that is cheap to read anywhere; raises as ``read``.

    The batch that ends there must be of this epoch. Where it was compacted away or cannot be decoded, the
    next one must be.
    """
    if end_offset <= log.start_offset():
        return True
    try:
        found = _epoch_from(log, end_offset - 1)
    except OffsetOutOfRangeError as error:
        if error.start < end_offset:
            raise
        # Trimmed since; or a follower whose log ends below the snapshot that it fetched.
        return True
    if found is None:
        # A snapshot may well be the way past a record of a newer version.
        found = _epoch_from(log, end_offset)
    return None if found is None else found == epoch


def _epoch_from(log: MetadataLog, offset: int) -> int | None:
    """Epoch of the first batch that reaches beyond ``offset``, if there is one and it can be decoded."""
    try:
        batches = log.read(offset, max_bytes=1)
    except DecodeError:
        return None
    return batches[0].epoch if batches else None
