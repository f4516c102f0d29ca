"""AclsDelta: what a run of log records changes on an image. Every fold rule is here.

Source: org.apache.kafka.image.AclsDelta, with the differences of architecture.md 8.1. The rules:

- I2: records apply strictly in order; nothing is visible before ``apply``.
- I8: the same id again replaces the content; equal content under two ids is kept twice; the removal of an
  unknown id has no effect. All are counted, none throws.
- I12: the digest follows every change.

Metadata transactions, gaps and the high watermark are replay's concern: it decides *which* records get here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import msgspec
import numpy as np

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
from snapshot.added import AddedAcls
from snapshot.columns import among, heads_of
from snapshot.digest import DIGEST_MASK, digest_add, digest_remove
from snapshot.image import AclsImage, Provenance
from snapshot.rows import AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from records.ids import Uuid
    from records.log.base import LogBatch, LogRecord
    from snapshot.plain_fold import PlainFold

# Plain records are folded when there are so many, and more than were new among those before: what is kept of
# them stays small beside the ACLs, and these are joined a few times only.
_TAKEN_MAX: Final = 1 << 18


class DeltaCounts(msgspec.Struct, gc=False):
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

    __slots__ = ("_added", "_changes", "_count", "_digest", "_features", "_held", "_plain", "counts", "image")

    def __init__(self, image: AclsImage) -> None:
        self.image = image
        self.counts = DeltaCounts()
        # ACLs with ids that the image does not have. `_changes` overrules them.
        self._added = AddedAcls()
        self._changes: dict[Uuid, AppliedAcl | None] = {}
        # What the image holds of the ids that were asked for: a row is found and made into an object once.
        self._held: dict[Uuid, AppliedAcl | None] = {}
        # Records that were taken after all that the rest of this shows.
        self._plain: PlainFold | None = None
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
            delta._added = AddedAcls(after.columns)
            for acl_id, acl in after.changes.items():
                if acl is not None or after.columns.row_of(acl_id) is not None:
                    delta._changes[acl_id] = acl
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
        self._fold_plain()
        if len(self._added):
            before, added, changes = self.image, self._added.columns(), self._changes
            self._added = AddedAcls()
            self._changes = {acl.record.id: acl for acl in added if acl.record.id not in changes}
            for acl_id, acl in changes.items():
                if acl is not None or acl_id in before:
                    self._changes[acl_id] = acl
        return self._changes

    def changed(self) -> Iterator[tuple[AppliedAcl | None, AppliedAcl | None]]:
        """(before, after) of each changed id, in the order in which the ids first changed."""
        for acl_id, after in self.changes.items():
            yield self._before(acl_id), after

    def get(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id as this delta leaves it."""
        self._fold_plain()
        return self._get(acl_id)

    def _get(self, acl_id: Uuid) -> AppliedAcl | None:
        if acl_id in self._changes:
            return self._changes[acl_id]
        if len(self._added):
            added = self._added.columns()
            row = added.row_of(acl_id)
            if row is not None:
                return added.acl(row)
        return self._before(acl_id)

    def _before(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id as the image has it."""
        held = self._held
        if acl_id not in held:
            held[acl_id] = self.image.get(acl_id)
        return held[acl_id]

    def replay_batch(self, batch: LogBatch) -> None:
        """Apply all records of one batch. `counts` has those of a plain batch after `apply`."""
        plain = batch.plain
        if plain is None:
            for logged in batch.records:
                self.replay(logged)
            return
        if self._plain is None:
            from snapshot.plain_fold import PlainFold  # noqa: PLC0415 - Arrow: only where much is read

            self._plain = PlainFold()
        taken = self._plain.take(plain, batch.plain_first, batch.end_offset - batch.base_offset)
        if taken > _TAKEN_MAX and taken > len(self._added):
            self._fold_plain()

    def replay(self, logged: LogRecord) -> None:
        """Apply one log record."""
        record = logged.record
        match record:
            case AccessControlEntryRecord():
                acl = AppliedAcl(record, logged.offset, logged.timestamp_ms)
                if self._plain is None:
                    self._put(acl)
                else:
                    self._plain.take_other(acl)
            case RemoveAccessControlEntryRecord():
                if self._plain is None:
                    self._remove(record.id)
                else:
                    self._plain.take_other(record.id)
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
        self._fold_plain()
        self._put(acl)

    def _put(self, acl: AppliedAcl) -> None:
        acl_id = acl.record.id
        before = self._get(acl_id)
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
        before = self._get(acl_id)
        if before is None:
            self.counts.unknown_removals += 1
            return
        self.counts.removed += 1
        self._count -= 1
        self._digest = digest_remove(self._digest, before.record)
        if self._before(acl_id) is not None or self._added.columns().row_of(acl_id) is not None:
            self._changes[acl_id] = None
        else:
            del self._changes[acl_id]

    def _fold_plain(self) -> None:
        """Fold the records that were only taken."""
        plain = self._plain
        if plain is None:
            return
        self._plain = None
        folded = plain.fold(
            self._added, self._may_hold if self.image.is_large_step(plain.count) else _any_head
        )
        counts, outcomes = self.counts, folded.outcomes
        counts.ignored += plain.ignored
        del plain  # some megabytes, before as many may be needed to join the rows
        counts.added += outcomes.added
        counts.removed += outcomes.removed
        counts.replaced += outcomes.replaced
        counts.repeated += outcomes.repeated
        counts.unknown_removals += outcomes.unknown_removals
        self._count += outcomes.added - outcomes.removed
        self._digest = (self._digest + folded.digest) & DIGEST_MASK
        for other in folded.others:
            if isinstance(other, AppliedAcl):
                self._put(other)
            else:
                self._remove(other)

    def _may_hold(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of the first eight bytes of ids: which ones the image, `_changes` or joined columns know."""
        held = self.image.columns.may_hold(heads) | self._added.joined.may_hold(heads)
        changed = heads_of(b"".join([*self.image.changes, *self._changes]))
        return held | among(np.sort(changed), heads)

    def finish_snapshot(self, seen: Mapping[Uuid, object]) -> None:
        """A snapshot replaces everything (I5): remove the image's ACLs whose ids it did not hold."""
        self._fold_plain()
        for acl in self.image:
            if acl.record.id not in seen:
                self._remove(acl.record.id)

    def apply(self, provenance: Provenance) -> AclsImage:
        """The image with the changes, standing at ``provenance``. The old image stays as it was."""
        self._fold_plain()
        return self.image.with_changes(
            self._changes,
            added=self._added.columns(),
            count=self._count,
            digest=self._digest,
            features=self._features,
            provenance=provenance,
        )


def _any_head(heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    return np.ones(len(heads), np.bool_)
