"""DecisionCache: decisions that were asked for, until they are too old or an ACL changes that may touch them.

The rules:

- None is served that is older than the bound, counted from before it was asked for, whatever the stream of
  changes says: the bound holds for a stream that hangs, for settings, which have no events, and for a process
  that was stopped for a while.
- None is served unless the stream is up and has said everything up to now, and the node is ready.
- A decision is kept only if it was made on a state that has all changes that were heard of, so a change is
  never overtaken by an answer that does not know of it. A reload forgets everything, also what is being
  asked.
- Only decisions are kept: no error, and no DENIED of a client that could not ask.

For any thread; no sockets. The clock is given.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records.acl import WILDCARD, PatternType

if TYPE_CHECKING:
    from authorizer.api.http.answers import Acl
    from authorizer.client.answers import Decision, Question
    from authorizer.client.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Whether and for how long decisions are kept.

    Attributes:
        max_age_s: a decision is served for at most so long after it was asked for.
        entries_max: decisions that are held; the oldest make room.
    """

    max_age_s: float
    entries_max: int = 10_000

    def __post_init__(self) -> None:
        if self.max_age_s <= 0 or self.entries_max < 1:
            raise ValueError("a cache needs an age and a number of entries above 0")


@dataclass(frozen=True, slots=True)
class Asking:
    """When a question went out; its answer is kept with that."""

    generation: int
    began_s: float


@dataclass(frozen=True, slots=True)
class _Kept:
    decision: Decision
    offset: int
    began_s: float


_LITERAL: Final = PatternType.LITERAL.name


class DecisionCache:
    """See the module."""

    def __init__(self, settings: CacheSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: seconds, never going back."""
        self._settings = settings
        self._clock = clock
        self._changing = threading.Lock()
        self._kept: dict[Question, _Kept] = {}
        # How often everything was forgotten.
        self._generation = 0
        # Up to where all changes were heard of; None before the first event.
        self._offset: int | None = None
        self._is_current = self._is_ready = False

    @property
    def offset(self) -> int | None:
        """Up to where all changes were heard of: what a stream goes on behind."""
        return self._offset

    @property
    def serves(self) -> bool:
        """Whether decisions are served from here at all, just now."""
        return self._is_current and self._is_ready

    def get(self, question: Question, min_offset: int | None = None) -> Decision | None:
        """A decision that still holds, of a state that reaches to ``min_offset``; None: ask."""
        with self._changing:
            kept = self._kept.get(question)
            if kept is None or self._offset is None or not self.serves:
                return None
            if self._clock() - kept.began_s > self._settings.max_age_s:
                del self._kept[question]
                return None
            # What no change has touched is the decision of every state since.
            if max(kept.offset, self._offset) < (min_offset or 0):
                return None
            return kept.decision

    def asking(self) -> Asking:
        """To be called before a question goes out."""
        with self._changing:
            return Asking(self._generation, self._clock())

    def put(self, asking: Asking, question: Question, decision: Decision) -> None:
        """Keep an answer, if it may be kept."""
        with self._changing:
            offset = decision.offset
            if self._offset is None or offset is None or asking.generation != self._generation:
                return
            if offset < self._offset:
                return
            self._kept.pop(question, None)
            if len(self._kept) >= self._settings.entries_max:
                del self._kept[next(iter(self._kept))]
            self._kept[question] = _Kept(decision, offset, asking.began_s)

    def on_event(self, event: Event) -> None:
        """One event of the stream, in its order."""
        with self._changing:
            match event.name:
                case "change":
                    for acl in (*event.removed, *event.added):
                        self._forget(acl, event.id or 0)
                case "reload":
                    self._kept.clear()
                    self._generation += 1
                case "current":
                    self._is_current = True
                case "not-ready":
                    self._is_ready = False
                case "ready":
                    self._is_ready = True
            if event.id is not None:
                self._offset = event.id

    def on_connected(self) -> None:
        """A stream has begun; it says next what was missed. It begins only at nodes that are ready."""
        with self._changing:
            self._is_ready = True

    def on_disconnected(self) -> None:
        """Nothing is heard any more. What is kept is served again once another stream has caught up."""
        with self._changing:
            self._is_current = self._is_ready = False

    def _forget(self, acl: Acl, offset: int) -> None:
        """All that this ACL may touch, and was decided without it."""
        gone = [
            question
            for question, kept in self._kept.items()
            if kept.offset < offset
            and question.resource_type.name == acl.resource_type
            and _covers(acl, question.resource_name)
        ]
        for question in gone:
            del self._kept[question]


def _covers(acl: Acl, name: str) -> bool:
    """By meaning; any pattern type but LITERAL is a prefix, as Kafka has it."""
    if acl.pattern_type == _LITERAL:
        return acl.resource_name in (WILDCARD, name)
    return name.startswith(acl.resource_name)
