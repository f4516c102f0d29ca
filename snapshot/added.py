"""AddedAcls: the ACLs that one delta adds by column, in shares that are joined when somebody looks for one.

A log that is read from its start only adds, for the most part. Nothing is looked up then, and joining a
million rows once, not share by share, saves a quarter of the whole fold's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from snapshot.columns import AclColumns, among

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy.typing as npt

    from snapshot.rows import AclRows


class AddedAcls:
    """ACLs with distinct ids. Not thread-safe."""

    __slots__ = ("_columns", "_count", "_heads", "_shares")

    def __init__(self, columns: AclColumns = AclColumns.EMPTY) -> None:
        self._columns = columns
        # Not joined yet: rows, and sorted heads with theirs among them.
        self._shares: list[AclRows] = []
        self._heads: list[npt.NDArray[np.uint64]] = []
        self._count = len(columns)

    def __len__(self) -> int:
        return self._count

    def add(self, shares: Collection[AclRows], heads: npt.NDArray[np.uint64]) -> None:
        """ACLs whose ids are not here yet, and sorted heads (`heads_of`) with those of their ids."""
        self._shares += [share for share in shares if len(share)]
        self._heads.append(heads)
        self._count += sum(map(len, shares))

    def may_hold(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of the first eight bytes of ids, which ones an id here may begin with. Quick if they are sorted."""
        found = self._columns.may_hold(heads)
        for held in self._heads:
            found |= among(held, heads)
        return found

    def columns(self) -> AclColumns:
        """All of them."""
        if self._shares:
            shares = self._shares if not len(self._columns) else [self._columns, *self._shares]
            self._shares, self._heads = [], []
            self._columns = AclColumns.joined(shares)
        return self._columns
