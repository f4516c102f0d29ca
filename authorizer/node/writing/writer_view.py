"""WriterView: the replayed ACLs plus the writer's appends since.

Without the appends a removal right after its creation would find nothing to remove. Source:
AclControlManager's idToAcl and existingAcls, which a controller updates with every record that it writes.

An image has an index by id. The existence of an ACL is checked by content, with a second index by the hash
of the content: at a million ACLs it takes about 130 MB instead of a second copy of them. It is built at the
first lookup, in about a second at that size, so that only nodes that write have it.

Not thread-safe; the mutator holds its lock.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from records.entries import AccessControlEntryRecord, AclContent, AclRecord
from snapshot.image import AclsImage
from snapshot.persistent_map import PersistentMap, without_item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.ids import Uuid
    from snapshot.delta import AclsDelta


class _Written:
    """The last write of an id that is not replayed yet."""

    __slots__ = ("end_offset", "record")

    def __init__(self, record: AccessControlEntryRecord | None, end_offset: int) -> None:
        self.record = record
        self.end_offset = end_offset


class FrozenView:
    """An immutable view of all ACLs, for a scan without the lock."""

    __slots__ = ("_image", "_written")

    def __init__(self, image: AclsImage, written: PersistentMap[Uuid, _Written]) -> None:
        self._image = image
        self._written = written

    def __iter__(self) -> Iterator[AccessControlEntryRecord]:
        written = self._written
        for acl in self._image:
            if acl.record.id not in written:
                yield acl.record
        for write in written.values():
            if write.record is not None:
                yield write.record


class WriterView:
    """Implements acl_control.AclView."""

    __slots__ = ("_appends", "_ids_by_hash", "_image", "_written")

    def __init__(self) -> None:
        self._image = AclsImage.EMPTY
        # Immutable, so that a FrozenView can refer to it.
        self._written: PersistentMap[Uuid, _Written] = PersistentMap()
        # End offset and ids of each append, oldest first.
        self._appends: deque[tuple[int, tuple[Uuid, ...]]] = deque()
        self._ids_by_hash: dict[int, Uuid | tuple[Uuid, ...]] | None = None

    def get(self, acl_id: Uuid) -> AccessControlEntryRecord | None:
        written = self._written.get(acl_id)
        if written is not None:
            return written.record
        acl = self._image.get(acl_id)
        return None if acl is None else acl.record

    def find(self, content: AclContent) -> AccessControlEntryRecord | None:
        ids = self._index().get(hash(content), ())
        for record in map(self.get, (ids,) if isinstance(ids, bytes) else ids):
            if record is not None and record.content == content:
                return record
        return None

    @property
    def image(self) -> AclsImage:
        return self._image

    def frozen(self) -> FrozenView:
        """Return an immutable view of all ACLs."""
        return FrozenView(self._image, self._written)

    def append(self, records: Iterable[AclRecord], end_offset: int) -> None:
        """Add records that were appended; they end at ``end_offset`` in the log."""
        if end_offset <= self._image.provenance.end_offset:
            return  # already replayed
        changed = {
            record.id: _Written(record if isinstance(record, AccessControlEntryRecord) else None, end_offset)
            for record in records
        }
        before = self._contents(changed)
        self._written = self._written.update(changed)
        self._appends.append((end_offset, tuple(changed)))
        self._reindex(before)

    def forget_appends(self) -> None:
        """Drop the appends, which may not be in the log any more."""
        self._written = PersistentMap()
        self._appends.clear()
        self._ids_by_hash = None

    def on_replayed(self, delta: AclsDelta, image: AclsImage) -> None:
        """Swap in a newly replayed image; drop the appends that it contains."""
        if delta.image is AclsImage.EMPTY:
            # A complete new state (Publisher): a new index is faster than a million single changes.
            self._ids_by_hash = None
        end_offset = image.provenance.end_offset
        replayed: set[Uuid] = set()
        while self._appends and self._appends[0][0] <= end_offset:
            replayed.update(self._appends.popleft()[1])
        before = {} if self._ids_by_hash is None else self._contents([*delta.changes, *replayed])
        self._image = image
        for acl_id in replayed:
            # A later append may have written the id again.
            if self._written[acl_id].end_offset <= end_offset:
                self._written = without_item(self._written, acl_id)
        self._reindex(before)

    def _contents(self, ids: Iterable[Uuid]) -> dict[Uuid, AclContent | None]:
        """Return the content of each id; nothing if there is no index to update."""
        if self._ids_by_hash is None:
            return {}
        records = ((acl_id, self.get(acl_id)) for acl_id in ids)
        return {acl_id: None if record is None else record.content for acl_id, record in records}

    def _reindex(self, before: dict[Uuid, AclContent | None]) -> None:
        if self._ids_by_hash is None:
            return
        for acl_id, content in before.items():
            record = self.get(acl_id)
            now = None if record is None else record.content
            if content == now:
                continue
            if content is not None:
                _discard(self._ids_by_hash, hash(content), acl_id)
            if now is not None:
                _add(self._ids_by_hash, hash(now), acl_id)

    def _index(self) -> dict[int, Uuid | tuple[Uuid, ...]]:
        if self._ids_by_hash is None:
            index: dict[int, Uuid | tuple[Uuid, ...]] = {}
            for record in self.frozen():
                _add(index, hash(record.content), record.id)
            self._ids_by_hash = index
        return self._ids_by_hash


def _add(index: dict[int, Uuid | tuple[Uuid, ...]], key: int, acl_id: Uuid) -> None:
    """Add an id; a tuple is needed only for equal content under several ids, or equal hashes."""
    ids = index.setdefault(key, acl_id)
    if ids is acl_id:
        return
    several = (ids,) if isinstance(ids, bytes) else ids
    if acl_id not in several:
        index[key] = (*several, acl_id)


def _discard(index: dict[int, Uuid | tuple[Uuid, ...]], key: int, acl_id: Uuid) -> None:
    ids = index.get(key)
    if ids is None:
        return
    rest = tuple(each for each in ((ids,) if isinstance(ids, bytes) else ids) if each != acl_id)
    if not rest:
        del index[key]
    else:
        index[key] = rest[0] if len(rest) == 1 else rest
