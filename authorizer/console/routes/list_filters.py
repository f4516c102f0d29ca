"""Filters of lists of changes: of ACLs, and of decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authorizer.analysis.permissions.request_class import describe_names
from authorizer.console.history.history_json import change_entries
from authorizer.sidecar.routes.request_bodies import code_of
from records.acl import AclOperation, AclPermissionType, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from authorizer.analysis.history.temporary_access import TemporaryChange
    from authorizer.analysis.matrix.teams import Teams
    from authorizer.analysis.permissions.decision_changes import DecisionChange
    from authorizer.console.history.history_states import Change, HistoryState
    from authorizer.console.routes.queries import AclFilter, ChangesQuery, ListFilter
    from records.entries import AccessControlEntryRecord, AclContent


class AclRecordFilter:
    """A filter by principal, name, resource type and operation; texts in any case."""

    def __init__(self, query: AclFilter, teams: Teams) -> None:
        """HttpError: 400, the operation or the resource type is unknown."""
        self._teams = teams
        self._team = query.team
        self._who = query.who.casefold()
        self._containing = query.containing.casefold()
        self._operation = code_of(AclOperation, query.operation, "operation") if query.operation else None
        self._type = code_of(ResourceType, query.type, "type") if query.type else None
        self._everyone = query.everyone
        self.selects_all = not (
            self._who or self._team or self._containing or self._operation or self._type or self._everyone
        )

    def selects_acl(self, record: AccessControlEntryRecord) -> bool:
        return (
            (self._type is None or record.resource_type == self._type)
            and (self._operation is None or record.operation in (self._operation, AclOperation.ALL))
            and (not self._everyone or record.principal == WILDCARD_PRINCIPAL)
            and self._who in record.principal.casefold()
            and self._is_of_team(record.principal)
            and self._containing in record.resource_name.casefold()
        )

    def _is_of_team(self, principal: str) -> bool:
        return not self._team or self._teams.has_member(self._team, principal)


class ChangeFilter(AclRecordFilter):
    """A filter by effect, too."""

    def __init__(self, query: ListFilter, teams: Teams, among: set[AclContent] | None = None) -> None:
        """``among``: the only ACLs. HttpError: 400, the operation or the resource type is unknown."""
        super().__init__(query, teams)
        self._effect = query.effect
        self._among = among
        self.selects_all = self.selects_all and not self._effect and among is None

    def selects(self, change: Change) -> bool:
        """Return whether one ACL of a change matches: the one before, or the one after."""
        return self.selects_all or any(
            acl is not None and self._selects_change(acl.record, is_after=is_after)
            for is_after, acl in enumerate(change.pair)
        )

    def _selects_change(self, record: AccessControlEntryRecord, *, is_after: int) -> bool:
        # An added ALLOW and a removed DENY grant.
        is_granted = bool(is_after) is (record.permission_type == AclPermissionType.ALLOW)
        has_effect = self._effect is None or (self._effect == "granted") is is_granted
        is_among = self._among is None or record.content in self._among
        return has_effect and is_among and self.selects_acl(record)

    def selects_decision(self, change: DecisionChange | TemporaryChange) -> bool:
        """Return whether a class of requests matches; names are searched as they are listed.

        A class of every principal is one of each team.
        """
        requests = change.request_class
        principal = requests.principals.principal
        return self.selects_all or (
            (self._type is None or requests.resource_type == self._type)
            and (self._operation is None or self._operation in requests.operations)
            and (not self._everyone or principal is None)
            and (self._effect is None or self._effect == change.direction)
            and self._who in (WILDCARD_PRINCIPAL if principal is None else principal).casefold()
            and (principal is None or self._is_of_team(principal))
            and (not self._containing or self._containing in describe_names(requests).casefold())
        )


def temporary_acls(states: Sequence[HistoryState]) -> set[AclContent]:
    """Return the ACLs that were added and removed again by these changes, or the reverse."""
    first: dict[AclContent, bool] = {}
    last: dict[AclContent, bool] = {}
    for state in states:
        pairs = [each.pair for each in state.changes or ()]
        removed, added = (
            {acl.record.content for pair in pairs if (acl := pair[side]) is not None} for side in (0, 1)
        )
        # An ACL that got another id is in both.
        for content in removed ^ added:
            first.setdefault(content, content in added)
            last[content] = content in added
    return {content for content, is_added in last.items() if is_added != first[content]}


def acl_changes_json(states: Sequence[HistoryState], query: ChangesQuery, teams: Teams) -> dict[str, Any]:
    """Return a page of the changes that led to these states, and their number."""
    temporary = temporary_acls(states) if query.temporary else None
    found = _selected(states, ChangeFilter(query, teams, temporary), oldest_first=query.oldest_first)
    total, end, lines = 0, query.first + query.count, []
    for state, count in found:
        if total < end and total + count > query.first:
            entries = change_entries(state)
            if query.oldest_first:
                entries.reverse()
            lines += entries[max(0, query.first - total) : end - total]
        total += count
    return {"total": total, "first": query.first, "changes": lines}


def _selected(
    states: Sequence[HistoryState], changes: ChangeFilter, *, oldest_first: bool
) -> Iterator[tuple[HistoryState, int]]:
    """Each state with its selected changes only, and their number. Changes that are not stored are one."""
    for state in states if oldest_first else reversed(states):
        if state.changes is None:
            yield state, 1
            continue
        if not changes.selects_all:
            state = state._replace(changes=tuple(filter(changes.selects, state.changes)))  # noqa: PLW2901
        if state.changes:
            yield state, len(state.changes)
