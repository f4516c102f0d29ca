"""Publishes updates as a loader does, without a log."""

from __future__ import annotations

from collections.abc import Sequence

from records.entries import MetadataRecord
from records.ids import METADATA_TOPIC_ID, Uuid
from records.log.base import LogIdentity
from records.log_batch import LogRecord
from replay.manifest import LoaderManifest, LogDeltaManifest
from replay.publishers import Publisher
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance


class UpdatePublisher:
    """Sends updates to some publishers, in their order."""

    def __init__(self, *publishers: Publisher) -> None:
        self.publishers = publishers
        self.image = AclsImage.EMPTY

    @property
    def end_offset(self) -> int:
        return self.image.provenance.end_offset

    def batch(self, *records: MetadataRecord) -> None:
        """Publish the next records of the log."""
        first = self.image is AclsImage.EMPTY
        self._give(AclsDelta(self.image), records, origin="the log's start" if first else None)

    def reload(self, *records: MetadataRecord, end_offset: int | None = None) -> None:
        """Publish a snapshot of these records, which replaces the state."""
        self._give(AclsDelta(AclsImage.EMPTY), records, origin="a snapshot", end_offset=end_offset)

    def _give(
        self,
        delta: AclsDelta,
        records: Sequence[MetadataRecord],
        *,
        origin: str | None,
        end_offset: int | None = None,
    ) -> None:
        offset = self.end_offset
        for record in records:
            delta.replay(LogRecord(offset, 1_000 + offset, record))
            offset += 1
        end_offset = offset if end_offset is None else end_offset
        self.image = delta.apply(Provenance(end_offset, 0, 1_000 + end_offset))
        manifest: LoaderManifest = LogDeltaManifest(
            identity=LogIdentity("a-cluster", Uuid(METADATA_TOPIC_ID)),
            provenance=self.image.provenance,
            batches=1,
            records=len(records),
            size_bytes=0,
            counts=delta.counts,
            high_watermark=end_offset,
            log_end_time_ms=0,
        )
        if origin is not None:
            manifest = manifest.as_reload(origin)
        for publisher in self.publishers:
            publisher.on_update(delta, self.image, manifest)
