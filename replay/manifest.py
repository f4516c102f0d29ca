"""Manifests of published updates: what was read from the log for each.

Source: org.apache.kafka.image.loader.{LoaderManifest,LogDeltaManifest,SnapshotManifest}. Kafka calls
the second kind SnapshotManifest; here that name is the stored snapshot's, and a replacement may as well come
from the start of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from records.log.base import LogIdentity
    from snapshot.fold import DeltaCounts
    from snapshot.image import Provenance


class LoaderManifest(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of both kinds.

    Attributes:
        provenance: of the image; always the end of a batch, outside any metadata transaction.
        batches: read from the log for this update.
        records: in these batches, of all types.
        high_watermark: of the log, after the batches were read.
        log_end_time_ms: the latest known time, since the epoch, at which the log ended
            with this image (I10).
    """

    identity: LogIdentity
    provenance: Provenance
    batches: int
    records: int
    size_bytes: int
    counts: DeltaCounts
    high_watermark: int
    log_end_time_ms: int

    def as_reload(self, origin: str) -> ReloadManifest:
        """The manifest of the same update as one that replaces the complete state."""
        return ReloadManifest(**(msgspec.structs.asdict(self) | {"origin": origin}))


class LogDeltaManifest(LoaderManifest, frozen=True, kw_only=True):
    """An update by the records that follow the previous image."""


class ReloadManifest(LoaderManifest, frozen=True, kw_only=True):
    """An update with the complete state: the first one, a reload (I5, I11), or for a late publisher.

    ``origin``: start of the replay: a snapshot's name, or ``the log's start``.
    """

    origin: str
