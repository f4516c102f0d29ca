"""Columnar fold of many records onto the ACLs in force: concatenate, sort by id, the last one wins. Pure.

The outcome for an id does not depend on other ids. Most ids of a log occur once and are not in force before.
Only ids that are in force, or in several records, are sorted by id and record number. The rules (I8), which
AclsDelta applies to single records:

    one id's, in log order     ACL a     ACL a     ACL b     removal   ACL c     ACL c
    in force before            -         a         a         b         -         c
    counted as                 added     repeated  replaced  removed   added     repeated
    in force in the end                                                this one: of equal ones the first

Equality of ACLs is equality of the hashes that the digest sums up (snapshot.digest): of id and content. A
property test compares both implementations. There are two because folding a single record by columns takes
some 200 times as long as AclsDelta does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from records.columns.acl_table import AclTable, AppliedAcl
from records.ids import UUID_BYTES, Uuid
from records.log_batch import LogRecord
from snapshot.columns import heads_in, heads_of
from snapshot.digest import frame_hashes, hashes_sum, table_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from records.columns.record_table import RecordTable, TableRecords

    Heads = npt.NDArray[np.uint64]
    _Ids = npt.NDArray[np.void]
    _Ints = npt.NDArray[np.int64]
    _Mask = npt.NDArray[np.bool_]

#: Buffered records are folded when they exceed this and the number of rows: the buffer stays small compared
#: with the rows, and the rows are joined a few times only.
FOLD_AT: Final = 1 << 18
# The record number of rows that were in force before all buffered records.
_BEFORE: Final = -1


class DeltaCounts(msgspec.Struct, gc=False):
    """Effects of a delta's records, for metrics.

    ``replaced`` counts known ids with other content, ``repeated`` known ids with equal content (as in the
    next checkpoint of a tail), ``unknown_removals`` removals of ids that are not in force.
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
    """ACLs, each with its hash and the number of its record, which is its order in the log."""

    table: AclTable
    hashes: _Ids
    numbers: _Ints


