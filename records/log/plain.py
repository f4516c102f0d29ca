"""PlainLog: what a log answers of itself unless its kind says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from records.log.base import MetadataLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from records.ids import Uuid
    from records.log.base import CheckpointId, Freshness, TrailingBytes
    from records.log.cluster_writer import ClusterWriter


class PlainLog(MetadataLog):
    """A log of one writer, near at hand, that does not compact and has no Kafka transactions.

    What reads and appends is left to each kind, and so is what it has besides: a directory, checkpoints.
    """

    def reached(self) -> Self:
        """Itself, when it was reached; closed where it could not be. Raises as ``reach``."""
        try:
            self.reach()
        except BaseException:
            self.close()
            raise
        return self

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
    def is_clusters_own(self) -> bool:
        return False

    @property
    def cluster_writer(self) -> ClusterWriter | None:
        return None

    @property
    def is_only_read(self) -> bool:
        return False

    @property
    def uncommitted_from(self) -> int | None:
        return None

    @property
    def holds_back(self) -> bool:
        return False

    def freshness(self) -> Freshness | None:
        return None

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

    def checkpoint_bytes(self, checkpoint: CheckpointId) -> bytes:
        if checkpoint.path is None:
            raise FileNotFoundError(checkpoint.name)
        return checkpoint.path.read_bytes()

    def trailing(self, *, patience_s: float = 0) -> TrailingBytes | None:
        return None

    def open_transaction(self) -> str | None:
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
