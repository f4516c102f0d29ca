"""Since when requests have their answer, for a page of requests at a time.

A list of principals needs one column for many requests. The changes are grouped by principal once, so that a
request reads only the changes of its principal and of ``User:*``.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from functools import cache
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from authorizer.analysis.history.blame import RequestSubject
from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.permissions.witness import decision_arguments
from authorizer.console.history.history_json import decision_history_json
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.analysis.permissions.witness import Witness
    from authorizer.console.history.history_states import Change, HistoryState
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import AclOperation, ResourceType
    from records.columns.acl_table import AclTable

# Maximum number of cached answers.
_KNOWN_MAXIMUM: Final = 20_000


class AnswerAges:
    """The changes of the ACLs on one resource type, by principal. Immutable."""

    def __init__(self, states: Sequence[HistoryState], resource_type: ResourceType) -> None:
        """``states``: in order; changes before one whose changes are not stored are unknown."""
        first = max((index for index, each in enumerate(states) if each.changes is None), default=0)
        self._states = states[first:]
        self._resource_type = resource_type
        self._known: dict[tuple[object, ...], dict[str, Any]] = {}
        # By number, the states with changed brokers.
        self._brokers = [(index, None) for index, each in enumerate(self._states) if index and each.brokers]
        self._changes: defaultdict[str, list[tuple[int, Change]]] = defaultdict(list)
        for index, state in enumerate(self._states[1:], 1):
            for change in state.changes or ():
                principals = {
                    acl.record.principal
                    for acl in change.pair
                    if acl is not None and acl.record.resource_type == resource_type
                }
                for principal in principals:
                    self._changes[principal].append((index, change))

    def since(
        self,
        requests: Collection[RequestClass],
        settings: AuthorizerSettings,
        *,
        limit_s: float | None = None,
    ) -> Iterator[dict[str, Any] | None]:
        """Yield for each class the state since which its witness has its answer, for all of its operations.

        None if there is no time left. ``known`` is false if that is the first known state.
        """
        deadline_s = math.inf if limit_s is None else time.monotonic() + limit_s
        witnesses = {each.witness for each in requests}
        # With allow.everyone the ACLs of any principal matter.
        principals = None if settings.allow_everyone else {each.principal for each in witnesses}
        names = {self._resource_type: {(each.name, True) for each in witnesses}}
        initial = related_to(self._states[0].image.merged().columns, names, principals)
        states_of = cache(self._states_of)
        for each in requests:
            if time.monotonic() > deadline_s:
                yield None
                continue
            related = states_of(None if principals is None else each.witness.principal)
            ends = [self._since(each.witness, one, settings, related, initial) for one in each.operations]
            yield max(ends, key=lambda end: (end["known"], end["end_offset"]))

    def _since(
        self,
        witness: Witness,
        operation: AclOperation,
        settings: AuthorizerSettings,
        related: Sequence[HistoryState],
        initial: AclTable,
    ) -> dict[str, Any]:
        arguments = decision_arguments(
            witness.principal, witness.host, operation, witness.resource_type, witness.name
        )
        subject = RequestSubject(*arguments, settings)
        # Requests for two names that the same ACLs cover always had the same answer.
        key = (
            *(witness.principal, witness.host, operation, settings),
            tuple(initial.id_of(row) for row in np.flatnonzero(subject.rows(initial)).tolist()),
            tuple(
                (state.end_offset, after.record.id)
                for state in related
                for _, after, _ in state.changes or ()
                if after is not None and subject.is_related(after.record)
            ),
        )
        if key not in self._known:
            if len(self._known) >= _KNOWN_MAXIMUM:
                self._known.clear()
            self._known[key] = self._last_change(subject, related, initial)
        return self._known[key]

    def _last_change(
        self, subject: RequestSubject, related: Sequence[HistoryState], initial: AclTable
    ) -> dict[str, Any]:
        turns = decision_history_json(subject, related, initial)["turns"]
        if turns:
            last = turns[-1]
            return {"known": True, "end_offset": last["end_offset"], "timestamp": last["timestamp"]}
        first = self._states[0]
        return {"known": False, "end_offset": first.end_offset, "timestamp": first.timestamp_ms}

    def _states_of(self, principal: str | None) -> list[HistoryState]:
        """The first state, and those with changed ACLs of a principal (None: any): only these changes."""
        groups = self._changes if principal is None else {principal, WILDCARD_PRINCIPAL}
        found = merge(self._brokers, *(self._changes.get(each, ()) for each in groups), key=itemgetter(0))
        first = self._states[0]._replace(changes=(), brokers=())
        return [
            first,
            *(
                self._states[index]._replace(changes=tuple(each for _, each in group if each is not None))
                for index, group in groupby(found, itemgetter(0))
            ),
        ]