class Fold:
    """Folds records in log order. Not thread-safe.

    Args:
        base_rows: returns the ACLs of the base whose ids have one of the given sorted heads (`heads_of`).
        fold_at: see FOLD_AT.

    Attributes, as of the last `settle`:
        rows: the added and changed ACLs, with distinct ids.
        superseded_ids: the ids of the base's ACLs that were removed or changed.
        digest: the increment of the digest.
        counts: effects of the records.
    """

    def __init__(self, base_rows: Callable[[Heads], AclTable], *, fold_at: int = FOLD_AT) -> None:
        self.rows = AclTable.of(())
        self.superseded_ids: set[Uuid] = set()
        self.digest = 0
        self.counts = DeltaCounts()
        self._base_rows = base_rows
        self._fold_at = fold_at
        self._hashes = _void(b"")
        # A range of consecutive records of one table that is not extracted yet.
        self._table: RecordTable | None = None
        self._first = self._end = 0
        # Extracted records that are not folded yet; and the number of the next one.
        self._next = 0
        self._waiting: list[_Rows] = []
        self._removals: list[tuple[_Ids, _Ints]] = []
        self._single: list[AppliedAcl] = []
        self._single_numbers: list[int] = []
        self._count = 0

    def take(self, table: RecordTable, first: int, end: int) -> None:
        """Add the ACLs and removals among some rows; the caller handles the table's ``others``."""
        if table is not self._table or first != self._end:
            self._extract()
            self._table, self._first = table, first
        self._end = end

    def take_records(self, records: TableRecords) -> Iterator[LogRecord]:
        """As ``take``; yields each of the ``others`` after all records before it were taken."""
        for table, first, end in records.parts:
            begin = first
            for row, record in table.other_records_between(first, end) if table.other_records else ():
                self.take(table, begin, row)
                yield LogRecord(table.offsets.item(row), table.timestamps_ms.item(row), record)
                begin = row + 1
            self.take(table, begin, end)

    def put_table(self, table: AclTable) -> None:
        """Add all rows of a table, in order."""
        self._extract()
        numbers = np.arange(self._next, self._next + len(table))
        self._waiting.append(_Rows(table, _void(table_hashes(table)), numbers))
        self._next += len(table)
        self._count += len(table)

    def put(self, acl: AppliedAcl) -> None:
        self._extract()
        self._single.append(acl)
        self._single_numbers.append(self._next)
        self._next += 1
        self._count += 1

    def remove(self, acl_id: Uuid) -> None:
        self._extract()
        self._removals.append((_void(acl_id), np.array([self._next])))
        self._next += 1
        self._count += 1

    def _extract(self) -> None:
        """Extract from the range of records what the fold needs: much less than their bytes."""
        table, first, end = self._table, self._first, self._end
        if table is None:
            return
        self._table = None
        begin, stop = np.searchsorted(table.acls, (first, end)).tolist()
        acls = table.table if stop - begin == len(table.acls) else table.table.take(slice(begin, stop))
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
        """Fold all records taken so far."""
        self._extract()
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
        # Only the heads are sorted: an argsort takes twice as long, and most often finds no duplicates.
        heads = [heads_of(rows.table.ids) for rows in (before, *new)]
        ordered = np.sort(np.concatenate([*heads, heads_of(removed.tobytes())]))
        base = self._read_base(ordered)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        contested = np.sort(np.concatenate([repeated, heads_of(base.table.ids)]))

        sources = [base, before, *new]
        table = AclTable.concat([rows.table for rows in sources])
        hashes = np.concatenate([rows.hashes for rows in sources])
        numbers = np.concatenate([rows.numbers for rows in sources])
        is_contested = heads_in(contested, heads_of(table.ids))
        is_new = numbers != _BEFORE
        self.counts.added += int((is_new & ~is_contested).sum())
        is_in_force = ~is_contested
        is_in_force[is_contested] = self._outcomes(
            table.id_array[is_contested],
            hashes[is_contested],
            numbers[is_contested],
            removed,
            removal_numbers,
        )
        self.digest += hashes_sum(hashes[is_in_force & is_new].tobytes())
        self.digest -= hashes_sum(hashes[~is_in_force & ~is_new].tobytes())
        base_count = len(base.table)
        self.superseded_ids.update(map(Uuid, base.table.id_array[~is_in_force[:base_count]].tolist()))
        is_in_force[:base_count] = False
        self.rows = table if is_in_force.all() else table.take(is_in_force)
        self._hashes = hashes[is_in_force]

    def _read_base(self, heads: Heads) -> _Rows:
        table = self._base_rows(heads)
        if self.superseded_ids:
            is_current = [acl_id not in self.superseded_ids for acl_id in table.id_array.tolist()]
            table = table.take(np.array(is_current, np.bool_))
        return _Rows(table, _void(table_hashes(table)), _no_numbers(len(table)))

    def _outcomes(
        self, ids: _Ids, hashes: _Ids, numbers: _Ints, removed: _Ids, removal_numbers: _Ints
    ) -> _Mask:
        """Mask of the ACLs that are in force in the end; counts the effects (I8).

        The number _BEFORE is that of an ACL that was in force before, at most one for each id.
        """
        all_numbers = np.concatenate([numbers, removal_numbers])
        high, low = _words(np.concatenate([ids, removed]))
        order = np.lexsort((all_numbers, low, high))
        is_same = np.zeros(len(order), np.bool_)
        is_same[1:] = (high[order[1:]] == high[order[:-1]]) & (low[order[1:]] == low[order[:-1]])
        is_acl = order < len(ids)
        # Whether an ACL with the same id is in force before each; and whether it is equal.
        is_known = np.zeros(len(order), np.bool_)
        is_known[1:] = is_same[1:] & is_acl[:-1]
        is_equal = is_known & is_acl
        at = np.flatnonzero(is_equal)
        is_equal[at] = hashes[order[at]] == hashes[order[at - 1]]
        is_written = is_acl & (all_numbers[order] != _BEFORE)
        is_last = np.ones(len(order), np.bool_)
        is_last[:-1] = ~is_same[1:]
        # For each, the position at which the content that is then in force was first written.
        since = np.maximum.accumulate(np.where(is_acl & ~is_equal, np.arange(len(order)), 0))
        is_in_force = np.zeros(len(ids), np.bool_)
        is_in_force[order[since[is_last & is_acl]]] = True
        counts = self.counts
        counts.added += int((is_written & ~is_known).sum())
        counts.removed += int((~is_acl & is_known).sum())
        counts.replaced += int((is_written & is_known & ~is_equal).sum())
        counts.repeated += int((is_written & is_equal).sum())
        counts.unknown_removals += int((~is_acl & ~is_known).sum())
        return is_in_force


def _words(ids: _Ids) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    words = np.ascontiguousarray(ids).view(">u8").reshape(-1, 2).astype(np.uint64)
    return words[:, 0].copy(), words[:, 1].copy()


def _void(ids: bytes) -> _Ids:
    return np.frombuffer(ids, f"V{UUID_BYTES}")


def _no_numbers(count: int) -> _Ints:
    return np.full(count, _BEFORE)
