"""AddedAcls: the ACLs that one delta adds by column, joined when somebody looks for one.

A log that is read from its start adds, and changes what it added. Nothing is looked up then: a share of it
loses the rows that a later one replaced or removed (snapshot.plain_fold), and joining a million rows once,
not share by share, saves a quarter of the whole fold's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from snapshot.columns import AclColumns, among

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from snapshot.plain_rows import PlainRows

# What shares lost stays in memory with them until they are merged.
_SHARES_MAX: Final = 8


class Share(NamedTuple):
    """Some of the ACLs, and sorted heads (`heads_of`) with those of their ids among them."""

    rows: PlainRows
    heads: npt.NDArray[np.uint64]


class AddedAcls:
    """ACLs with distinct ids. Not thread-safe.

    Attributes:
        joined: those that are joined.
        shares: the others.
    """

    __slots__ = ("_count", "joined", "shares")

    def __init__(self, columns: AclColumns = AclColumns.EMPTY) -> None:
        self.joined = columns
        self.shares: tuple[Share, ...] = ()
        self._count = len(columns)

    def __len__(self) -> int:
        return self._count

    def share(self, shares: Sequence[Share]) -> None:
        """These are the ACLs that are not joined, from now on."""
        shares = [share for share in shares if len(share.rows)]
        if len(shares) > _SHARES_MAX:
            rows = shares[0].rows.merged([share.rows for share in shares])
            shares = [Share(rows, np.sort(np.concatenate([share.heads for share in shares])))]
        self.shares = tuple(shares)
        self._count = len(self.joined) + sum(len(share.rows) for share in shares)

    def shares_may_hold(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Of the first eight bytes of ids, sorted: which ones an id in a share may begin with."""
        found = np.zeros(len(heads), np.bool_)
        for share in self.shares:
            found |= among(share.heads, heads)
        return found

    def columns(self) -> AclColumns:
        """All of them."""
        if self.shares:
            # Arrow: only where much is read.
            import pyarrow as pa  # noqa: PLC0415

            from snapshot.plain_rows import PlainRows  # noqa: PLC0415

            rows = PlainRows.joined([share.rows for share in self.shares])
            self.shares = ()
            parts = [part for part in (self.joined, rows) if len(part)]
            self.joined = AclColumns.joined(parts)
            # What decoding took: Arrow's allocator keeps it otherwise, 110 MB after a million records.
            pa.default_memory_pool().release_unused()
        return self.joined
