"""Since when requests have their answer, for a page of requests at a time.

A list of principals needs one column for many requests. The changes are grouped by principal once, so that a
request reads only the changes of its principal and of ``User:*``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.blame import RequestSubject
from authorizer.analysis.related_acls import related_to
from authorizer.analysis.witness import decision_arguments
from authorizer.console.history.history_json import decision_history_json
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.analysis.witness import Witness
    from authorizer.console.history.history_states import Change, HistoryState
    from authorizer.engine.decisions.state import AuthorizerSettings
    from records.acl import AclOperation, ResourceType

#: Time of one page; later requests of the page get no answer.
LIMIT_S: Final = 2.0


class AnswerAges:
    """The changes of the ACLs on one resource type, by principal. Immutable."""

    def __init__(self, states: Sequence[HistoryState], resource_type: ResourceType) -> None:
        """``states``: in order; changes before one whose changes are not stored are unknown."""
        first = max((index for index, each in enumerate(states) if each.changes is None), default=0)
        self._states = states[first:]
        self._resource_type = resource_type
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
        self, witnesses: Sequence[Witness], operation: AclOperation, settings: AuthorizerSettings
    ) -> Iterator[dict[str, Any] | None]:
        """Yield for each request the state since which it has its answer; None if there is no time left.

        ``known`` is false if it had this answer in the first known state, which is then returned.
        """
        deadline_s = time.monotonic() + LIMIT_S
        # With allow.everyone the ACLs of any principal matter.
        principals = None if settings.allow_everyone else {each.principal for each in witnesses}
        names = {self._resource_type: {(each.name, True) for each in witnesses}}
        initial = related_to(self._states[0].image.merged().columns, names, principals)
        for witness in witnesses:
            if time.monotonic() > deadline_s:
                yield None
                continue
            arguments = decision_arguments(
                witness.principal, witness.host, operation, witness.resource_type, witness.name
            )
            subject = RequestSubject(*arguments, settings)
            related = self._states_of(None if principals is None else witness.principal)
            turns = decision_history_json(subject, related, initial)["turns"]
            if turns:
                last = turns[-1]
                yield {"known": True, "end_offset": last["end_offset"], "timestamp": last["timestamp"]}
            else:
                first = self._states[0]
                yield {"known": False, "end_offset": first.end_offset, "timestamp": first.timestamp_ms}

    def _states_of(self, principal: str | None) -> list[HistoryState]:
        """The first state, and those with changed ACLs of a principal (None: any): only these changes."""
        groups = self._changes if principal is None else {principal, WILDCARD_PRINCIPAL}
        brokers = ((index, None) for index, each in enumerate(self._states) if index and each.brokers)
        found = merge(brokers, *(self._changes.get(each, ()) for each in groups), key=itemgetter(0))
        first = self._states[0]._replace(changes=(), brokers=())
        return [
            first,
            *(
                self._states[index]._replace(changes=tuple(each for _, each in group if each is not None))
                for index, group in groupby(found, itemgetter(0))
            ),
        ]
