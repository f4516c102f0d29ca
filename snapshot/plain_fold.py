"""The fold of many plain records (records.plain_batches) at once: of a log that is read from its start.

What becomes of an id does not depend on any other id. So the records are taken apart by what is known of
their ids, by sorting:

    nothing else          a new ACL: a row, and nothing more to be looked at
    other records here,   what all of them together make of the id (snapshot.outcomes): one row or none, in
    a row added before    place of the row before
    anything else         looked at one by one, in their order, by AclsDelta's own rules

Ids are told apart by their first eight bytes here. Where those are equal and the others are not, both are
looked at more closely, which is always right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from records.ids import UUID_BYTES, Uuid
from snapshot.added import Share
from snapshot.columns import among, heads_of
from snapshot.digest import hashes_sum
from snapshot.outcomes import Outcomes, outcomes
from snapshot.plain_rows import PlainPart, PlainRows
from snapshot.rows import AppliedAcl

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from records.plain_batches import PlainRecords
    from snapshot.added import AddedAcls

    _Heads = npt.NDArray[np.uint64]
    _Ids = npt.NDArray[np.void]
    _Ints = npt.NDArray[np.int64]
    _Mask = npt.NDArray[np.bool_]

_NO_NUMBERS: Final = np.empty(0, np.int64)
# The number of a row that was there before.
_BEFORE: Final = -1


@dataclass(frozen=True, slots=True)
class Folded:
    """What became of the records.

    Attributes:
        outcomes: how often what happened.
        digest: what the digest is greater by.
        others: ACLs, and ids to remove, to be looked at one by one, in log order.
    """

    outcomes: Outcomes
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
        self._parts: list[PlainPart] = []
        self._removals: list[tuple[_Ints, _Ids]] = []
        # Those that were decoded by themselves.
        self._single: list[AppliedAcl] = []
        self._single_numbers: list[int] = []

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
        if isinstance(other, AppliedAcl):
            self._single.append(other)
            self._single_numbers.append(self._taken)
        else:
            self._removals.append((np.array([self._taken]), _void(other)))
        self._taken += 1
        self.count += 1

    def _look(self) -> None:
        """Keep of the consecutive records what the fold needs: much less than their bytes."""
        plain, first, end = self._plain, self._first, self._end
        if plain is None:
            return
        self._plain = None
        part = PlainPart(plain, first, end, self._taken - first)
        removals = plain.removals[slice(*np.searchsorted(plain.removals, (first, end)))]
        if len(removals):
            self._removals.append((removals + (self._taken - first), plain.removal_ids(removals)))
        if len(part.numbers):
            self._parts.append(part)
        ignored = end - first - len(part.numbers) - len(removals)
        self.ignored += ignored
        self.count -= ignored
        self._taken += end - first

    def fold(self, added: AddedAcls, may_hold: Callable[[_Heads], _Mask]) -> Folded:
        """Fold all records taken into ``added``, as far as that knows all about their ids.

        Args:
            added: what earlier folds added.
            may_hold: of the first eight bytes of ids, as numbers, sorted: which ones something else than the
                shares of ``added`` may know.
        """
        self._look()
        new = self._new()
        removed, removal_numbers = self._removed()
        removal_heads = heads_of(removed.tobytes())
        # Values only: sorting rows along with them takes twice as long, and mostly nothing is found.
        ordered = np.sort(np.concatenate([removal_heads, *(source.heads for source in new)]))
        is_known = may_hold(ordered)
        is_contested = added.shares_may_hold(ordered)
        is_contested[1:] |= ordered[1:] == ordered[:-1]
        known, contested = ordered[is_known], ordered[is_contested & ~is_known]

        is_left = among(known, removal_heads)
        others: list[tuple[int, AppliedAcl | Uuid]] = [
            *zip(removal_numbers[is_left].tolist(), map(Uuid, removed[is_left].tolist()), strict=True)
        ]
        for source in new:
            others += source.given_up(known)
        others.sort(key=lambda numbered: numbered[0])

        shares: list[Share] = []
        touched: list[Share] = []
        for share in added.shares:
            (touched if among(share.heads, contested).any() else shares).append(share)
        before = [_Source(share.rows, np.full(len(share.rows), _BEFORE)) for share in touched]
        found = _settle([*new, *before], contested, removed[~is_left], removal_numbers[~is_left])
        digest = sum(source.digest_of(source.stays) for source in new)
        digest -= sum(source.digest_of(~source.stays) for source in before)
        shares += [Share(source.left(), share.heads) for source, share in zip(before, touched, strict=True)]
        shares += [Share(source.left(), ordered) for source in new]
        added.share(shares)
        return Folded(outcomes=found, digest=digest, others=[other for _, other in others])

    def _new(self) -> list[_Source]:
        """All ACLs taken: as columns, and those that were decoded by themselves."""
        new = []
        if self._parts:
            numbers = np.concatenate([part.numbers for part in self._parts])
            new.append(_Source(PlainRows.of(self._parts), numbers))
        if self._single:
            new.append(_Source(PlainRows.of_acls(self._single), np.array(self._single_numbers)))
        return new

    def _removed(self) -> tuple[_Ids, _Ints]:
        """All ids to remove, and the numbers of the removals."""
        if not self._removals:
            return _void(b""), _NO_NUMBERS
        numbers, ids = zip(*self._removals, strict=True)
        return np.concatenate(ids), np.concatenate(numbers)


class _Source:
    """Rows that a fold looks at, new ones or those of a share; which of them stay is found out meanwhile."""

    __slots__ = ("heads", "numbers", "rows", "stays")

    def __init__(self, rows: PlainRows, numbers: _Ints) -> None:
        self.rows = rows
        self.numbers = numbers
        self.heads = heads_of(rows.ids.tobytes())
        self.stays = np.ones(len(rows), np.bool_)

    def given_up(self, heads: _Heads) -> list[tuple[int, AppliedAcl]]:
        """The rows of these ids, which are looked at one by one, and do not stay."""
        is_given_up = among(heads, self.heads)
        if not is_given_up.any():
            return []
        self.stays &= ~is_given_up
        acls = PlainRows.joined([self.rows.taken(is_given_up)])
        return list(zip(self.numbers[is_given_up].tolist(), acls, strict=True))

    def digest_of(self, rows: _Mask) -> int:
        """Of some of the rows."""
        return hashes_sum(self.rows.hashes[rows].tobytes())

    def left(self) -> PlainRows:
        """The rows that stay."""
        return self.rows if self.stays.all() else self.rows.taken(self.stays)


def _settle(sources: list[_Source], contested: _Heads, removed: _Ids, removal_numbers: _Ints) -> Outcomes:
    """Find out what stays of the rows of contested ids. The others stay; new ones are counted as added."""
    masks = [among(contested, source.heads) for source in sources]
    masked = list(zip(sources, masks, strict=True))
    found = outcomes(
        np.concatenate([_void(b""), *(source.rows.ids[mask] for source, mask in masked)]),
        np.concatenate([_void(b""), *(source.rows.hashes[mask] for source, mask in masked)]),
        np.concatenate([_NO_NUMBERS, *(source.numbers[mask] for source, mask in masked)]),
        removed,
        removal_numbers,
    )
    first = 0
    for source, mask in masked:
        found.added += int((source.stays & ~mask & (source.numbers != _BEFORE)).sum())
        end = first + int(mask.sum())
        source.stays[mask] = found.kept[first:end]
        first = end
    return found


def _void(ids: bytes) -> _Ids:
    return np.frombuffer(ids, f"V{UUID_BYTES}")
