"""The fold of many records at once, onto whatever is in force: concatenate, order by id, the last one wins.

What becomes of an id does not depend on any other id. Most ids of a log are met once and are not in
force before; those that are, or that several records are about, are ordered by id and number:

    one id's, in log order     ACL a     ACL a     ACL b     removal   ACL c     ACL c
    before it, in force        -         a         a         b         -         c
    counted as                 added     repeated  replaced  removed   added     repeated
    kept                                                               here: the first writing stays on record

ACLs are told apart by the hashes that the digest is made of (snapshot.digest): of id and content. The rules
are those of AclsDelta, which folds one record at a time (I8). Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from records.columns.acl_table import AclTable, AppliedAcl
from records.ids import UUID_BYTES, Uuid
from records.log_batch import LogRecord
from snapshot.columns import among, heads_of
from snapshot.digest import frame_hashes, hashes_sum, table_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from records.columns.record_table import RecordTable, TableRecords

    Heads = npt.NDArray[np.uint64]
    _Ids = npt.NDArray[np.void]
    _Ints = npt.NDArray[np.int64]
    _Mask = npt.NDArray[np.bool_]

#: Records are folded when they are more than this, and more than the rows before: what is kept of them stays
#: small beside the rows, and these are joined a few times only.
FOLD_AT: Final = 1 << 18
# The number of a row that was there before all records.
_BEFORE: Final = -1


class DeltaCounts(msgspec.Struct, gc=False):
    """What the records of one delta did, for metrics.

    ``replaced`` counts a known id with other content, ``repeated`` a known id with the same content again
    (the next checkpoint of a tail does that), ``unknown_removals`` removals of ids that are not in force.
    """

    added: int = 0
    removed: int = 0
    replaced: int = 0
    repeated: int = 0
    unknown_removals: int = 0
    ignored: int = 0

    def add(self, other: DeltaCounts) -> None:
        """Add another delta's counts to these."""
        self.added += other.added
        self.removed += other.removed
        self.replaced += other.replaced
        self.repeated += other.repeated
        self.unknown_removals += other.unknown_removals
        self.ignored += other.ignored


@dataclass(frozen=True, slots=True)
class _Rows:
    """ACLs, and for each its hash and the number of its record: which one was taken first."""

    table: AclTable
    hashes: _Ids
    numbers: _Ints


