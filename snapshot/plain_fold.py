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
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from records.ids import UUID_BYTES
from snapshot.arrow_columns import encoded_column
from snapshot.columns import among, heads_of
from snapshot.digest import DIGEST_BITS, digest_of, frame_hashes, hashes_sum
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
        added: ACLs that nothing else is known of.
        heads: sorted, the first eight bytes of all ids that were taken, as numbers.
        digest: of ``added``.
        others: ACLs, and ids to remove, to be looked at one by one, in log order.
    """

    added: tuple[AclRows, ...]
    heads: npt.NDArray[np.uint64]
    digest: int
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

    def take(self, plain: PlainRecords, first: int, count: int) -> None:
        """So many records, from the ``first`` on."""
        if plain is not self._plain or first != self._end:
            self._look()
            self._plain, self._first = plain, first
        self._end = first + count
        self.count += count

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
        ids = b"".join([part.ids.tobytes() for part in self._parts])
        heads = heads_of(ids)
        others = self._others
        other_ids = [other.record.id if isinstance(other, AppliedAcl) else other for _, other in others]
        other_heads = heads_of(b"".join(other_ids))
        # Values only: sorting rows along with them takes twice as long, and mostly nothing is found.
        ordered = np.sort(np.concatenate([heads, other_heads]))
        is_known = may_hold(ordered)
        is_known[1:] |= ordered[1:] == ordered[:-1]
        known = ordered[is_known]
        is_other = among(known, heads)
        is_new = ~is_other
        new: list[AppliedAcl] = []
        left: list[tuple[int, AppliedAcl | Uuid]] = []
        for (number, other), is_left in zip(others, among(known, other_heads).tolist(), strict=True):
            if is_left or not isinstance(other, AppliedAcl):
                left.append((number, other))
            else:
                new.append(other)
        if is_other.any():
            numbers = np.concatenate([part.numbers for part in self._parts])[is_other]
            left += zip(numbers.tolist(), self._rows(ids, is_other), strict=True)
        left.sort(key=lambda numbered: numbered[0])
        hashes = np.frombuffer(b"".join([part.hashes for part in self._parts]), f"V{_HASH_BYTES}")
        return Folded(
            added=(self._rows(ids, is_new), AclRows.of(new)),
            heads=ordered,
            digest=hashes_sum(hashes[is_new].tobytes()) + digest_of(acl.record for acl in new),
            others=[other for _, other in left],
        )

    def _rows(self, ids: bytes, wanted: _Mask) -> AclRows:
        """The wanted rows of all parts."""
        parts = self._parts
        if not wanted.any():
            return AclRows.of(())
        is_all = bool(wanted.all())

        def each(name: str) -> Any:
            column = np.concatenate([getattr(part, name) for part in parts])
            return column if is_all else column[wanted]

        # Not pa.array(): of a numpy array it asks pandas, which takes 0.2 s to load where it is installed.
        bits = pa.py_buffer(np.packbits(wanted, bitorder="little"))
        mask = pa.Array.from_buffers(pa.bool_(), len(wanted), [None, bits])

        def texts(name: str) -> Any:
            column = pa.chunked_array([getattr(part, name) for part in parts])
            return encoded_column(column if is_all else column.filter(mask))

        return AclRows(
            ids=ids if is_all else np.frombuffer(ids, f"V{UUID_BYTES}")[wanted].tobytes(),
            resource_types=each("resource_types"),
            names=texts("names"),
            pattern_types=each("pattern_types"),
            principals=texts("principals"),
            hosts=texts("hosts"),
            operations=each("operations"),
            permission_types=each("permission_types"),
            offsets=each("offsets"),
            timestamps_ms=each("timestamps_ms"),
        )


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
        bounds = map(slice, plain.frame_starts[acls].tolist(), plain.frame_ends[acls].tolist())
        self.hashes = frame_hashes(map(plain.data.__getitem__, bounds))
