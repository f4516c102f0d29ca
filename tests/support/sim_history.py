"""The records of a simulated log and their naive fold: every state that a follower may show.

It is deliberately slow and simple: it shares only the record types with AclsDelta and the core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from records.entries import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
)
from snapshot.digest import acl_hash
from snapshot.image import AclsImage

if TYPE_CHECKING:
    from records.ids import Uuid
    from records.log_batch import LogBatch


@dataclass(frozen=True, slots=True)
class State:
    """The ACLs and features after a batch."""

    acls: Mapping[Uuid, AccessControlEntryRecord]
    features: Mapping[str, int]

    @property
    def digest(self) -> int:
        return sum(acl_hash(record) for record in self.acls.values()) % (1 << 128)


EMPTY_STATE = State({}, {})


def state_of(image: AclsImage) -> State:
    return State({acl.record.id: acl.record for acl in image}, dict(image.metadata.features))


def fold(records: list[MetadataRecord], before: State = EMPTY_STATE) -> State:
    """The state after records outside of open transactions."""
    acls, features = dict(before.acls), dict(before.features)
    for record in records:
        match record:
            case AccessControlEntryRecord():
                acls[record.id] = record
            case RemoveAccessControlEntryRecord():
                acls.pop(record.id, None)
            case FeatureLevelRecord(level=0):
                features.pop(record.name, None)
            case FeatureLevelRecord():
                features[record.name] = record.level
            case _:
                pass
    return State(acls, features)


@dataclass(slots=True)
class History:
    """All batches that a log ever held below its end, compacted or trimmed ones too.

    ``states``: by end offset, the state at the end of each batch outside of transactions.
    """

    states: dict[int, State] = field(default_factory=lambda: {0: EMPTY_STATE})
    _batches: list[LogBatch] = field(default_factory=list)
    _waiting: list[MetadataRecord] = field(default_factory=list)
    _transaction: list[MetadataRecord] | None = None

    def add(self, batch: LogBatch) -> None:
        self._batches.append(batch)
        for logged in batch.records:
            match logged.record:
                case BeginTransactionRecord():
                    self._transaction = []
                case EndTransactionRecord():
                    self._waiting += self._transaction or []
                    self._transaction = None
                case AbortTransactionRecord():
                    self._transaction = None
                case record if self._transaction is not None:
                    self._transaction.append(record)  # type: ignore[arg-type]
                case record:
                    self._waiting.append(record)  # type: ignore[arg-type]
        if self._transaction is None:
            before = self.states[max(self.states)]
            self.states[batch.end_offset] = fold(self._waiting, before)
            self._waiting = []

    def truncate(self, end_offset: int) -> None:
        remaining = [batch for batch in self._batches if batch.end_offset <= end_offset]
        self.states = {0: EMPTY_STATE}
        self._batches, self._waiting, self._transaction = [], [], None
        for batch in remaining:
            self.add(batch)

    def epoch_at(self, end_offset: int) -> int:
        """Epoch of the batch that ends there."""
        return next(batch.epoch for batch in self._batches if batch.end_offset == end_offset)

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    @property
    def last_state(self) -> State:
        return self.states[max(self.states)]