class Fold:
    """Takes records in log order. Not thread-safe.

    Args:
        held: what is in force before: of the first eight bytes of ids (`heads_of`), sorted, all ACLs whose
            ids begin with one of them.
        fold_at: see FOLD_AT.

    Attributes: as of the last `settle`.
        rows: the ACLs that were put in force, with distinct ids.
        gone: the ids of ACLs that were in force before, and are not as they were.
        digest: what the digest is greater by.
        counts: what the records did.
    """

    def __init__(self, held: Callable[[Heads], AclTable], *, fold_at: int = FOLD_AT) -> None:
        self.rows = AclTable.of(())
        self.gone: set[Uuid] = set()
        self.digest = 0
        self.counts = DeltaCounts()
        self._held = held
        self._fold_at = fold_at
        self._hashes = _void(b"")
        # Records of one table that follow one another, not looked at yet.
        self._table: RecordTable | None = None
        self._first = self._end = 0
        # Those that were looked at and are not folded; and the number of the next one.
        self._next = 0
        self._waiting: list[_Rows] = []
        self._removals: list[tuple[_Ids, _Ints]] = []
        self._single: list[AppliedAcl] = []
        self._single_numbers: list[int] = []
        self._count = 0

    def take(self, table: RecordTable, first: int, end: int) -> None:
        """The ACLs and removals among the records of some rows; its ``others`` are the caller's."""
        if table is not self._table or first != self._end:
            self._look()
            self._table, self._first = table, first
        self._end = end

    def take_records(self, records: TableRecords) -> Iterator[LogRecord]:
        """As ``take``; gives the ``others`` among the records, each when all before it were taken."""
        for table, first, end in records.parts:
            begin = first
            for row, record in table.other_records_between(first, end) if table.other_records else ():
                self.take(table, begin, row)
                yield LogRecord(table.offsets.item(row), table.timestamps_ms.item(row), record)
                begin = row + 1
            self.take(table, begin, end)

    def put_table(self, table: AclTable) -> None:
        """All rows of a table, in order."""
        self._look()
        numbers = np.arange(self._next, self._next + len(table))
        self._waiting.append(_Rows(table, _void(table_hashes(table)), numbers))
        self._next += len(table)
        self._count += len(table)

    def put(self, acl: AppliedAcl) -> None:
        """One ACL."""
        self._look()
        self._single.append(acl)
        self._single_numbers.append(self._next)
        self._next += 1
        self._count += 1

    def remove(self, acl_id: Uuid) -> None:
        """The removal of one ACL."""
        self._look()
        self._removals.append((_void(acl_id), np.array([self._next])))
        self._next += 1
        self._count += 1

    def _look(self) -> None:
        """Keep of the records of the table what the fold needs: much less than their bytes."""
        table, first, end = self._table, self._first, self._end
        if table is None:
            return
        self._table = None
        begin, stop = np.searchsorted(table.acls, (first, end)).tolist()
        acls = table.table if stop - begin == len(table.acls) else table.table.taken(slice(begin, stop))
        frames = table.frames(begin, stop)
        hashes = table_hashes(acls) if frames is None else frame_hashes(*frames)
        rows = table.acls[begin:stop] - first
        begin, stop = np.searchsorted(table.removals, (first, end)).tolist()
        removal_ids = table.removal_ids[UUID_BYTES * begin : UUID_BYTES * stop]
        self._wait(acls, hashes, rows, removal_ids, table.removals[begin:stop] - first, end - first)

    def _wait(
        self,
        acls: AclTable,
        hashes: bytes,
        rows: _Ints,
        removal_ids: bytes,
        removals: _Ints,
        count: int,
    ) -> None:
        if len(rows):
            self._waiting.append(_Rows(acls, _void(hashes), rows + self._next))
        if len(removals):
            self._removals.append((_void(removal_ids), removals + self._next))
        self._count += len(rows) + len(removals)
        self.counts.ignored += count - len(rows) - len(removals)
        self._next += count
        if self._count > max(self._fold_at, len(self.rows)):
            self._fold()

    def settle(self) -> None:
        """Fold all that was taken."""
        self._look()
        if self._count:
            self._fold()

    def _fold(self) -> None:
        if self._single:
            table = AclTable.of(self._single)
            numbers = np.array(self._single_numbers)
            self._waiting.append(_Rows(table, _void(table_hashes(table)), numbers))
        new, removals = self._waiting, self._removals
        self._waiting, self._removals, self._single, self._single_numbers = [], [], [], []
        self._count = 0
        removed = np.concatenate([_void(b""), *(ids for ids, _ in removals)])
        removal_numbers = np.concatenate([_no_numbers(0), *(numbers for _, numbers in removals)])

        before = _Rows(self.rows, self._hashes, _no_numbers(len(self.rows)))
        # Values only: sorting rows along with them takes twice as long, and mostly nothing is found.
        heads = [heads_of(rows.table.ids) for rows in (before, *new)]
        ordered = np.sort(np.concatenate([*heads, heads_of(removed.tobytes())]))
        held = self._held_rows(ordered)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        contested = np.sort(np.concatenate([repeated, heads_of(held.table.ids)]))

        sources = [held, before, *new]
        table = AclTable.joined([rows.table for rows in sources])
        hashes = np.concatenate([rows.hashes for rows in sources])
        numbers = np.concatenate([rows.numbers for rows in sources])
        is_contested = among(contested, heads_of(table.ids))
        is_new = numbers != _BEFORE
        self.counts.added += int((is_new & ~is_contested).sum())
        kept = ~is_contested
        kept[is_contested] = self._outcomes(
            table.id_array[is_contested],
            hashes[is_contested],
            numbers[is_contested],
            removed,
            removal_numbers,
        )
        self.digest += hashes_sum(hashes[kept & is_new].tobytes())
        self.digest -= hashes_sum(hashes[~kept & ~is_new].tobytes())
        self.gone.update(map(Uuid, held.table.id_array[~kept[: len(held.table)]].tolist()))
        kept[: len(held.table)] = False
        self.rows = table if kept.all() else table.taken(kept)
        self._hashes = hashes[kept]

    def _held_rows(self, heads: Heads) -> _Rows:
        table = self._held(heads)
        if self.gone:
            is_there = [acl_id not in self.gone for acl_id in table.id_array.tolist()]
            table = table.taken(np.array(is_there, np.bool_))
        return _Rows(table, _void(table_hashes(table)), _no_numbers(len(table)))

    def _outcomes(
        self, ids: _Ids, hashes: _Ids, numbers: _Ints, removed: _Ids, removal_numbers: _Ints
    ) -> _Mask:
        """Which of these ACLs are in force in the end; counts what became of their ids.

        Args:
            ids: of ACLs.
            hashes: of these ACLs.
            numbers: of these ACLs; _BEFORE for what was in force before, once for an id.
            removed: ids that are removed.
            removal_numbers: of these removals.
        """
        all_numbers = np.concatenate([numbers, removal_numbers])
        high, low = _words(np.concatenate([ids, removed]))
        order = np.lexsort((all_numbers, low, high))
        is_same = np.zeros(len(order), np.bool_)
        is_same[1:] = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
        is_acl = order < len(ids)
        # In force before each: something, and the same thing.
        is_held = np.zeros(len(order), np.bool_)
        is_held[1:] = is_same[1:] & is_acl[:-1]
        is_equal = is_held & is_acl
        at = np.flatnonzero(is_equal)
        is_equal[at] = hashes[order[at]] == hashes[order[at - 1]]
        is_written = is_acl & (all_numbers[order] != _BEFORE)
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = ~is_same[1:]
        # Where the content came into force that is in force at each.
        since = np.maximum.accumulate(np.where(is_acl & ~is_equal, np.arange(len(order)), 0))
        kept = np.zeros(len(ids), np.bool_)
        kept[order[since[is_last & is_acl]]] = True
        counts = self.counts
        counts.added += int((is_written & ~is_held).sum())
        counts.removed += int((~is_acl & is_held).sum())
        counts.replaced += int((is_written & is_held & ~is_equal).sum())
        counts.repeated += int((is_written & is_equal).sum())
        counts.unknown_removals += int((~is_acl & ~is_held).sum())
        return kept


def _words(ids: _Ids) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The halves of ids, as numbers."""
    words = np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)
    return words[:, 0].copy(), words[:, 1].copy()


def _void(ids: bytes) -> _Ids:
    return np.frombuffer(ids, f"V{UUID_BYTES}")


def _no_numbers(count: int) -> _Ints:
    return np.full(count, _BEFORE)
