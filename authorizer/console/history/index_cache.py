"""IndexCache: indexes of past states, each derived from the nearest cached one by its changes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from authorizer.console.recent_results import RecentResults
from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.row_index import RowIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.ip_address import NetworkRules
    from authorizer.console.history.history_states import HistoryState
    from records.columns.acl_table import AppliedAcl
    from snapshot.columns import AclColumns
    from snapshot.image import AclsImage

# Maximum number of row indexes and of ACL indexes; changes after which an intermediate index is cached.
_COLUMNS_MAXIMUM: Final = 3
_INDEXES_MAXIMUM: Final = 256
_CACHE_INTERVAL_CHANGES: Final = 1_000


class IndexCache:
    """See the module. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: RecentResults[tuple[AclColumns, NetworkRules], RowIndex] = RecentResults(_COLUMNS_MAXIMUM)
        self._indexes: RecentResults[tuple[AclsImage, NetworkRules], AclIndex] = RecentResults(
            _INDEXES_MAXIMUM
        )

    def get(
        self, states: Sequence[HistoryState], position: int, now: AclIndex, *, networks: NetworkRules
    ) -> AclIndex:
        """Return the index of ``states[position]``.

        ``now`` is the node's current index; ``networks`` are the network rules of that state.
        """
        with self._lock:
            last = states[-1].image
            if now.image.columns is last.columns and now.image.changes is last.changes:
                self._cache(now.with_changes((), last))
            nearest, index = self._nearest(states, position, networks=networks)
            path = (
                range(nearest + 1, position + 1)
                if nearest <= position
                else range(nearest - 1, position - 1, -1)
            )
            uncached_changes = 0
            for each in path:
                changes = _changes_to(states, each, is_back=nearest > position)
                index = index.with_changes(changes, states[each].image)
                uncached_changes += len(changes)
                if uncached_changes > _CACHE_INTERVAL_CHANGES:
                    self._cache(index)
                    uncached_changes = 0
            self._cache(index)
            return index

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._indexes.clear()

    def _nearest(
        self, states: Sequence[HistoryState], position: int, *, networks: NetworkRules
    ) -> tuple[int, AclIndex]:
        """The nearest cached index from which known changes lead to ``position``; else a new index."""
        columns = states[position].image.columns
        earlier = later = True
        for distance in range(len(states)):
            for each, is_reached in ((position + distance, later), (position - distance, earlier)):
                if not is_reached or not 0 <= each < len(states):
                    continue
                known = self._indexes.get((states[each].image, networks))
                if known is not None:
                    return each, known
            later = (
                later
                and position + distance + 1 < len(states)
                and _has_known_changes(states[position + distance + 1], columns)
            )
            earlier = (
                earlier and position > distance and _has_known_changes(states[position - distance], columns)
            )
            earlier = earlier and states[position - distance - 1].image.columns is columns
            if not later and not earlier:
                break
        rows = self._rows.get_or_compute((columns, networks), lambda: RowIndex(columns, networks=networks))
        return position, AclIndex.from_rows(rows, states[position].image)

    def _cache(self, index: AclIndex) -> None:
        self._indexes.put((index.image, index.rows.networks), index)


def _has_known_changes(state: HistoryState, columns: AclColumns) -> bool:
    """Whether the changes from the previous state to this one are known, on these columns."""
    return state.changes is not None and state.image.columns is columns


def _changes_to(
    states: Sequence[HistoryState], position: int, *, is_back: bool
) -> Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]:
    """The changes that lead to a state from the one before it, or from the one after it."""
    if is_back:
        return [(each.after, each.before) for each in states[position + 1].changes or ()]
    return [each.pair for each in states[position].changes or ()]
