"""What one published update was made of: the loader's manifests.

Source: org.apache.kafka.image.loader.{LoaderManifest,LogDeltaManifest,SnapshotManifest}. Kafka's loader calls
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
    """What both kinds say.

    Attributes:
        identity: the log that it is a state of.
        provenance: where the image stands; always the end of a batch, outside any metadata transaction.
        batches: read from the log for this update.
        records: in these batches, of all types.
        size_bytes: of these batches.
        counts: what the records did to the state.
        high_watermark: of the log, after the batches were read.
        log_end_time_ms: a time, since the epoch, at which the log did not reach beyond this image; as late
            a time as this node knows (I10).
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
        """The same of an update that replaces the whole state."""
        return ReloadManifest(**msgspec.structs.asdict(self), origin=origin)


class LogDeltaManifest(LoaderManifest, frozen=True, kw_only=True):
    """The records of the log that follow the image before."""


class ReloadManifest(LoaderManifest, frozen=True, kw_only=True):
    """The whole state, in one swap: the first update, a reload (I5, I11), or a publisher that came late.

    Attributes:
        origin: what the state was built on: a snapshot's name, or ``the log's start``.
    """

    origin: str
