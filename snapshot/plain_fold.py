"""The fold of many plain records (records.plain_batches) at once: of a log that is read from its start.

What becomes of an id does not depend on any other id. So of all records taken here only those are looked at
one by one, in their order, whose id something else has too: another record, or the state before. All other
ACLs are new, and stay rows of columns.

    taken         id1   id2   id3   id2   -id4   id5        id3 is in the state before
    rows          id1                            id5
    one by one          id2   id3   id2   -id4              by AclsDelta's own rules

Ids are told apart by their first eight bytes. Where those are equal and the others are not, both are looked
at one by one, which is always right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from snapshot.columns import among, heads_of
from snapshot.digest import DIGEST_BITS, digest_of, frame_hashes, hashes_sum
from snapshot.plain_rows import PlainRows
from snapshot.rows import AclRows, AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from records.ids import Uuid
    from records.plain_batches import PlainRecords

    _Mask = npt.NDArray[np.bool_]

_HASH_BYTES: Final = DIGEST_BITS // 8


@dataclass(frozen=True, slots=True)
class Folded:
    """What becomes of the records.

    Attributes:
        rows: ACLs that nothing else is known of.
        single: such ACLs that were decoded by themselves.
        digest: of these and those.
        heads: sorted, the first eight bytes of all ids that were taken, as numbers.
        others: ACLs, and ids to remove, to be looked at one by one, in log order.
    """

    rows: PlainRows
    single: AclRows
    digest: int
    heads: npt.NDArray[np.uint64]
    others: list[AppliedAcl | Uuid]


class PlainFold:
    """Takes records in log order. Not thread-safe.

    Attributes:
        count: how many records it has taken that are ACLs or removals.
        ignored: how many others.
    """

    def __init__(self) -> None:
        self.count = 0
        self.ignored = 0
        # Consecutive records of one read, taken and not looked at yet.
        self._plain: PlainRecords | None = None
        self._first = self._end = 0
        # What was looked at. A number for each record says which one was taken first.
        self._taken = 0
        self._parts: list[_Part] = []
        self._others: list[tuple[int, AppliedAcl | Uuid]] = []

    def take(self, plain: PlainRecords, first: int, count: int) -> int:
        """So many records, from the ``first`` on; returns how many it has taken."""
        if plain is not self._plain or first != self._end:
            self._look()
            self._plain, self._first = plain, first
        self._end = first + count
        self.count = taken = self.count + count
        return taken

    def take_other(self, other: AppliedAcl | Uuid) -> None:
        """One record that was decoded by itself: an ACL, or the removal of an id."""
        self._look()
        self._others.append((self._taken, other))
        self._taken += 1
        self.count += 1

    def _look(self) -> None:
        """Keep of the consecutive records what the fold needs: much less than their bytes."""
        plain, first, end = self._plain, self._first, self._end
        if plain is None:
            return
        self._plain = None
        part = _Part(plain, first, end, self._taken - first)
        removals = plain.removals[slice(*np.searchsorted(plain.removals, (first, end)))]
        removed = zip((removals + (self._taken - first)).tolist(), plain.removal_ids(removals), strict=True)
        self._others += removed
        if len(part.numbers):
            self._parts.append(part)
        ignored = end - first - len(part.numbers) - len(removals)
        self.ignored += ignored
        self.count -= ignored
        self._taken += end - first

    def fold(self, may_hold: Callable[[npt.NDArray[np.uint64]], _Mask]) -> Folded:
        """All records taken.

        Args:
            may_hold: of the first eight bytes of ids, as numbers: which may be in the state before.
        """
        self._look()
        rows = PlainRows.of(self._parts)
        heads = heads_of(rows.ids)
        other_heads = heads_of(b"".join([_id_of(other) for _, other in self._others]))
        # Values only: sorting rows along with them takes twice as long, and mostly nothing is found.
        ordered = np.sort(np.concatenate([heads, other_heads]))
        is_known = may_hold(ordered)
        is_known[1:] |= ordered[1:] == ordered[:-1]
        known = ordered[is_known]
        left: list[tuple[int, AppliedAcl | Uuid]] = []
        single: list[AppliedAcl] = []
        for numbered, is_left in zip(self._others, among(known, other_heads).tolist(), strict=True):
            _, other = numbered
            if is_left or not isinstance(other, AppliedAcl):
                left.append(numbered)
            else:
                single.append(other)
        hashes = b"".join([part.hashes for part in self._parts])
        is_left_row = among(known, heads)
        if is_left_row.any():
            numbers = np.concatenate([part.numbers for part in self._parts])[is_left_row]
            left += zip(numbers.tolist(), PlainRows.joined([rows.taken(is_left_row)]), strict=True)
            is_new = ~is_left_row
            rows = rows.taken(is_new)
            hashes = np.frombuffer(hashes, f"V{_HASH_BYTES}")[is_new].tobytes()
        left.sort(key=lambda numbered: numbered[0])
        return Folded(
            rows=rows,
            single=AclRows.of(single),
            digest=hashes_sum(hashes) + digest_of(acl.record for acl in single),
            heads=ordered,
            others=[other for _, other in left],
        )


def _id_of(other: AppliedAcl | Uuid) -> Uuid:
    return other.record.id if isinstance(other, AppliedAcl) else other


class _Part:
    """The ACLs among consecutive records of one read: their columns, and number and hash of each."""

    __slots__ = (
        "hashes",
        "hosts",
        "ids",
        "names",
        "numbers",
        "offsets",
        "operations",
        "pattern_types",
        "permission_types",
        "principals",
        "resource_types",
        "timestamps_ms",
    )

    def __init__(self, plain: PlainRecords, first: int, end: int, shift: int) -> None:
        rows = slice(*np.searchsorted(plain.acls, (first, end)))
        acls = plain.acls[rows]
        self.numbers = acls + shift
        self.ids = plain.ids[rows]
        self.resource_types = plain.resource_types[rows]
        self.names = plain.names[rows]
        self.pattern_types = plain.pattern_types[rows]
        self.principals = plain.principals[rows]
        self.hosts = plain.hosts[rows]
        self.operations = plain.operations[rows]
        self.permission_types = plain.permission_types[rows]
        self.offsets = plain.offsets[acls]
        self.timestamps_ms = plain.timestamps_ms[acls]
        starts, ends = plain.frame_starts[acls].tolist(), plain.frame_ends[acls].tolist()
        self.hashes = frame_hashes(plain.data, starts, ends)
