"""Since when requests have their answer, for a page of requests at a time.

A list of principals needs one column for many requests. So one pass over the changes of their principals and
of ``User:*`` follows them together, and decides after each change only the requests that it may concern.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from authorizer.analysis.history.blame import RequestsTracker, RequestSubject
from authorizer.analysis.permissions.related_acls import related_to
from authorizer.console.history.history_states import Change, HistoryState, with_known_changes
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import WILDCARD, ResourceType
from records.principal import WILDCARD_PRINCIPAL
from snapshot.image import NOWHERE, restore_image

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from authorizer.analysis.permissions.request_class import RequestClass
    from authorizer.engine.decisions.state import AuthorizerSettings
    from authorizer.engine.index.acl_index import AclIndex
    from records.entries import AccessControlEntryRecord
    from records.log_batch import LogRecord

# Number of requests in one pass if time is limited.
_LIMITED: Final = 10


class AnswerAges:
    """The changes of the ACLs on one resource type, by principal. Immutable."""

    def __init__(self, states: Sequence[HistoryState], resource_type: ResourceType) -> None:
        """``states``: in order; changes before one whose changes are not stored are unknown."""
        self._states = with_known_changes(states)
        self._resource_type = resource_type
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
        first = self._states[0].image
        related = related_to(first.merged().columns, names, principals)
        index = settings.index(restore_image([related], provenance=NOWHERE, metadata=first.metadata))
        size = len(requests) if limit_s is None else _LIMITED
        unanswered = iter(requests)
        while part := list(islice(unanswered, size)):
            is_late = time.monotonic() > deadline_s
            yield from [None] * len(part) if is_late else self._since(part, settings, index)

    def _since(
        self, requests: Sequence[RequestClass], settings: AuthorizerSettings, index: AclIndex
    ) -> Iterator[dict[str, Any]]:
        subjects = [
            RequestSubject(*each.witness.arguments(operation), settings)
            for each in requests
            for operation in each.operations
        ]
        since = [{"known": False, **self._states[0].end_json}] * len(subjects)
        tracker, related = RequestsTracker(subjects, settings, index), _RelatedSubjects(subjects, settings)
        principals = None if settings.allow_everyone else {each.witness.principal for each in requests}
        for state in self._states_of(principals):
            affected: set[int] = set()
            records: list[LogRecord] = list(state.brokers)
            for change in state.changes or ():
                concerned = {
                    number for acl in change.pair if acl is not None for number in related.to(acl.record)
                }
                if concerned:
                    affected |= concerned
                    records.append(state.record_of(change))
            if not records:
                continue
            for number in tracker.apply(records, sorted(affected)):
                since[number] = {"known": True, **state.end_json}
        found = iter(since)
        for each in requests:
            ends = list(islice(found, len(each.operations)))
            yield max(ends, key=lambda end: (end["known"], end["end_offset"]))

    def _states_of(self, principals: Collection[str] | None) -> Iterator[HistoryState]:
        """The states with changed ACLs of some principals (None: any): only these changes, each once."""
        groups = self._changes if principals is None else {*principals, WILDCARD_PRINCIPAL}
        found = merge(self._brokers, *(self._changes.get(each, ()) for each in groups), key=itemgetter(0))
        for index, group in groupby(found, itemgetter(0)):
            changes = {id(each): each for _, each in group if each is not None}
            yield self._states[index]._replace(changes=tuple(changes.values()))


class _RelatedSubjects:
    """The requests to which an ACL is related, by principal and name."""

    def __init__(self, subjects: Sequence[RequestSubject], settings: AuthorizerSettings) -> None:
        self._subjects = subjects
        self._of_any = settings.allow_everyone
        self._numbers: defaultdict[str, defaultdict[str, list[int]]]
        self._numbers = defaultdict(lambda: defaultdict(list))
        for number, each in enumerate(subjects):
            name = each.action.resource_pattern.name
            for principal in (str(each.context.principal), WILDCARD_PRINCIPAL):
                self._numbers[principal][name].append(number)

    def to(self, record: AccessControlEntryRecord) -> Iterator[int]:
        """Yield the numbers of the requests, of which some may be repeated."""
        principal = WILDCARD_PRINCIPAL if self._of_any else record.principal
        if principal not in self._numbers:
            return
        by_name = self._numbers[principal]
        name, is_literal = record.resource_name, record.pattern_type == LITERAL_PATTERN
        if is_literal and name != WILDCARD:
            names = [name] if name in by_name else []
        else:
            names = [each for each in by_name if is_literal or each.startswith(name)]
        for each in names:
            yield from (n for n in by_name[each] if self._subjects[n].is_related(record))
