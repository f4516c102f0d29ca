"""LocalLog: what a log of one writer, near at hand, answers to what is asked of every kind of log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from records.log.base import MetadataLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from records.ids import Uuid
    from records.log.base import CheckpointId, TrailingBytes


class LocalLog(MetadataLog):
    """A log that is asked without a cluster, does not compact, and has no Kafka transactions.

    What reads and appends is left to each kind, and so is what it has besides: a directory, checkpoints.
    """

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
    def high_watermark_is_guess(self) -> bool:
        return False

    @property
    def holds_back(self) -> bool:
        return False

    def reach(self) -> None:
        """It is there since it was opened."""

    def followed_end(self) -> int | None:
        return self.high_watermark()

    def log_end_offset(self) -> int:
        return self.high_watermark()

    def current_topic_id(self) -> Uuid:
        self.high_watermark()  # notices another log in its place
        return self.identity.topic_id

    def checkpoints(self) -> Sequence[CheckpointId]:
        return ()

    def trailing(self, *, patience_s: float = 0) -> TrailingBytes | None:
        return None

    def open_transaction(self) -> str | None:
        return None
