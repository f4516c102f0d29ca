"""JSON of states, of their changes, and of an answer's history, for the page and for reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from authorizer.analysis.history.blame import RequestSubject
from authorizer.analysis.history.history import AnswerHistory, change_json
from authorizer.api.acl_json import applied_acl_json
from authorizer.console.history.history_states import Change, HistoryState, with_known_changes
from authorizer.engine.decisions.state import AuthorizerState
from records.columns.acl_table import AppliedAcl
from records.ids import Uuid
from records.log_batch import LogRecord
from snapshot.metadata_image import MetadataImage


def state_offset_json(state: AuthorizerState) -> dict[str, int]:
    """Return the end offset of a state, and the time of its last record (0 if unknown)."""
    provenance = state.index.image.provenance
    return {"end_offset": provenance.end_offset, "timestamp": max(0, provenance.timestamp_ms)}


def history_state_json(state: HistoryState) -> dict[str, Any]:
    """Return the end offset, time and number of changes of a state."""
    return {
        **state.end_json,
        "added": state.added,
        "removed": state.removed,
        "acls": len(state.image),
        "unknown_from": state.unknown_from,
        "first_record": state.first_record,
    }


def change_entries(state: HistoryState) -> list[dict[str, Any]]:
    """Return the changed ACLs of a state, the newest first; one entry for all if they are not stored.

    ``offset`` is that of the record that made the change, or null if it is unknown.
    """
    if state.changes is None:
        return [
            state.end_json | {"kind": "many", "offset": None, "added": state.added, "removed": state.removed}
        ]
    return [
        state.end_json | {"kind": _kind(each), "offset": each.offset, "acl": applied_acl_json(acl)}
        for each in sorted(state.changes, key=lambda each: each.offset or 0, reverse=True)
        if (acl := each.after or each.before) is not None
    ]


def _kind(change: Change) -> str:
    if change.after is None:
        return "removed"
    return "added" if change.before is None else "replaced"


def decision_history_json(subject: RequestSubject, states: Sequence[HistoryState]) -> dict[str, Any]:
    """Return the first known decision, and each later change of it."""
    states = with_known_changes(states)
    history = AnswerHistory(_StoredStateSource(subject, states), subject)
    first_answer = history.answer.holds
    changes = [
        {
            "end_offset": step.end_offset,
            "timestamp": step.timestamp_ms,
            "allowed": answer_change.after.holds,
            "by": list(map(change_json, answer_change.changes)),
        }
        for step, answer_change in history.steps()
        if answer_change is not None and answer_change.is_decision_change
    ]
    return {"since_end_offset": states[0].end_offset, "began": first_answer, "turns": changes}


class _StateStep(NamedTuple):
    end_offset: int
    timestamp_ms: int
    records: Sequence[LogRecord]
    unknown_from: int | None


class _StoredStateSource:
    """History source of states in memory; the changes of all but the first one are known."""

    def __init__(self, subject: RequestSubject, states: Sequence[HistoryState]) -> None:
        self._subject = subject
        self._states = states

    @property
    def metadata(self) -> MetadataImage:
        return self._states[0].image.metadata

    def initial_acls(self) -> Sequence[AppliedAcl]:
        initial = self._states[0].image.merged().columns
        return initial.acls(np.flatnonzero(self._subject.rows(initial)))

    def steps(self, ids: Iterable[Uuid]) -> Iterator[_StateStep]:
        seen = set(ids)
        for state in self._states[1:]:
            records = tuple(self._records(state, seen))
            if records:
                yield _StateStep(state.end_offset, state.timestamp_ms, records, state.unknown_from)

    def _records(self, state: HistoryState, seen: set[Uuid]) -> Iterator[LogRecord]:
        """The broker registrations of a state, and the changes that concern the subject."""
        yield from state.brokers
        for change in state.changes or ():
            before, after = change.pair
            if after is not None and (after.record.id in seen or self._subject.is_related(after.record)):
                seen.add(after.record.id)
                yield state.record_of(change)
            elif after is None and before is not None and before.record.id in seen:
                yield state.record_of(change)
