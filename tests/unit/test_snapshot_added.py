"""What a delta adds by column: counted at once, joined when it is looked at, known before and after."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from records.plain_batches import plain_records
from snapshot.added import AddedAcls
from snapshot.columns import heads_of
from snapshot.plain_rows import PlainRows
from snapshot.rows import AclRows, AppliedAcl
from support.plain_logs import raw_batches
from support.snapshots import acl, acl_id


def plain_rows(numbers: Sequence[int]) -> PlainRows:
    """ACLs as a read of many records has them."""
    plain, _ = plain_records(raw_batches([[acl(number) for number in numbers]]))
    assert plain is not None
    return PlainRows.of([plain])


def heads(numbers: Sequence[int]) -> np.ndarray:
    return np.sort(heads_of(b"".join(acl_id(number << 64) for number in numbers)))


def test_columns_of_everything_added() -> None:
    """Of plain rows and of single ones, share after share, also after a look; nothing is joined twice."""
    added = AddedAcls()
    single = AclRows.of([AppliedAcl(acl(5), 5, 5)])
    assert added.add(plain_rows([1, 2]), single, heads([1, 2, 5])) == 3
    first = added.columns()
    assert added.columns() is first
    assert sorted(found.record.resource_name for found in first) == ["t-1", "t-2", "t-5"]
    assert added.add(plain_rows([7]), AclRows.of(()), heads([7])) == 1
    assert added.add(plain_rows([8]), single.taken(slice(0)), heads([8])) == 1
    assert len(added) == 5
    assert len(added.columns()) == 5
    assert {found.record.id: found.record for found in added.columns()} == {
        acl_id(number): acl(number) for number in (1, 2, 5, 7, 8)
    }


def test_nothing_added() -> None:
    """No rows, and shares without rows."""
    added = AddedAcls()
    assert len(added.columns()) == 0
    assert added.add(PlainRows.of([]), AclRows.of(()), heads([])) == 0
    assert (len(added), len(added.columns())) == (0, 0)
    assert added.may_hold(heads([1])).tolist() == [False]


def test_taken_rows_leave_their_texts_behind() -> None:
    """A text that no row has any more is not kept."""
    rows = plain_rows([1, 2, 3]).taken(np.array([True, False, True]))
    joined = PlainRows.joined([rows, plain_rows([3])])
    assert [found.record for found in joined] == [acl(1), acl(3), acl(3)]
    assert joined.names.texts == ["t-1", "t-3"]
    assert joined.principals.texts == ["User:u1", "User:u3"]
