"""The Java authorizer's ACLs where records repeat ids or contents: it throws, aclog accepts (8.1).

AclCache refuses a known id, a content that it has under another id, and the removal of an unknown id; a delta
refuses to remove an id that is in neither image nor changes. The effect of a refusal depends on how the
recorder applied the records (`oracle.apply`):

- ``log``: record by record. The refused record has no effect.
- ``snapshot``: the first n records are folded into an image, then loaded together. If the image has a content
  twice, the load fails, and the ACLs loaded before remain.
- ``publisher``: batch by batch, as a broker. The rest of a batch after a refused change is skipped.

The recorded faults and answers verify this model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from records.entries import AccessControlEntryRecord, AclRecord
from records.ids import Uuid

Acls = dict[Uuid, AccessControlEntryRecord]
Content = tuple[int, str, int, str, str, int, int]
Fault = tuple[int, str]


class RefusedError(Exception):
    """The Java authorizer throws; its text is the first words of Java's."""


class JavaAcls:
    """The ACLs that the Java authorizer holds.

    Attributes:
        acls: by id.
        faults: (index, first words) of what was refused, as the recorder has them.
    """

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self._cache = _AclCache()
        self._image: Acls = {}

    @property
    def acls(self) -> Acls:
        return self._cache.acls

    def apply_log(self, start: int, records: Iterable[AclRecord]) -> None:
        for index, record in enumerate(records, start):
            try:
                if isinstance(record, AccessControlEntryRecord):
                    self._cache.add(record)
                else:
                    self._cache.remove(record.id)
            except RefusedError as refused:
                self.faults.append((index, str(refused)))

    def apply_snapshot(self, start: int, records: Sequence[AclRecord]) -> None:
        for index, record in enumerate(records, start):  # each a delta of its own
            self._image, _ = self._fold(index, (record,), "")
        loaded = _AclCache()
        try:
            for record in self._image.values():
                loaded.add(record)
        except RefusedError as refused:
            self.faults.append((start + len(records), f"loadSnapshot: {refused}"))
        else:
            self._cache = loaded

    def apply_batch(self, start: int, records: Sequence[AclRecord]) -> None:
        end = start + len(records)
        self._image, changes = self._fold(start, records, "replay: ")
        try:
            for acl_id, record in changes.items():
                if record is None:
                    self._cache.remove(acl_id)
                else:
                    self._cache.add(record)
        except RefusedError as refused:
            text = f"Error loading authorizer changes in MetadataDelta up to {end}: {refused}"
            self.faults.append((end, text))

    def _fold(
        self, start: int, records: Iterable[AclRecord], prefix: str
    ) -> tuple[Acls, dict[Uuid, AccessControlEntryRecord | None]]:
        """The image after these records, and the changes in the order in which their ids first changed."""
        changes: dict[Uuid, AccessControlEntryRecord | None] = {}
        for index, record in enumerate(records, start):
            if isinstance(record, AccessControlEntryRecord):
                changes[record.id] = record
            elif record.id in self._image:
                changes[record.id] = None
            elif changes.pop(record.id, None) is None:
                self.faults.append((index, f"{prefix}IllegalStateException: Failed to find existing ACL"))
        image = {**self._image, **changes}
        return {acl_id: record for acl_id, record in image.items() if record is not None}, changes


class _AclCache:
    """Kafka's AclCache: no id and no content twice."""

    def __init__(self) -> None:
        self.acls: Acls = {}
        self._contents: set[Content] = set()

    def add(self, record: AccessControlEntryRecord) -> None:
        if record.id in self.acls:
            raise RefusedError("RuntimeException: An ACL with ID")
        if record.content in self._contents:
            raise RefusedError("RuntimeException: Unable to add the ACL with ID")
        self.acls[record.id] = record
        self._contents.add(record.content)

    def remove(self, acl_id: Uuid) -> None:
        if acl_id not in self.acls:
            raise RefusedError("RuntimeException: ID")
        self._contents.remove(self.acls.pop(acl_id).content)
