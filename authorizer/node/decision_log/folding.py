"""Folding: one event for repeated requests with the same answer, within a time window.

The window begins with the first decision. The event is complete when the window has ended, when the answer
differs, or when too many windows are open. Pure: the caller passes the time.

Answers are equal if their rule and their ACL are. On the same state they are equal without a check; on
another state the reason is computed and compared. No state is retained.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.authorizer_api import HttpRequestContext
from authorizer.node.decision_log.event import DecisionEvent, decision_event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from authorizer.engine.decisions.decision import DecidedAction
    from authorizer.engine.decisions.rules import Rule
    from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
    from records.ids import Uuid
    from snapshot.image import Provenance

#: Maximum number of open windows, some two kilobytes each.
OPEN_MAX: Final = 10_000
#: Longer principals and names are not folded: a caller may send megabytes.
CHARACTERS_MAX: Final = 1024


class _Window(msgspec.Struct):
    """An event with an open window, and the basis of its decision."""

    event: DecisionEvent
    ends_s: float
    answer: tuple[Rule, Uuid | None]
    basis: tuple[Provenance, AuthorizerSettings]


class Folding:
    """Events with open windows. Not thread-safe.

    ``folded``: number of decisions that are counted in the event of an earlier one.
    """

    def __init__(self, window_s: float, source: str) -> None:
        self.folded = 0
        self._window_s = window_s
        self._source = source
        # In the order of their ends.
        self._windows: OrderedDict[tuple[object, ...], _Window] = OrderedDict()

    def take(
        self, decided: DecidedAction, principal: str, interval: int, now_s: float
    ) -> DecisionEvent | None:
        """Add a decision; return an event that is now complete, this decision's or an earlier one.

        The arguments are those of ``decision_event``, and the time of a monotonic clock.
        """
        if len(principal) + len(decided.action.resource_pattern.name) > CHARACTERS_MAX:
            return decision_event(decided, principal, self._source, interval)
        key = _key(decided, interval)
        window = self._windows.get(key)
        if window is not None:
            if _is_repeat(window, decided):
                _count(window.event, decided)
                self.folded += 1
                return None
            del self._windows[key]
        elif len(self._windows) >= OPEN_MAX:
            _, window = self._windows.popitem(last=False)
        event = decision_event(decided, principal, self._source, interval)
        self._windows[key] = _Window(event, now_s + self._window_s, _answer(decided), _basis(decided.state))
        return None if window is None else window.event

    def ended(self, now_s: float | None = None) -> Iterator[DecisionEvent]:
        """Remove and return the events whose windows have ended; None: all."""
        while self._windows:
            window = self._windows[next(iter(self._windows))]
            if now_s is not None and window.ends_s > now_s:
                return
            self._windows.popitem(last=False)
            yield window.event


def _key(decided: DecidedAction, interval: int) -> tuple[object, ...]:
    """Return what a repeat must have in common with the first decision, except for the reason."""
    context, action = decided.context, decided.action
    pattern = action.resource_pattern
    caller: object = None
    if isinstance(context, HttpRequestContext):
        caller = context.request_name, context.caller, context.caller_address
    return (
        *(pattern.name, pattern.resource_type, action.operation, action.resource_reference_count),
        *(context.principal, context.client_address, context.request_type, caller),
        *(decided.result, decided.level, interval, decided.state.settings.cluster),
    )


def _is_repeat(window: _Window, decided: DecidedAction) -> bool:
    """Whether the decision has the window's answer; if so, its state becomes the window's basis."""
    basis = _basis(decided.state)
    if basis[0] is not window.basis[0] or basis[1] is not window.basis[1]:
        if _answer(decided) != window.answer:
            return False
        window.basis = basis
    return True


def _count(event: DecisionEvent, decided: DecidedAction) -> None:
    data = event.data
    data.count += 1
    data.last_time = max(data.last_time, datetime.fromtimestamp(decided.decided_s, UTC))
    data.last_offset = decided.state.end_offset


def _answer(decided: DecidedAction) -> tuple[Rule, Uuid | None]:
    decision = decided.decision()
    return decision.rule, None if decision.acl is None else decision.acl.record.id


def _basis(state: AuthorizerState) -> tuple[Provenance, AuthorizerSettings]:
    return state.index.image.provenance, state.settings
