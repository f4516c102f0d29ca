"""RecentStates: the states before the current one, as far back as they cost next to nothing.

States on earlier columns are held while those are few rows together (held_columns). A reload ends what is
held, because the log before it may have been another one (I5, I11).

Settings and readiness are those of the moment of the question, and no part of the past.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.analysis.retained_tables import count_to_evict
from authorizer.engine.decisions.state import AuthorizerState
from replay.manifest import ReloadManifest

if TYPE_CHECKING:
    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.node.standard_authorizer import StandardAuthorizer
    from replay.manifest import LoaderManifest
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage

#: States that are held at most.
HELD_MAXIMUM: Final = 512
#: Rows of earlier columns that are held at most.
EARLIER_ROWS_MAXIMUM: Final = 100_000


class _Held(msgspec.Struct, frozen=True, gc=False):
    """A state of the ACLs, which was so from one end offset to another, both included."""

    first: int
    last: int
    index: AclIndex


class RecentStates:
    """A Publisher; comes behind the authorizer whose states it holds. ``at`` may be called by any thread."""

    name: Final = "recent states"

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        self._changing = threading.Lock()
        self._held: deque[_Held] = deque()  # the newest last

    def at(self, end_offset: int) -> AuthorizerState | None:
        """The state of the ACLs at ``end_offset`` (last contained offset + 1); None if it is not held.

        Its own end offset is later where nothing changed in between.
        """
        current = self._authorizer.state
        if end_offset == current.end_offset:
            return current
        with self._changing:
            all_held = tuple(self._held)
        for held in reversed(all_held):
            if held.first <= end_offset <= held.last:
                return AuthorizerState(
                    held.index, current.settings, current.is_ready, current.not_ready_reason
                )
        return None

    @property
    def first(self) -> int | None:
        """The earliest end offset that is held."""
        with self._changing:
            return self._held[0].first if self._held else None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """The authorizer has taken this update just before."""
        del delta
        index, end_offset = self._authorizer.state.index, image.provenance.end_offset
        counts, held = manifest.counts, self._held
        with self._changing:
            if index.image is not image:
                held.clear()  # the authorizer has failed, and gets the whole state next
                return
            if isinstance(manifest, ReloadManifest):
                held.clear()
            if held and not (counts.added or counts.removed or counts.replaced):
                held[-1] = _Held(held[-1].first, end_offset, index)
                return
            held.append(_Held(end_offset, end_offset, index))
            while len(held) > HELD_MAXIMUM:
                held.popleft()
            if len(held) > 1 and index.rows is not held[-2].index.rows:
                for _ in range(
                    count_to_evict([each.index.rows.columns for each in held], EARLIER_ROWS_MAXIMUM)
                ):
                    held.popleft()

    def on_ready(self) -> None:
        """Readiness is the authorizer's."""

    def on_not_ready(self, reason: str) -> None:
        """Readiness is the authorizer's."""

    def close(self) -> None:
        """What is held stays."""
