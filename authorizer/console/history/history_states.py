"""The moments between two states of a log: each state at which an ACL changed, and what changed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from records.entries import AccessControlEntryRecord, BrokerRecord, RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from replay.errors import InvariantError
from replay.steps import Beginning, steps
from snapshot.delta import AclsDelta
from snapshot.image import Provenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from records.columns.acl_table import AppliedAcl
    from records.log.base import MetadataLog
    from replay.steps import Step
    from snapshot.image import AclsImage


#: Rows of earlier columns that all held states have at most.
EARLIER_ROWS_MAXIMUM: Final = 1_000_000
_ACL_RECORDS: Final = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)


class Change(NamedTuple):
    """What one step did to one ACL.

    Attributes:
        before: the ACL as it was; None where it was not in force.
        after: the ACL as it is; None where it is not in force.
        offset: of the last record that changed it; None where no record is known.
    """

    before: AppliedAcl | None
    after: AppliedAcl | None
    offset: int | None

    @property
    def pair(self) -> tuple[AppliedAcl | None, AppliedAcl | None]:
        """The ACL before and after."""
        return self.before, self.after


class HistoryState(NamedTuple):
    """A state of the ACLs, and what led to it.

    Attributes:
        image: the state, which ends where the step did.
        timestamp_ms: of the last record of the step, since the epoch; 0 for what came before all steps.
        changes: from the state before; None where they are too many to be held.
        added: how many ACLs came, or became others.
        removed: how many went.
        unknown_from: where records are missing before it, the offset of the first one (I6).
        brokers: registrations of brokers that came in between, by which the rules may be another release's.
        first_record: offset of the first record of the step; None where that is not known. A batch becomes
            visible whole (I2): there is no state between this record and the end of the step.
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

    def has_inside(self, end_offset: int) -> bool:
        """Whether a state that ended there would have a part of this step."""
        if self.first_record is None or self.unknown_from is not None:
            return False
        return self.first_record < end_offset < self.end_offset


class StoredStates(NamedTuple):
    """The states that a stored history adds to a log.

    Attributes:
        moments: in order, before the one that they were joined to.
        joined: that one, with what led to it.
        origin: what the first one is, for people.
        is_whole: nothing was before it.
    """

    moments: tuple[HistoryState, ...]
    joined: HistoryState
    origin: str
    is_whole: bool


def scan_states(
    log: MetadataLog, before: AclsImage, after: AclsImage, on_progress: Callable[[int, int], None]
) -> list[HistoryState]:
    """The moments from one state on, that one first, to a later one, on whose columns all of them stand.

    Raises:
        LogError, DecodeError, ReplayError: the log cannot be read, or not up to there.
        InvariantError: it does not lead from the one to the other.
    """
    found: list[tuple[Step, tuple[Change, ...], AclsImage]] = []
    image, end = before, after.provenance.end_offset
    for whole in steps(log, Beginning(image=before, origin="", end=end), None, (), on_progress):
        step = _within(whole, end)
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
    image, moments = after, []
    for step, changes, earlier in reversed(found):
        if image.provenance.end_offset != step.end_offset:
            image = msgspec.structs.replace(image, provenance=_provenance(step))
        added, brokers = sum(each.after is not None for each in changes), _brokers(step)
        moments.append(
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
        image = _undone(image, changes, earlier.provenance)
        if brokers:
            image = msgspec.structs.replace(image, metadata=earlier.metadata)
    if image.digest != before.digest:
        raise InvariantError(f"from offset {before.provenance.end_offset} on, the log does not lead to {end}")
    first = msgspec.structs.replace(image, provenance=before.provenance)
    moments.append(HistoryState(first, first.provenance.timestamp_ms, (), 0, 0))
    return moments[::-1]


def _within(step: Step, end: int) -> Step:
    """What of it is before an end offset: the last batch may go on behind that."""
    if step.end_offset <= end:
        return step
    return replace(step, records=tuple(each for each in step.records if each.offset < end), end_offset=end)


def _undone(image: AclsImage, changes: Sequence[Change], provenance: Provenance) -> AclsImage:
    """The state before these changes."""
    delta = AclsDelta(image)
    for before, after, _ in changes:
        if after is not None:
            gone = RemoveAccessControlEntryRecord(after.record.id)
            delta.replay(LogRecord(provenance.end_offset, provenance.timestamp_ms, gone))
        if before is not None:
            delta.put(before)
    return delta.apply(provenance)


def _provenance(step: Step) -> Provenance:
    return Provenance(step.end_offset, 0, step.records[-1].timestamp_ms if step.records else 0)


def _brokers(step: Step) -> tuple[LogRecord, ...]:
    return tuple(each for each in step.records if isinstance(each.record, BrokerRecord))


def acls_in(moments: Sequence[HistoryState]) -> int:
    """How many ACLs are held as changes."""
    return sum(len(each.changes or ()) for each in moments)
