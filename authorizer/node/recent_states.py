"""RecentStates: states before the current one, as far back as they need little memory.

States on earlier columns are retained while these have few rows in total (``count_to_evict``): states
share unchanged ACLs, so a thousand of them need little more memory than one. A reload drops all of them,
because the log before it may have been another one (I5, I11). Settings and readiness are always the current
ones.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.engine.decisions.state import AuthorizerState
from replay.manifest import LoaderManifest, ReloadManifest
from replay.publishers import Publisher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.engine.index.acl_index import AclIndex
    from authorizer.node.standard_authorizer import StandardAuthorizer
    from snapshot.columns import AclColumns
    from snapshot.delta import AclsDelta
    from snapshot.image import AclsImage


def count_to_evict(columns: Sequence[AclColumns], rows_maximum: int) -> int:
    """Return how many of the oldest states to evict, for at most `rows_maximum` rows in older tables.

    ``columns``: the table of each state, oldest first; the newest one's rows do not count.
    """
    rows = 0
    for position in range(len(columns) - 1, 0, -1):
        if columns[position - 1] is not columns[position]:
            rows += len(columns[position - 1])
            if rows > rows_maximum:
                return position
    return 0


#: Maximum number of retained states.
STATES_MAX: Final = 512
#: Maximum number of rows of earlier columns.
EARLIER_ROWS_MAX: Final = 100_000


class _State(msgspec.Struct, frozen=True, gc=False):
    """The ACLs from one end offset to another, both included."""

    first: int
    last: int
    index: AclIndex


class RecentStates(Publisher):
    """A Publisher, placed after the authorizer whose states it retains. ``at`` is thread-safe."""

    name: Final = "recent states"

    def __init__(self, authorizer: StandardAuthorizer) -> None:
        self._authorizer = authorizer
        self._lock = threading.Lock()
        self._states: deque[_State] = deque()  # oldest first

    def at(self, end_offset: int) -> AuthorizerState | None:
        """Return the state at ``end_offset`` (last contained offset + 1); None if it is not retained.

        Its own end offset may be later, if no ACL changed in between.
        """
        current = self._authorizer.state
        if end_offset == current.end_offset:
            return current
        with self._lock:
            states = tuple(self._states)
        for state in reversed(states):
            if state.first <= end_offset <= state.last:
                return AuthorizerState(
                    state.index, current.settings, current.is_ready, current.not_ready_reason
                )
        return None

    @property
    def first(self) -> int | None:
        """The earliest retained end offset."""
        with self._lock:
            return self._states[0].first if self._states else None

    def on_update(self, delta: AclsDelta, image: AclsImage, manifest: LoaderManifest) -> None:
        """Retain the state after an update, which the authorizer has already applied."""
        del delta
        index, end_offset = self._authorizer.state.index, image.provenance.end_offset
        counts, states = manifest.counts, self._states
        with self._lock:
            if index.image is not image:
                states.clear()  # the authorizer has failed, and gets the complete state next
                return
            if isinstance(manifest, ReloadManifest):
                states.clear()
            if states and not (counts.added or counts.removed or counts.replaced):
                states[-1] = _State(states[-1].first, end_offset, index)
                return
            states.append(_State(end_offset, end_offset, index))
            while len(states) > STATES_MAX:
                states.popleft()
            if len(states) > 1 and index.rows is not states[-2].index.rows:
                for _ in range(
                    count_to_evict([each.index.rows.columns for each in states], EARLIER_ROWS_MAX)
                ):
                    states.popleft()
