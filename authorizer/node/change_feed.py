"""ChangeFeed: which ACLs were added and removed, update by update, as far back as is bounded.

A follower of the changes holds the end offset up to which it knows them, and asks what came since. So one
memory serves any number of followers, and each of them may be as slow as it likes: one that is behind what is
held, or that holds a state of before a reload (I5, I11), has to list all ACLs anew.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.api.http.answers import Acl, AclChange
from replay.manifest import ReloadManifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from records.columns.acl_table import AppliedAcl
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: Changes that are held at most, and ACLs in all of them.
HELD_MAXIMUM: Final = 1_024
HELD_ACLS_MAXIMUM: Final = 10_000


class Change(msgspec.Struct, gc=False):
    """One update: from the state that ends at one offset to the one that ends at another. Immutable.

    Attributes:
        base: end offset of the state before.
        offset: end offset of the state after.
        removed: ACLs that were in force before, and are not as they were; those that were replaced are in
            both.
        added: ACLs that are in force since.
    """

    base: int
    offset: int
    removed: tuple[AppliedAcl, ...]
    added: tuple[AppliedAcl, ...]
    _json: bytes | None = None

    def __len__(self) -> int:
        return len(self.removed) + len(self.added)

    def json(self) -> bytes:
        """``{"offset", "removed", "added"}``, ACLs as a listing has them. Made once, for all followers."""
        if self._json is None:
            removed, added = ([Acl.of(acl.record) for acl in acls] for acls in (self.removed, self.added))
            self._json = msgspec.json.encode(AclChange(self.offset, removed, added))
        return self._json


@dataclass(frozen=True, slots=True)
class Known:
    """What is held at one moment.

    Attributes:
        generation: how often all was replaced.
        start: the end offset from which on changes are known.
        end: the end offset up to which.
        changes: in order; between them no ACL changed.
    """

    generation: int
    start: int
    end: int
    changes: tuple[Change, ...]

    def since(self, offset: int) -> tuple[Change, ...] | None:
        """What came after the state at ``offset``; None if that is not known, or was no state here."""
        if not self.start <= offset <= self.end:
            return None
        later = self.changes[bisect_right(self.changes, offset, key=attrgetter("offset")) :]
        return None if later and later[0].base < offset else later


class ChangeFeed:
    """A Publisher. ``known``, ``follow`` and ``unfollow`` may be called by any thread."""

    name: Final = "change feed"

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._generation = self._start = self._end = 0
        self._changes: deque[Change] = deque()
        self._acls = 0  # in all of them
        # Replaced, never changed: the loader may be going through it.
        self._wakes: tuple[Callable[[], None], ...] = ()

    @property
    def known(self) -> Known:
        """What is held now."""
        with self._changing:
            return Known(self._generation, self._start, self._end, tuple(self._changes))

    def follow(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` whenever there may be something new, from the loader's thread; it must not block."""
        with self._changing:
            self._wakes = (*self._wakes, wake)

    def unfollow(self, wake: Callable[[], None]) -> None:
        """No more."""
        with self._changing:
            self._wakes = tuple(each for each in self._wakes if each is not wake)

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        end, counts = image.provenance.end_offset, manifest.counts
        count = counts.added + counts.removed + counts.replaced
        is_reload = isinstance(manifest, ReloadManifest)
        with self._changing:
            base, self._end = self._end, end
            if is_reload or count > HELD_ACLS_MAXIMUM:
                # A large update is listed as quickly, and need not be made into objects here.
                self._generation += is_reload
                self._start, self._acls = end, 0
                self._changes.clear()
            elif count:
                pairs = list(delta.changed())
                removed = tuple([old for old, _ in pairs if old is not None])
                added = tuple([new for _, new in pairs if new is not None])
                self._add(Change(base, end, removed, added))
        if is_reload or count:
            self._wake()

    def restart(self) -> None:
        """Decisions may be others though no ACL has changed: to followers it is a reload."""
        with self._changing:
            self._generation += 1
            self._start, self._acls = self._end, 0
            self._changes.clear()
        self._wake()

    def _add(self, change: Change) -> None:
        """One more, and without the first ones where those are too many."""
        self._changes.append(change)
        self._acls += len(change)
        while self._acls > HELD_ACLS_MAXIMUM or len(self._changes) > HELD_MAXIMUM:
            first = self._changes.popleft()
            self._acls -= len(first)
            self._start = first.offset

    def on_ready(self) -> None:
        """Followers see it in the authorizer's state."""
        self._wake()

    def on_not_ready(self, reason: str) -> None:
        """Followers see it in the authorizer's state."""
        del reason
        self._wake()

    def close(self) -> None:
        """Nothing follows."""

    def _wake(self) -> None:
        for wake in self._wakes:
            wake()
