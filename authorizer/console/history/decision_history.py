"""Every change of an answer through the past that is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from authorizer.analysis.blame import Followed, NewRelease
from authorizer.api.acl_json import acl_json
from records.entries import RemoveAccessControlEntryRecord
from records.log_batch import LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.analysis.blame import AskedQuestion, Change, Turn
    from authorizer.console.history.history_states import HistoryState


def decision_history_json(subject: AskedQuestion, moments: Sequence[HistoryState]) -> dict[str, Any]:
    """Since when the answers are known, the first one, and each that differs from the one before."""
    first = max((at for at, each in enumerate(moments) if each.changes is None), default=0)
    image = moments[first].image
    table = image.merged().columns
    followed = Followed(subject, table.acls(np.flatnonzero(subject.rows(table))), image.metadata)
    began = followed.answer.holds
    turns = []
    for moment in moments[first + 1 :]:
        turn = followed.after(_records(subject, followed, moment))
        if turn is not None and turn.flips:
            turns.append(_decision_change_json(turn, moment))
    return {"since_end_offset": moments[first].end_offset, "began": began, "turns": turns}


def _records(subject: AskedQuestion, followed: Followed, moment: HistoryState) -> Iterator[LogRecord]:
    """What a moment changed of the ACLs that have to do with the question."""
    yield from moment.brokers
    held = set(followed.ids)
    for before, after, offset in moment.changes or ():
        written = moment.end_offset - 1 if offset is None else offset
        if after is not None and (after.record.id in held or subject.is_wanted(after.record)):
            yield LogRecord(written, after.timestamp_ms, after.record)
        elif after is None and before is not None and before.record.id in held:
            record = RemoveAccessControlEntryRecord(before.record.id)
            yield LogRecord(written, moment.timestamp_ms, record)


def _decision_change_json(turn: Turn, moment: HistoryState) -> dict[str, Any]:
    return {
        "end_offset": moment.end_offset,
        "timestamp": moment.timestamp_ms,
        "allowed": turn.after.holds,
        "by": list(map(_change_json, turn.changes)),
    }


def _change_json(change: Change | NewRelease) -> dict[str, Any]:
    if isinstance(change, NewRelease):
        return {"kind": "release", "version": change.version, "was": change.was}
    return {"kind": change.kind, "acl": acl_json(change.acl), "offset": change.offset}
