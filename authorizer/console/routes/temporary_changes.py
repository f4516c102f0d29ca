"""``/console/v1/temporary``: classes of requests that were granted and revoked again within a period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from authorizer.analysis.history.temporary_access import TemporaryChange, temporary_changes
from authorizer.analysis.permissions.decision_changes import describe_releases
from authorizer.analysis.permissions.effective_permissions import never_cancelled
from authorizer.analysis.permissions.request_class_text import describe_class, describe_principal
from authorizer.console.routes.list_filters import ChangeFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from authorizer.analysis.matrix.teams import Teams
    from authorizer.console.history.history_scan import History
    from authorizer.console.history.history_states import HistoryState
    from authorizer.console.routes.queries import TemporaryQuery
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState


class _Found(NamedTuple):
    """The changes within a period."""

    first: HistoryState
    last: HistoryState
    settings: AuthorizerSettings
    changes: list[TemporaryChange]

    def is_of(self, states: Sequence[HistoryState], settings: AuthorizerSettings) -> bool:
        """Return whether this is the period."""
        return (
            self.first.image is states[0].image
            and self.last.image is states[-1].image
            and self.settings == settings
        )


class TemporaryChanges:
    """The classes of the last compared period, for the next page of them."""

    def __init__(self) -> None:
        self._last: _Found | None = None

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
        last = self._last
        if last is None or not last.is_of(states, settings):
            steps = [[change.pair for change in each.changes or ()] for each in states[1:]]
            table = states[0].image.merged().columns
            found = temporary_changes(table, steps, settings, check_cancelled)
            last = self._last = _Found(states[0], states[-1], settings, found)
        selected = filter(ChangeFilter(query, teams).selects_decision, last.changes)
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
    requests = change.request_class
    witness = requests.witness
    begin, end = states[change.begin], states[change.end]
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
        "since": {"end_offset": begin.end_offset, "timestamp": begin.timestamp_ms},
        "until": {"end_offset": end.end_offset, "timestamp": end.timestamp_ms},
        "times": change.times,
    }
