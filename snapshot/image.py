"""AclsImage: the ACLs of a cluster at one offset, immutable (I1).

Source: org.apache.kafka.image.AclsImage, MetadataProvenance. An image is a large base dict, never changed
once published, under a persistent map of the changes since: making the next image costs what changed, at a
million ACLs as well as at ten, and every older image stays as it was. ``AclsDelta`` is its maker, and
``restored`` for a stored snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import immutables
import msgspec

from records.entries import METADATA_VERSION_FEATURE, AccessControlEntryRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.ids import Uuid


class AppliedAcl(msgspec.Struct, frozen=True, gc=False):
    """An ACL in force and where it was written.

    Attributes:
        record: the ACL.
        offset: of the log record that wrote it; None when it came from a KRaft checkpoint, whose records
            have no log offsets of their own.
        timestamp_ms: of that record; of the checkpoint's record where offset is None.
    """

    record: AccessControlEntryRecord
    offset: int | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an image stands in its log.

    Attributes:
        end_offset: last contained offset + 1, also the snapshot id (MetadataProvenance.java).
        epoch: leader epoch of the last contained batch.
        timestamp_ms: timestamp of the last contained record, 0 when there is none.
    """

    end_offset: int
    epoch: int
    timestamp_ms: int


#: Before the first record of any log.
NOWHERE: Final = Provenance(end_offset=0, epoch=0, timestamp_ms=0)

# Above this share of the base, changes are merged into a new base: look-ups stay one dict get, and the copy
# is paid for by the updates that made it due.
_MERGE_SHARE: Final = 2
_MERGE_MINIMUM: Final = 1024

_UNCHANGED: Final[immutables.Map[Uuid, AppliedAcl | None]] = immutables.Map()
_MISSING: Final = object()


class AclsImage:
    """All ACLs by id, where in the log that is, and the digest of the whole.

    Iteration order is arbitrary but the same for the same image.
    """

    __slots__ = ("_base", "_changes", "_count", "digest", "features", "provenance")

    EMPTY: AclsImage

    def __init__(
        self,
        base: dict[Uuid, AppliedAcl],
        changes: immutables.Map[Uuid, AppliedAcl | None],
        *,
        count: int,
        digest: int,
        features: Mapping[str, int],
        provenance: Provenance,
    ) -> None:
        # For this file only: `base` must never change again, and `changes` maps to None what is removed.
        self._base = base
        self._changes = changes
        self._count = count
        self.digest = digest
        self.features = features
        self.provenance = provenance

    def __len__(self) -> int:
        return self._count

    def __contains__(self, acl_id: Uuid) -> bool:
        return self.get(acl_id) is not None

    def get(self, acl_id: Uuid) -> AppliedAcl | None:
        """The ACL with this id, if it is in force."""
        if self._changes:
            changed = self._changes.get(acl_id, _MISSING)
            if changed is not _MISSING:
                return changed  # type: ignore[return-value]
        return self._base.get(acl_id)

    def __iter__(self) -> Iterator[AppliedAcl]:
        """Every ACL in force."""
        changes = self._changes
        if not changes:
            yield from self._base.values()
            return
        for acl_id, acl in self._base.items():
            if acl_id not in changes:
                yield acl
        for changed in changes.values():
            if changed is not None:
                yield changed

    @property
    def metadata_version(self) -> int | None:
        """Feature level of metadata.version, if the log says so; decides how hosts match (H11)."""
        return self.features.get(METADATA_VERSION_FEATURE)

    @classmethod
    def restored(
        cls,
        acls: dict[Uuid, AppliedAcl],
        *,
        digest: int,
        features: Mapping[str, int],
        provenance: Provenance,
    ) -> AclsImage:
        """The image that a stored snapshot holds, for whoever checked it: takes ``acls`` and the digest over.

        Folding a million rows anew costs seconds, most of it hashing what the manifest vouches for.
        """
        return cls(acls, _UNCHANGED, count=len(acls), digest=digest, features=features, provenance=provenance)

    def with_changes(
        self,
        changes: Mapping[Uuid, AppliedAcl | None],
        *,
        count: int,
        digest: int,
        features: Mapping[str, int],
        provenance: Provenance,
    ) -> AclsImage:
        """The next image, for AclsDelta: ``changes`` maps ids to their new content, or None if removed."""
        base, merged = self._base, self._changes
        if len(merged) + len(changes) > max(_MERGE_MINIMUM, len(base) // _MERGE_SHARE):
            base = dict(base)
            for more in (merged, changes):
                for acl_id, acl in more.items():
                    if acl is None:
                        base.pop(acl_id, None)
                    else:
                        base[acl_id] = acl
            merged = _UNCHANGED
        elif changes:
            merged = merged.update(changes)
        return AclsImage(base, merged, count=count, digest=digest, features=features, provenance=provenance)

    def __repr__(self) -> str:
        return f"AclsImage({self._count} ACLs at end offset {self.provenance.end_offset})"


AclsImage.EMPTY = AclsImage({}, _UNCHANGED, count=0, digest=0, features={}, provenance=NOWHERE)
