"""aclog as it is measured: a StandardAuthorizer that follows a log, through public interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Self

from authorizer.api.authorizer_api import AuthorizationResult
from authorizer.node.standard_authorizer import StandardAuthorizer
from benchmarks.requests import Request
from records.entries import MetadataRecord
from records.log.base import MetadataLog
from records.log.open import open_log
from records.log_batch import LogRecord
from replay.loader import Loader
from replay.manifest import LoaderManifest, LogDeltaManifest
from replay.snapshot_source import CheckpointFiles, SnapshotSource, StoredSnapshots
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance
from snapshot.store.snapshot_store import SnapshotStore

#: As Anchor.java configures Kafka's.
SUPER_USER = "User:admin"
#: Rights in up to 256 places are made by then (authorizer.engine.index.limits).
OFTEN = 16


class _LastUpdate:
    """A publisher that remembers what the authorizer was given last."""

    name = "benchmark"

    def __init__(self) -> None:
        self.image = AclsImage.EMPTY
        self.manifest: LoaderManifest | None = None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        self.image, self.manifest = image, manifest

    def on_ready(self) -> None:
        pass

    def on_not_ready(self, reason: str) -> None:
        pass

    def close(self) -> None:
        pass


class Subject:
    """An authorizer that has everything below the high watermark.

    Nothing runs in the background: the loader has no thread, so that CPU time is the measured call's alone.
    Cases that measure otherwise start the loader.
    """

    def __init__(self, log: MetadataLog, snapshots: Sequence[SnapshotSource]) -> None:
        self.authorizer = StandardAuthorizer()
        self.authorizer.configure(_configs(allow_everyone=False))
        self._last = _LastUpdate()
        self._log = log
        self.loader = Loader(log, snapshots, [self.authorizer, self._last])
        while not self.loader.status().ready:
            self.loader.iterate()

    @classmethod
    def open(cls, log: Path | str, snapshots: Path | None) -> Self:
        """Over a log, by path or URL, beginning where a node does."""
        opened = open_log(str(log))
        stored = [] if snapshots is None else [StoredSnapshots(SnapshotStore(snapshots))]
        return cls(opened, [*stored, CheckpointFiles(opened)])

    @property
    def image(self) -> AclsImage:
        """What the authorizer decides by."""
        return self._last.image

    def send_until_cached(self, requests: Sequence[Request]) -> None:
        """Send the requests until their principals' rights are cached, unless one has thousands of ACLs."""
        for _ in range(OFTEN):
            self.decide(requests, allow_everyone=False)

    def decide(self, requests: Sequence[Request], *, allow_everyone: bool) -> str:
        """A letter for each decision, as Anchor.java writes them: A or D, X where authorize raised."""
        self.authorizer.reconfigure(_configs(allow_everyone=allow_everyone))
        return "".join(map(self._decide_one, requests))

    def _decide_one(self, request: Request) -> str:
        try:
            results = self.authorizer.authorize(request.context, request.actions)
        except ValueError:
            return "X" * len(request.actions)
        return "".join("A" if result is AuthorizationResult.ALLOWED else "D" for result in results)

    def publish(self, records: Sequence[MetadataRecord]) -> None:
        """Fold the records into the next image and give it to the authorizer, as the loader does."""
        before = self._last.image
        manifest = self._last.manifest
        if manifest is None:
            raise RuntimeError("nothing was loaded")
        end_offset = before.provenance.end_offset
        delta = AclsDelta(before)
        for offset, record in zip(count(end_offset), records, strict=False):
            delta.replay(LogRecord(offset, 0, record))
        image = delta.apply(Provenance(end_offset + len(records), before.provenance.epoch, 0))
        update = LogDeltaManifest(
            identity=manifest.identity,
            provenance=image.provenance,
            batches=1,
            records=len(records),
            size_bytes=0,
            counts=delta.counts,
            high_watermark=image.provenance.end_offset,
            log_end_time_ms=manifest.log_end_time_ms,
        )
        self.authorizer.on_update(delta, image, update)
        self._last.on_update(delta, image, update)

    def close(self) -> None:
        self.loader.close()
        self._log.close()


def _configs(*, allow_everyone: bool) -> dict[str, object]:
    return {
        "super.users": SUPER_USER,
        "allow.everyone.if.no.acl.found": str(allow_everyone).lower(),
    }
