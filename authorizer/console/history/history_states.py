"""The states of a log between two offsets: each state at which an ACL changed, with its changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import msgspec

from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord, BrokerRecord, RemoveAccessControlEntryRecord
from records.log.base import MetadataLog
from records.log_batch import LogRecord
from replay.errors import InvariantError
from replay.steps import Beginning, Step, steps
from snapshot.delta import AclsDelta
from snapshot.image import AclsImage, Provenance

#: Maximum rows of the earlier columns of all retained states.
EARLIER_ROWS_MAXIMUM: Final = 1_000_000
_ACL_RECORDS: Final = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)


class Change(NamedTuple):
    """The change of one ACL by one step."""

    before: AppliedAcl | None
    after: AppliedAcl | None
    offset: int | None

    @property
    def pair(self) -> tuple[AppliedAcl | None, AppliedAcl | None]:
        return self.before, self.after


class HistoryState(NamedTuple):
    """A state of the ACLs, with the changes that led to it.

    Attributes:
        image: the state; it ends where the step ends.
        timestamp_ms: time of the step's last record, since the epoch; 0 for the first known state.
        changes: from the previous state; None if they are too many to retain.
        unknown_from: offset of the first missing record before the step (I6); None if none is missing.
        brokers: broker registrations in the step; they may change the release whose rules apply.
        first_record: offset of the step's first record; None if unknown. A batch becomes visible atomically
            (I2): there is no state between this record and the end of the step.
    """

    image: AclsImage
    timestamp_ms: int
    changes: tuple[Change, ...] | None
    added: int
    removed: int
    unknown_from: int | None = None
    brokers: tuple[LogRecord, ...] = ()
    first_record: int | None = None

    @property
    def end_offset(self) -> int:
        """Last contained offset + 1."""
        return self.image.provenance.end_offset

    @property
    def end_json(self) -> dict[str, int]:
        return {"end_offset": self.end_offset, "timestamp": self.timestamp_ms}

    def record_of(self, change: Change) -> LogRecord:
        """Return the record that makes one of the changes; at the step's end if its offset is unknown."""
        before, after, offset = change
        if offset is None:
            offset = self.end_offset - 1
        if after is not None:
            return LogRecord(offset, after.timestamp_ms, after.record)
        if before is None:
            raise ValueError("a change of no ACL")
        return LogRecord(offset, self.timestamp_ms, RemoveAccessControlEntryRecord(before.record.id))

    def has_inside(self, end_offset: int) -> bool:
        """Whether the offset is inside this step, where no state exists."""
        if self.first_record is None or self.unknown_from is not None:
            return False
        return self.first_record < end_offset < self.end_offset


def with_known_changes(states: Sequence[HistoryState]) -> Sequence[HistoryState]:
    """Return the last states; the changes of all but the first one are stored."""
    return states[max((index for index, each in enumerate(states) if each.changes is None), default=0) :]


class StoredStates(NamedTuple):
    """The states that a stored history adds to a log.

    Attributes:
        states: in order, before the joined state.
        joined: the state that they lead to, with its changes.
        is_complete: whether nothing came before the first state.
    """

    states: tuple[HistoryState, ...]
    joined: HistoryState
    origin: str
    is_complete: bool


def scan_states(
    log: MetadataLog, before: AclsImage, after: AclsImage, on_progress: Callable[[int, int], None]
) -> list[HistoryState]:
    """Return the states from ``before`` to ``after``, both included, all on the columns of ``after``.

    LogError, DecodeError, ReplayError: the log cannot be read up to ``after``.
    """
    found: list[tuple[Step, tuple[Change, ...], AclsImage]] = []
    image, end = before, after.provenance.end_offset
    for complete in steps(log, Beginning(image=before, origin="", end=end), None, (), on_progress):
        step = _cut_at(complete, end)
        delta = AclsDelta(image)
        for logged in step.records:
            delta.replay(logged)
        offsets = {
            each.record.id: each.offset for each in step.records if isinstance(each.record, _ACL_RECORDS)
        }
        changes = tuple(
            Change(old, new, offsets[acl.record.id])
            for old, new in delta.changed()
            if old != new and (acl := new or old) is not None
        )
        if changes or _brokers(step) or step.unknown_from is not None:
            found.append((step, changes, image))
            image = delta.apply(_provenance(step))
    image, states = after, []
    for step, changes, earlier in reversed(found):
        if image.provenance.end_offset != step.end_offset:
            image = msgspec.structs.replace(image, provenance=_provenance(step))
        added, brokers = sum(each.after is not None for each in changes), _brokers(step)
        states.append(
            HistoryState(
                image,
                image.provenance.timestamp_ms,
                changes,
                added,
                len(changes) - added,
                step.unknown_from,
                brokers,
                step.records[0].offset if step.records else None,
            )
        )
        image = _undo(image, changes, earlier.provenance)
        if brokers:
            image = msgspec.structs.replace(image, metadata=earlier.metadata)
    if image.digest != before.digest:
        raise InvariantError(f"from offset {before.provenance.end_offset} on, the log does not lead to {end}")
    first = msgspec.structs.replace(image, provenance=before.provenance)
    states.append(HistoryState(first, first.provenance.timestamp_ms, (), 0, 0))
    return states[::-1]


def _cut_at(step: Step, end: int) -> Step:
    """The part of a step before an end offset, which may be inside the last batch."""
    if step.end_offset <= end:
        return step
    return replace(step, records=tuple(each for each in step.records if each.offset < end), end_offset=end)


def _undo(image: AclsImage, changes: Sequence[Change], provenance: Provenance) -> AclsImage:
    """The state before these changes."""
    delta = AclsDelta(image)
    for before, after, _ in changes:
        if after is not None:
            removal = RemoveAccessControlEntryRecord(after.record.id)
            delta.replay(LogRecord(provenance.end_offset, provenance.timestamp_ms, removal))
        if before is not None:
            delta.put(before)
    return delta.apply(provenance)


def _provenance(step: Step) -> Provenance:
    return Provenance(step.end_offset, 0, step.records[-1].timestamp_ms if step.records else 0)


def _brokers(step: Step) -> tuple[LogRecord, ...]:
    return tuple(each for each in step.records if isinstance(each.record, BrokerRecord))


def count_changes(states: Sequence[HistoryState]) -> int:
    """Return the number of ACL changes of the states."""
    return sum(len(each.changes or ()) for each in states)
