"""LogDefaults: default answers of a MetadataLog, and a check of its history by the epochs of its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from records.errors import DecodeError, OffsetOutOfRangeError
from records.log.base import MetadataLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from records.ids import Uuid
    from records.log.base import BatchPosition, CheckpointId, Freshness, TrailingBytes
    from records.log.cluster_writer import ClusterWriter


class LogDefaults(MetadataLog):
    """Defaults of a local log with one writer, without compaction and Kafka transactions.

    Each kind of log implements reading and appending, and overrides what differs.
    """

    def connect_or_close(self) -> Self:
        """Connect, and return the log; if that fails, close it. Raises as ``connect``."""
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def position_hint(self, offset: int) -> BatchPosition | None:
        return None

    @property
    def directory(self) -> Path | None:
        return None

    @property
    def removal_retention_ms(self) -> int | None:
        return None

    @property
    def is_shared(self) -> bool:
        return False

    @property
    def is_cluster_metadata_log(self) -> bool:
        return False

    @property
    def cluster_writer(self) -> ClusterWriter | None:
        return None

    @property
    def is_read_only(self) -> bool:
        return False

    @property
    def uncommitted_from(self) -> int | None:
        return None

    @property
    def blocks_readers(self) -> bool:
        return False

    def freshness(self) -> Freshness | None:
        return None

    def connect(self) -> None:
        """Nothing to do: ``open`` has checked the log."""

    def end_reading(self) -> None:
        """Nothing to do: reading needs no connection of its own."""

    def verified_high_watermark(self) -> int | None:
        return self.high_watermark()

    def log_end_offset(self) -> int:
        return self.high_watermark()

    def current_topic_id(self) -> Uuid:
        self.high_watermark()  # detects another log in its place
        return self.identity.topic_id

    def checkpoints(self) -> Sequence[CheckpointId]:
        return ()

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        if checkpoint.path is None:
            raise FileNotFoundError(checkpoint.name)
        return checkpoint.path.read_bytes()

    def trailing_bytes(self, *, settle_s: float = 0) -> TrailingBytes | None:
        return None

    def open_transaction(self) -> str | None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def has_epoch_at(log: MetadataLog, end_offset: int, epoch: int) -> bool | None:
    """MetadataLog.is_history for a log with cheap random access; raises as ``read``.

    The batch that ends there must have this epoch; if it was compacted away or cannot be decoded, the next
    one.
    """
    if end_offset <= log.start_offset():
        return True
    try:
        found = _epoch_from(log, end_offset - 1)
    except OffsetOutOfRangeError as error:
        if error.start < end_offset:
            raise
        # Trimmed meanwhile; or a follower whose log ends below the snapshot that it fetched.
        return True
    if found is None:
        # A snapshot may be the way past a record of a newer version.
        found = _epoch_from(log, end_offset)
    return None if found is None else found == epoch


def _epoch_from(log: MetadataLog, offset: int) -> int | None:
    """Epoch of the first batch that ends beyond ``offset``; None: no such batch, or it cannot be decoded."""
    try:
        batches = log.read(offset, max_bytes=1)
    except DecodeError:
        return None
    return batches[0].epoch if batches else None
