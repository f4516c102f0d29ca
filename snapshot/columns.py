"""AclColumns: a table of ACLs with lookup by id, the base of an image.

A lookup bisects the sorted first eight bytes of the ids ("heads"). A table by their first bits narrows the
range to bisect: a few steps within one region of memory in place of twenty across all of it.

    ids         7f..  03..  a1..  52..
    heads       03..  52..  7f..  a1..       sorted
    head_rows   1     3     0     2
    buckets     0     1     2     3     4    by the heads' first bits: the start of each bucket, and the end
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from records.columns.acl_table import AclTable, AppliedAcl
from records.ids import UUID_BYTES, Uuid

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

_HEAD_BYTES: Final = 8
_HEAD_BITS: Final = 8 * _HEAD_BYTES
# Ids are random: each bucket has nearly the same number of them.
_BUCKET_BITS: Final = 4
# Bits of the filter beyond those of the number of ids: few unknown ids pass it. It takes at most 4 MB.
_SPARE_BITS: Final = 4
_FILTER_BITS_MAX: Final = 22


def heads_of(ids: bytes) -> npt.NDArray[np.uint64]:
    """The first eight bytes of each id, as numbers that have the same order."""
    return np.frombuffer(ids, ">u8")[:: UUID_BYTES // _HEAD_BYTES].astype(np.uint64)


def heads_in(sorted_heads: npt.NDArray[np.uint64], heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Mask of the heads that are in ``sorted_heads``."""
    if not len(sorted_heads):
        return np.zeros(len(heads), np.bool_)
    # Ids are random: a filter by their first bits excludes most without a search.
    bits = min(len(sorted_heads).bit_length() + _SPARE_BITS, _FILTER_BITS_MAX)
    shift = np.uint64(_HEAD_BITS - bits)
    may_be = np.zeros(1 << bits, np.bool_)
    may_be[sorted_heads >> shift] = True
    is_member: npt.NDArray[np.bool_] = may_be[heads >> shift]
    left = heads[is_member]
    at = np.minimum(np.searchsorted(sorted_heads, left), len(sorted_heads) - 1)
    is_member[is_member] = sorted_heads[at] == left
    return is_member


def has_id(ids: bytes, wanted: bytes) -> npt.NDArray[np.bool_]:
    """Which of the ids, 16 bytes each, are among the wanted ones."""
    each, sought = (np.frombuffer(blob, f"V{UUID_BYTES}") for blob in (ids, wanted))
    found = heads_in(np.sort(heads_of(wanted)), heads_of(ids))
    exact = set(sought.tolist())
    found[found] = [acl_id in exact for acl_id in each[found].tolist()]
    return found


class AclColumns(AclTable):
    """See the module. Ids are distinct where an image holds them; ``count_ids`` tells of others."""

    __slots__ = ("_bucket_shift", "_buckets", "_head_rows", "_heads")

    EMPTY: AclColumns

    def __init__(self, *, ids: bytes, **columns: Any) -> None:
        super().__init__(ids=ids, **columns)
        heads = heads_of(ids)
        order = np.argsort(heads)
        heads = heads[order]
        bits = max(0, len(heads).bit_length() - _BUCKET_BITS)
        self._bucket_shift = _HEAD_BITS - bits
        firsts = np.arange(1 << bits, dtype=np.uint64) << np.uint64(self._bucket_shift % _HEAD_BITS)
        buckets = np.append(np.searchsorted(heads, firsts), len(heads)).astype(np.int32)
        # As memoryviews: bisect reads one number of them in 40 ns, of an array in 100.
        self._heads = heads.data
        self._head_rows = order.astype(np.int32).data
        self._buckets = buckets.data

    def with_changes(
        self, changes: Mapping[Uuid, AppliedAcl | None], added: AclColumns | None = None
    ) -> AclColumns:
        """A copy in which the rows of these ids are replaced, added, or (None) removed.

        ``added``: further rows with distinct ids, which replace rows of the same ids.
        """
        parts: list[AclTable] = [AclTable.of([acl for acl in changes.values() if acl is not None])]
        replaced = [row for row in map(self.row_of, changes) if row is not None]
        if added is not None:
            parts.append(added)
            same = self.rows_among(np.sort(heads_of(added.ids)))
            replaced += [row for row in same.tolist() if added.row_of(self.id_of(row)) is not None]
        unchanged: AclTable = self
        if replaced:
            is_unchanged = np.ones(len(self), np.bool_)
            is_unchanged[replaced] = False
            unchanged = self.take(is_unchanged)
        return AclColumns.concat([unchanged, *parts])

    def row_of(self, acl_id: Uuid) -> int | None:
        heads = self._heads
        head = int.from_bytes(acl_id[:_HEAD_BYTES], "big")
        bucket = head >> self._bucket_shift
        at = bisect_left(heads, head, self._buckets[bucket], self._buckets[bucket + 1])
        while at < len(heads) and heads[at] == head:
            row = self._head_rows[at]
            if self.id_of(row) == acl_id:
                return row
            at += 1
        return None

    def rows_among(self, heads: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
        """The rows whose ids have one of these heads (`heads_of`), which must be sorted."""
        held = np.asarray(self._heads)
        is_first = np.ones(len(heads), np.bool_)
        np.not_equal(heads[1:], heads[:-1], out=is_first[1:])
        heads = heads[is_first]
        firsts = np.searchsorted(held, heads)
        counts = np.searchsorted(held, heads, side="right") - firsts
        places = np.arange(counts.sum()) + np.repeat(firsts - np.cumsum(counts) + counts, counts)
        rows: npt.NDArray[np.int32] = np.asarray(self._head_rows)[places]
        return rows

    def count_ids(self) -> int:
        heads = np.asarray(self._heads)
        shared = np.zeros(len(heads), np.bool_)
        same = heads[1:] == heads[:-1]
        shared[1:] |= same
        shared[:-1] |= same
        if not shared.any():
            return len(heads)
        # Few ids share a head.
        rows = np.asarray(self._head_rows)[shared].tolist()
        return len(heads) - len(rows) + len({self.id_of(row) for row in rows})


AclColumns.EMPTY = AclColumns.of(())
