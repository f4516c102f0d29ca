"""ChangeFeed: the most recent additions and removals of ACLs, update by update.

A subscriber remembers the end offset up to which it knows the changes, and requests the later ones. So any
number of subscribers share one buffer, and each may be slow: one that is behind the buffer, or whose state is
from before a reload (I5, I11), must list all ACLs again.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.http.answers.acls import Acl, AclChange
from replay.manifest import LoaderManifest, ReloadManifest
from replay.publishers import Publisher

if TYPE_CHECKING:
    from collections.abc import Callable

    from records.columns.acl_table import AppliedAcl
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: Maximum number of retained changes, and of ACLs in all of them.
CHANGES_MAX: Final = 1_024
ACLS_MAX: Final = 10_000


class Change(msgspec.Struct, gc=False):
    """One update, from one state to the next. Immutable.

    Attributes:
        base: end offset of the state before.
        offset: end offset of the state after.
        removed: ACLs of the state before that were removed or replaced.
        added: ACLs of the state after that are new or replacements.
    """

    base: int
    offset: int
    removed: tuple[AppliedAcl, ...]
    added: tuple[AppliedAcl, ...]
    _json: bytes | None = None

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)

    def json(self) -> bytes:
        """Return ``{"offset", "removed", "added"}``, ACLs as in a listing; encoded only once."""
        if self._json is None:
            removed, added = ([Acl.of(acl.record) for acl in acls] for acls in (self.removed, self.added))
            self._json = msgspec.json.encode(AclChange(self.offset, removed, added))
        return self._json


@dataclass(frozen=True, slots=True)
class RetainedChanges:
    """A snapshot of the retained changes.

    Attributes:
        generation: number of reloads so far.
        start: changes after this end offset are complete.
        changes: in order; between them no ACL changed.
    """

    generation: int
    start: int
    end: int
    changes: tuple[Change, ...]

    def since(self, offset: int) -> tuple[Change, ...] | None:
        """Return the changes after the state at ``offset``; None if they are incomplete or it is no state."""
        if not self.start <= offset <= self.end:
            return None
        later = self.changes[bisect_right(self.changes, offset, key=attrgetter("offset")) :]
        return None if later and later[0].base < offset else later


class ChangeFeed(Publisher):
    """A Publisher. ``retained``, ``subscribe`` and ``unsubscribe`` are thread-safe."""

    name: Final = "change feed"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._generation = self._start = self._end = 0
        self._changes: deque[Change] = deque()
        self._acl_count = 0  # in all of them
        # Immutable, because the loader may be iterating over it.
        self._wakes: tuple[Callable[[], None], ...] = ()

    @property
    def retained(self) -> RetainedChanges:
        with self._lock:
            return RetainedChanges(self._generation, self._start, self._end, tuple(self._changes))

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever there may be new changes, from the loader's thread; it must not block."""
        with self._lock:
            self._wakes = (*self._wakes, wake)

    def unsubscribe(self, wake: Callable[[], None]) -> None:
        """Stop the calls of ``wake``."""
        with self._lock:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        end, counts = image.provenance.end_offset, manifest.counts
        count = counts.added + counts.removed + counts.replaced
        is_reload = isinstance(manifest, ReloadManifest)
        with self._lock:
            base, self._end = self._end, end
            if is_reload or count > ACLS_MAX:
                # A new listing is as fast as a large update, which need not be converted to objects here.
                self._generation += is_reload
                self._start, self._acl_count = end, 0
                self._changes.clear()
            elif count:
                pairs = list(delta.changed())
                removed = tuple([old for old, _ in pairs if old is not None])
                added = tuple([new for _, new in pairs if new is not None])
                self._add(Change(base, end, removed, added))
        if is_reload or count:
            self._wake()

    def restart(self) -> None:
        """Make every subscriber reload, because decisions may differ although no ACL has changed."""
        with self._lock:
            self._generation += 1
            self._start, self._acl_count = self._end, 0
            self._changes.clear()
        self._wake()

    def _add(self, change: Change) -> None:
        """Append a change; drop the oldest ones beyond the limits."""
        self._changes.append(change)
        self._acl_count += len(change)
        while self._acl_count > ACLS_MAX or len(self._changes) > CHANGES_MAX:
            first = self._changes.popleft()
            self._acl_count -= len(first)
            self._start = first.offset

    def on_ready(self) -> None:
        """Subscribers read it from the authorizer's state."""
        self._wake()

    def on_not_ready(self, reason: str) -> None:
        """Subscribers read it from the authorizer's state."""
        del reason
        self._wake()

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()
