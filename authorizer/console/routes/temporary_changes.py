"""``/console/v1/temporary``: classes of requests that were granted and revoked again within a period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from authorizer.analysis.history.temporary_access import TemporaryChange, temporary_changes
from authorizer.analysis.permissions.effective_permissions import never_cancelled
from authorizer.console.recent_results import RecentResults
from authorizer.console.routes.decision_changes import change_json
from authorizer.console.routes.list_filters import ChangeFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.console.history.history_scan import History
    from authorizer.console.history.history_states import HistoryState
    from authorizer.console.routes.queries import TemporaryQuery
    from authorizer.engine.decisions.state import AuthorizerState


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
