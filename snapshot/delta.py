"""AclsDelta: what a run of log records changes on an image. Every fold rule is here.

Source: org.apache.kafka.image.AclsDelta, with the differences of architecture.md 8.1. The rules:

- I2: records apply strictly in order; nothing is visible before ``apply``.
- I8: the same id again replaces the content; equal content under two ids is kept twice; the removal of an
  unknown id has no effect. All are counted, none throws.
- I12: the digest follows every change.

Metadata transactions, gaps and the high watermark are replay's concern: it decides *which* records get here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    OtherRecord,
    RemoveAccessControlEntryRecord,
)
from snapshot.digest import digest_add, digest_remove
from snapshot.image import AclsImage, AppliedAcl, Provenance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.ids import Uuid
    from records.log.base import LogRecord


@dataclass(slots=True)
class DeltaCounts:
    """What the records of one delta did, for metrics.

    ``replaced`` counts a known id with other content, ``repeated`` a known id with the same content again
    (the next checkpoint of a tail does that), ``unknown_removals`` removals of ids that are not in force.
    """

    added: int = 0
    removed: int = 0
    replaced: int = 0
    repeated: int = 0
    unknown_removals: int = 0
    ignored: int = 0

    def add(self, other: DeltaCounts) -> None:
        """Add another delta's counts to these."""
        self.added += other.added
        self.removed += other.removed
        self.replaced += other.replaced
        self.repeated += other.repeated
        self.unknown_removals += other.unknown_removals
        self.ignored += other.ignored


class AclsDelta:
    """Changes on top of ``image``; single-threaded until ``apply``, immutable in effect after it."""

    __slots__ = ("_changes", "_count", "_digest", "_features", "_whole", "counts", "image")

    def __init__(self, image: AclsImage) -> None:
        self.image = image
        # The image that this delta adds as a whole to the empty one, until somebody asks for its changes.
        self._whole: AclsImage | None = None
        self.counts = DeltaCounts()
        self._changes: dict[Uuid, AppliedAcl | None] = {}
        self._count = len(image)
        self._digest = image.digest
        self._features: Mapping[str, int] = image.features

    @classmethod
    def between(cls, before: AclsImage, after: AclsImage) -> AclsDelta:
        """What makes ``after`` of ``before``, for whoever did not follow the records from one to the other.

        Costs one look at every ACL of both, and no hashing: the digest is that of ``after``. From the empty
        image, as at every start, it costs nothing before somebody asks for ``changes``.
        """
        delta = cls(before)
        delta._count, delta._digest, delta._features = len(after), after.digest, after.features
        if not len(before):
            delta.counts.added = len(after)
            delta._whole = after
            return delta
        changes, counts = delta._changes, delta.counts
        for acl in after:
            held = before.get(acl.record.id)
            if held is None:
                counts.added += 1
            elif held.record != acl.record:
                counts.replaced += 1
            elif held == acl:
                continue
            changes[acl.record.id] = acl
        for acl in before:
            if acl.record.id not in after:
                counts.removed += 1
                changes[acl.record.id] = None
        return delta

    @property
    def changes(self) -> Mapping[Uuid, AppliedAcl | None]:
        """By id: the content now in force, or None where an ACL of the image is gone.

        An id that was added and removed within the delta does not appear (KAFKA-13889).
        """
        if self._whole is not None:
            self._changes = {acl.record.id: acl for acl in self._whole}
            self._whole = None
        return self._changes

    def changed(self) -> Iterator[tuple[AppliedAcl | None, AppliedAcl | None]]:
        """(before, after) of each changed id, in the order in which the ids first changed."""
        for acl_id, after in self.changes.items():
            yield self.image.get(acl_id), after

    def get(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id as this delta leaves it."""
        if self._whole is not None:
            return self._whole.get(acl_id)
        if acl_id in self._changes:
            return self._changes[acl_id]
        return self.image.get(acl_id)

    def replay(self, logged: LogRecord) -> None:
        """Apply one log record."""
        record = logged.record
        match record:
            case AccessControlEntryRecord():
                self.put(AppliedAcl(record, logged.offset, logged.timestamp_ms))
            case RemoveAccessControlEntryRecord():
                self._remove(record.id)
            case FeatureLevelRecord():
                features = {**self._features, record.name: record.level}
                if record.level == 0:
                    del features[record.name]
                self._features = features
            case (
                OtherRecord()
                | ControlRecord()
                | BeginTransactionRecord()
                | EndTransactionRecord()
                | AbortTransactionRecord()
            ):
                self.counts.ignored += 1
            case _:
                assert_never(record)

    def put(self, acl: AppliedAcl) -> None:
        """Put one ACL in force: an AccessControlEntryRecord, or a row of a snapshot."""
        acl_id = acl.record.id
        before = self.get(acl_id)
        if before is None:
            self.counts.added += 1
            self._count += 1
        elif before.record == acl.record:
            # The first writing stays the one on record: nothing changed here.
            self.counts.repeated += 1
            return
        else:
            self.counts.replaced += 1
            self._digest = digest_remove(self._digest, before.record)
        self._digest = digest_add(self._digest, acl.record)
        self._changes[acl_id] = acl

    def set_features(self, features: Mapping[str, int]) -> None:
        """Replace all feature levels, as a snapshot does."""
        self._features = dict(features)

    def _remove(self, acl_id: Uuid) -> None:
        before = self.get(acl_id)
        if before is None:
            self.counts.unknown_removals += 1
            return
        self.counts.removed += 1
        self._count -= 1
        self._digest = digest_remove(self._digest, before.record)
        if self.image.get(acl_id) is None:
            del self._changes[acl_id]
        else:
            self._changes[acl_id] = None

    def finish_snapshot(self, seen: Mapping[Uuid, object]) -> None:
        """A snapshot replaces everything (I5): remove the image's ACLs whose ids it did not hold."""
        for acl in self.image:
            if acl.record.id not in seen:
                self._remove(acl.record.id)

    def apply(self, provenance: Provenance) -> AclsImage:
        """The image with the changes, standing at ``provenance``. The old image stays as it was."""
        return self.image.with_changes(
            self.changes,
            count=self._count,
            digest=self._digest,
            features=self._features,
            provenance=provenance,
        )
