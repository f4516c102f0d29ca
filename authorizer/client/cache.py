"""DecisionCache: decisions of a sidecar, until they expire or an ACL changes that may affect them.

The rules:

- The cache serves no decision older than ``max_age_s``, counted from before it was requested. This bound also
  holds if the stream of changes hangs, if settings change (they have no events), and if the process was
  suspended.
- It serves only while the stream is open and has caught up, and the node is ready.
- It stores a decision only if the state of that decision contains all changes received so far. So a late
  answer never hides a change. A reload drops all decisions, also those still under way.
- It stores no errors, and no DENIED that a client made up without a sidecar.

Thread-safe; no sockets.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from records.acl import WILDCARD, PatternType

if TYPE_CHECKING:
    from authorizer.api.http.answers.acls import Acl
    from authorizer.client.messages import AuthorizationRequest, ChangeEvent, Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSettings:
    """Limits of the cache.

    Attributes:
        max_age_s: maximum age of a decision, counted from its request.
        entries_max: maximum number of decisions; the oldest are dropped first.
    """

    max_age_s: float
    entries_max: int = 10_000

    def __post_init__(self) -> None:
        if self.max_age_s <= 0 or self.entries_max < 1:
            raise ValueError("a cache needs an age and a number of entries above 0")


@dataclass(frozen=True, slots=True)
class RequestStamp:
    """The time of a request and the cache's generation at that time."""

    generation: int
    time_s: float


@dataclass(frozen=True, slots=True)
class _Entry:
    decision: Decision
    offset: int
    requested_s: float


_LITERAL: Final = PatternType.LITERAL.name


class DecisionCache:
    """Cache of decisions by request; the module has its rules."""

    def __init__(self, settings: CacheSettings, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock``: monotonic, in seconds."""
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[AuthorizationRequest, _Entry] = {}
        # Number of reloads.
        self._generation = 0
        # End offset of the changes received so far; None before the first event.
        self._offset: int | None = None
        self._is_current = self._is_ready = False

    @property
    def offset(self) -> int | None:
        """End offset of the changes received so far: where a new stream continues."""
        return self._offset

    @property
    def serves(self) -> bool:
        """Whether the stream has caught up and the node is ready."""
        return self._is_current and self._is_ready

    def get(self, request: AuthorizationRequest, min_offset: int | None = None) -> Decision | None:
        """Return a decision that still holds, on a state of at least ``min_offset``."""
        with self._lock:
            entry = self._entries.get(request)
            if entry is None or self._offset is None or not self.serves:
                return None
            if self._clock() - entry.requested_s > self._settings.max_age_s:
                del self._entries[request]
                return None
            # No change since has affected the decision, so it is the decision of every later state.
            if max(entry.offset, self._offset) < (min_offset or 0):
                return None
            return entry.decision

    def stamp(self) -> RequestStamp:
        """Return the stamp of a request that is about to be sent, for ``put``."""
        with self._lock:
            return RequestStamp(self._generation, self._clock())

    def put(self, stamp: RequestStamp, request: AuthorizationRequest, decision: Decision) -> None:
        """Store a decision, if the rules allow it."""
        with self._lock:
            offset = decision.offset
            if self._offset is None or offset is None or stamp.generation != self._generation:
                return
            if offset < self._offset:
                return
            self._entries.pop(request, None)
            if len(self._entries) >= self._settings.entries_max:
                del self._entries[next(iter(self._entries))]
            self._entries[request] = _Entry(decision, offset, stamp.time_s)

    def on_event(self, event: ChangeEvent) -> None:
        """Apply an event of the stream; events come in order."""
        with self._lock:
            match event.name:
                case "change":
                    for acl in (*event.removed, *event.added):
                        self._drop_affected(acl, event.id or 0)
                case "reload":
                    self._entries.clear()
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
        """A stream is open; it first sends the missed changes. Only a ready node opens one."""
        with self._lock:
            self._is_ready = True

    def on_disconnected(self) -> None:
        """The stream ended. The cache serves its decisions again once another stream has caught up."""
        with self._lock:
            self._is_current = self._is_ready = False

    def _drop_affected(self, acl: Acl, offset: int) -> None:
        """Drop the decisions on resources that the ACL covers, if made on a state before the change."""
        affected = [
            request
            for request, entry in self._entries.items()
            if entry.offset < offset
            and request.resource_type.name == acl.resource_type
            and _covers(acl, request.resource_name)
        ]
        for request in affected:
            del self._entries[request]


def _covers(acl: Acl, name: str) -> bool:
    """Any pattern type but LITERAL is a prefix, as in Kafka."""
    if acl.pattern_type == _LITERAL:
        return acl.resource_name in (WILDCARD, name)
    return name.startswith(acl.resource_name)
