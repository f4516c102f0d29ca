"""Decision changes between two states, in classes of requests, and their JSON.

Temporary changes are classes that were granted and revoked again in between (``/console/v1/temporary``).
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from authorizer.analysis.history.temporary_access import TemporaryChange, temporary_changes
from authorizer.analysis.permissions.acl_comparison import ChangedAcls
from authorizer.analysis.permissions.decision_changes import (
    DecisionChange,
    decision_changes_between,
    decision_changes_of_states,
    describe_releases,
)
from authorizer.analysis.permissions.effective_permissions import EffectivePermissions, never_cancelled
from authorizer.analysis.permissions.request_class import describe_class, describe_principal
from authorizer.analysis.permissions.witness import Witness, decide_witness, state_for_witnesses
from authorizer.console.recent_results import RecentResults
from authorizer.console.routes.list_filters import ChangeFilter
from records.columns.acl_table import AclTable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.api.kafka_version import KafkaVersion
    from authorizer.console.history.history_scan import History
    from authorizer.console.history.history_states import HistoryState
    from authorizer.console.routes.queries import ListFilter, TemporaryQuery
    from authorizer.engine.decisions.state import AuthorizerState


def find_decision_changes(
    before: AuthorizerState,
    after: AuthorizerState,
    history: History | None = None,
    check_cancelled: Callable[[], None] = never_cancelled,
) -> list[DecisionChange]:
    """Return every class of requests that two states decide differently.

    ``history``: of the log, if both are its states. An error of ``check_cancelled`` ends the comparison.
    """
    old, new = (each.index.image.merged().columns for each in (before, after))
    old_settings, new_settings = (each.settings.with_version_of(each.index.image) for each in (before, after))
    if old_settings != new_settings:
        # Under the rules of another release any decision may change.
        permissions = (
            EffectivePermissions.of(table, settings, check_cancelled=check_cancelled)
            for table, settings in ((old, old_settings), (new, new_settings))
        )
        return list(decision_changes_between(*permissions, check_cancelled=check_cancelled))
    changed = None if history is None else _changed_between(history, before.end_offset, after.end_offset)
    changed = changed or ChangedAcls.between(old, new)
    return decision_changes_of_states(changed, old, new, new_settings, check_cancelled)


def _changed_between(history: History, first: int, last: int) -> ChangedAcls | None:
    """The ACLs changed in between, even if changed back; None if not all changes are known."""
    first, last = min(first, last), max(first, last)
    if history.index_at(first) is None or history.index_at(last) is None:
        return None
    between = [each for each in history.states if first < each.end_offset <= last]
    if any(each.changes is None for each in between):
        return None
    return ChangedAcls(_table(between, after=False), _table(between, after=True))


def _table(states: Sequence[HistoryState], *, after: bool) -> AclTable:
    acls = (each.after if after else each.before for state in states for each in state.changes or ())
    return AclTable.of([acl for acl in acls if acl is not None])


class ChangePage(NamedTuple):
    """A page of the selected changes, and how many there are in all."""

    total: int
    granted: int
    first: int
    changes: Sequence[DecisionChange]

    @classmethod
    def of(cls, changes: Iterable[DecisionChange], query: ListFilter, count: int, teams: Teams) -> ChangePage:
        """Return the page of ``count`` changes that a query selects."""
        selected = list(filter(ChangeFilter(query, teams).selects_decision, changes))
        granted = sum(change.direction == "granted" for change in selected)
        return cls(len(selected), granted, query.first, selected[query.first : query.first + count])


def decision_changes_json(
    page: ChangePage, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    """Return a page with the deciding ACL or rule on both sides of each change."""
    listed = []
    for version, changes_of_version in groupby(page.changes, key=attrgetter("version")):
        group = list(changes_of_version)
        pair = before, after
        if version is not None:  # neither state was decided by the rules of this release
            witnesses = [change.request_class.witness for change in group]
            pair = _by_rules_of(before, version, witnesses), _by_rules_of(after, version, witnesses)
        listed += [_decision_change_json(change, *pair) for change in group]
    return {
        "total": page.total,
        "first": page.first,
        "granted": page.granted,
        "revoked": page.total - page.granted,
        "flips": listed,
    }


def _by_rules_of(
    state: AuthorizerState, version: KafkaVersion, witnesses: Sequence[Witness]
) -> AuthorizerState:
    table = state.index.image.merged().columns
    return state_for_witnesses(table, witnesses, state.settings.with_version(version))


def _decision_change_json(
    change: DecisionChange, before: AuthorizerState, after: AuthorizerState
) -> dict[str, Any]:
    requests = change.request_class
    witness, operation = requests.witness, requests.operations[0]
    return {
        **change_json(change),
        "before": decide_witness(before, witness, operation).to_json(),
        "after": decide_witness(after, witness, operation).to_json(),
    }


def change_json(change: DecisionChange | TemporaryChange) -> dict[str, Any]:
    """Return the class as text, with its witness."""
    requests = change.request_class
    witness = requests.witness
    return {
        "direction": change.direction,
        "releases": describe_releases(change.version),
        "who": describe_principal(requests),
        "what": describe_class(requests),
        "witness": {
            "principal": witness.principal,
            "operation": requests.operations[0].name,
            "type": witness.resource_type.name,
            "name": witness.name,
            "host": witness.host,
        },
    }


class TemporaryChanges:
    """The classes of the last compared period, for the next page of them."""

    def __init__(self) -> None:
        self._last: RecentResults[Hashable, list[TemporaryChange]] = RecentResults()

    def page(
        self,
        history: History,
        before: AuthorizerState,
        after: AuthorizerState,
        query: TemporaryQuery,
        teams: Teams,
        check_cancelled: Callable[[], None] = never_cancelled,
    ) -> dict[str, Any]:
        """Return the page that a query selects; ``unknown`` says why there is none.

        All states are decided by the rules of the release at ``after``.
        """
        states = _states_between(history, before.end_offset, after.end_offset)
        if states is None:
            return _page([], [], query, "the states in between are not known completely")
        if any(each.changes is None for each in states[1:]):
            return _page([], [], query, "changes in between are too many to be held in memory")
        settings = after.settings.with_version_of(after.index.image)

        def compute() -> list[TemporaryChange]:
            steps = [[change.pair for change in each.changes or ()] for each in states[1:]]
            return temporary_changes(states[0].image.merged().columns, steps, settings, check_cancelled)

        changes = self._last.get_or_compute((states[0].image, states[-1].image, settings), compute)
        selected = filter(ChangeFilter(query, teams).selects_decision, changes)
        return _page(list(selected), states, query)


def _states_between(history: History, *ends: int) -> tuple[HistoryState, ...] | None:
    """The states from one to the other, both included; None if not all of them are known."""
    first, last = (history.index_at(each) for each in sorted(ends))
    if first is None or last is None:
        return None
    states = history.states[first : last + 1]
    return None if any(each.unknown_from is not None for each in states[1:]) else states


def _page(
    selected: list[TemporaryChange],
    states: Sequence[HistoryState],
    query: TemporaryQuery,
    unknown: str | None = None,
) -> dict[str, Any]:
    return {
        "total": len(selected),
        "first": query.first,
        "unknown": unknown,
        "temporary": [_json(each, states) for each in selected[query.first : query.first + query.count]],
    }


def _json(change: TemporaryChange, states: Sequence[HistoryState]) -> dict[str, Any]:
    return {
        **change_json(change),
        "since": states[change.begin].end_json,
        "until": states[change.end].end_json,
        "times": change.times,
    }
