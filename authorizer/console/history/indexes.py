"""Indexes of the moments of a walk, each made of a near one: a step in time costs what it changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from authorizer.engine.index.acl_index import AclIndex
from authorizer.engine.index.row_index import RowIndex

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.ip_network import NetworkRules
    from authorizer.console.history.history_states import HistoryState
    from records.columns.acl_table import AppliedAcl
    from snapshot.columns import AclColumns
    from snapshot.image import AclsImage

# Sets of columns that stay arranged; indexes on them; changes after which one is kept on the way.
_COLUMNS_MAXIMUM: Final = 3
_INDEXES_MAXIMUM: Final = 256
_KEPT_EVERY: Final = 1_000


class IndexCache:
    """See the module. Thread-safe."""

    def __init__(self) -> None:
        self._working = threading.Lock()
        self._rows: OrderedDict[tuple[AclColumns, NetworkRules], RowIndex] = OrderedDict()
        self._made: OrderedDict[tuple[AclsImage, NetworkRules], AclIndex] = OrderedDict()

    def of(
        self, moments: Sequence[HistoryState], at: int, now: AclIndex, *, networks: NetworkRules
    ) -> AclIndex:
        """That of one moment; ``now``: the node's own index; ``networks``: the rules of that moment."""
        with self._working:
            last = moments[-1].image
            if now.image.columns is last.columns and now.image.changes is last.changes:
                self._keep(now.with_changes((), last))
            nearest, index = self._nearest(moments, at, networks=networks)
            way = range(nearest + 1, at + 1) if nearest <= at else range(nearest - 1, at - 1, -1)
            waiting = 0
            for each in way:
                changes = _changes_to(moments, each, is_back=nearest > at)
                index = index.with_changes(changes, moments[each].image)
                waiting += len(changes)
                if waiting > _KEPT_EVERY:
                    self._keep(index)
                    waiting = 0
            self._keep(index)
            return index

    def forget(self) -> None:
        """Give their memory back."""
        with self._working:
            self._rows.clear()
            self._made.clear()

    def _nearest(
        self, moments: Sequence[HistoryState], at: int, *, networks: NetworkRules
    ) -> tuple[int, AclIndex]:
        """The nearest moment whose index is known, and from which changes lead there; or this one's, anew."""
        columns = moments[at].image.columns
        earlier = later = True
        for away in range(len(moments)):
            for each, is_reached in ((at + away, later), (at - away, earlier)):
                if not is_reached or not 0 <= each < len(moments):
                    continue
                known = self._made.get((moments[each].image, networks))
                if known is not None:
                    self._made.move_to_end((moments[each].image, networks))
                    return each, known
            later = later and at + away + 1 < len(moments) and _leads(moments[at + away + 1], columns)
            earlier = earlier and at > away and _leads(moments[at - away], columns)
            earlier = earlier and moments[at - away - 1].image.columns is columns
            if not later and not earlier:
                break
        return at, AclIndex.on(self._arranged(columns, networks=networks), moments[at].image)

    def _arranged(self, columns: AclColumns, *, networks: NetworkRules) -> RowIndex:
        key = columns, networks
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = RowIndex(columns, networks=networks)
            while len(self._rows) > _COLUMNS_MAXIMUM:
                self._rows.popitem(last=False)
        self._rows.move_to_end(key)
        return rows

    def _keep(self, index: AclIndex) -> None:
        key = index.image, index.rows.networks
        self._made[key] = index
        self._made.move_to_end(key)
        while len(self._made) > _INDEXES_MAXIMUM:
            self._made.popitem(last=False)


def _leads(moment: HistoryState, columns: AclColumns) -> bool:
    """Whether it is known what leads from the moment before to this one, on these columns."""
    return moment.changes is not None and moment.image.columns is columns


def _changes_to(
    moments: Sequence[HistoryState], at: int, *, is_back: bool
) -> Sequence[tuple[AppliedAcl | None, AppliedAcl | None]]:
    """What leads to a moment: from the one before, or from the one after it."""
    if is_back:
        return [(each.after, each.before) for each in moments[at + 1].changes or ()]
    return [each.pair for each in moments[at].changes or ()]
