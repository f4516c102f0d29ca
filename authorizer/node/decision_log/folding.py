"""Repeats in one event: the same question with the same answer, within a window.

The window begins with the first decision; the event is complete when the window has ended, when the answer is
another one, or when more questions are open than may be. Pure: who calls says what time it is.

An answer is the same if the rule and the ACL are. While the state is the same that is known; for a decision
by another state the reason is looked for and compared. No state is kept.
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

#: Questions whose repeats are counted at one time: some two kilobytes each.
OPEN_MAX: Final = 10_000
#: Characters of a principal and a name that are kept waiting: what a caller sends may be megabytes.
CHARACTERS_MAX: Final = 1024


class _Open(msgspec.Struct):
    """An event that waits for its window's end, and what it was decided by."""

    event: DecisionEvent
    ends_s: float
    answer: tuple[Rule, Uuid | None]
    by: tuple[Provenance, AuthorizerSettings]


class Folding:
    """The events that wait. Not thread-safe.

    Attributes:
        folded: decisions that are counted in an earlier one's event.
    """

    def __init__(self, window_s: float, source: str) -> None:
        self.folded = 0
        self._window_s = window_s
        self._source = source
        # In the order of their ends.
        self._open: OrderedDict[tuple[object, ...], _Open] = OrderedDict()

    def take(self, decided: DecidedAction, principal: str, one_in: int, now_s: float) -> DecisionEvent | None:
        """Count a decision; returns an event that is complete by it, its own or an earlier one.

        The arguments are those of ``decision_event``, and the time by any clock that never goes back.
        """
        if len(principal) + len(decided.action.resource_pattern.name) > CHARACTERS_MAX:
            return decision_event(decided, principal, self._source, one_in)
        question = _question(decided, one_in)
        found = self._open.get(question)
        if found is not None:
            if _is_repeat(found, decided):
                _count(found.event, decided)
                self.folded += 1
                return None
            del self._open[question]
        elif len(self._open) >= OPEN_MAX:
            _, found = self._open.popitem(last=False)
        event = decision_event(decided, principal, self._source, one_in)
        self._open[question] = _Open(event, now_s + self._window_s, _answer(decided), _by(decided.state))
        return None if found is None else found.event

    def ended(self, now_s: float | None = None) -> Iterator[DecisionEvent]:
        """Events whose windows have ended; None: all."""
        while self._open:
            found = self._open[next(iter(self._open))]
            if now_s is not None and found.ends_s > now_s:
                return
            self._open.popitem(last=False)
            yield found.event


def _question(decided: DecidedAction, one_in: int) -> tuple[object, ...]:
    """All that a repeat has in common with the first, but for the reason."""
    context, action = decided.context, decided.action
    pattern = action.resource_pattern
    caller: object = None
    if isinstance(context, HttpRequestContext):
        caller = context.request_name, context.caller, context.caller_address
    return (
        *(pattern.name, pattern.resource_type, action.operation, action.resource_reference_count),
        *(context.principal, context.client_address, context.request_type, caller),
        *(decided.result, decided.level, one_in, decided.state.settings.cluster),
    )


def _is_repeat(found: _Open, decided: DecidedAction) -> bool:
    """Whether the same decided it; remembers the state that did."""
    by = _by(decided.state)
    if by[0] is not found.by[0] or by[1] is not found.by[1]:
        if _answer(decided) != found.answer:
            return False
        found.by = by
    return True


def _count(event: DecisionEvent, decided: DecidedAction) -> None:
    data = event.data
    data.count += 1
    data.last_time = max(data.last_time, datetime.fromtimestamp(decided.decided_s, UTC))
    data.last_offset = decided.state.end_offset


def _answer(decided: DecidedAction) -> tuple[Rule, Uuid | None]:
    decision = decided.decision()
    return decision.rule, None if decision.acl is None else decision.acl.record.id


def _by(state: AuthorizerState) -> tuple[Provenance, AuthorizerSettings]:
    return state.index.image.provenance, state.settings
