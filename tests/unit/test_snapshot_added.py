"""What a delta adds by column: counted at once, known by heads, merged, and joined when looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from records.ids import Uuid
from snapshot.added import AddedAcls, Share
from snapshot.columns import heads_of
from snapshot.plain_rows import PlainRows
from snapshot.rows import AppliedAcl
from support.snapshots import acl, acl_id


def rows(*numbers: int) -> PlainRows:
    return PlainRows.of_acls([AppliedAcl(acl(number, id=id_of(number)), number, 0) for number in numbers])


def id_of(number: int) -> Uuid:
    """Ids that differ in their first half."""
    return acl_id(number << 64)


def share(*numbers: int) -> Share:
    return Share(rows(*numbers), heads(*numbers))


def heads(*numbers: int) -> np.ndarray:
    return np.sort(heads_of(b"".join(map(id_of, numbers))))


def offsets(found: Sequence[AppliedAcl]) -> list[int]:
    return sorted(each.offset or 0 for each in found)


def test_shares_are_known_until_they_are_joined() -> None:
    """And then by what they were joined to; nothing is joined twice."""
    added = AddedAcls()
    added.share([share(1, 2), share(5)])
    assert len(added) == 3
    assert added.shares_may_hold(heads(1, 3, 5)).tolist() == [True, False, True]
    joined = added.columns()
    assert offsets(list(joined)) == [1, 2, 5]
    assert added.columns() is joined
    assert added.joined is joined
    assert added.shares_may_hold(heads(1, 3, 5)).tolist() == [False] * 3
    added.share([share(7), share(8)])
    assert len(added) == 5
    assert offsets(list(added.columns())) == [1, 2, 5, 7, 8]
    assert {found.record for found in added.columns()} == {acl(n, id=id_of(n)) for n in (1, 2, 5, 7, 8)}


def test_nothing_added() -> None:
    """No shares, and shares without rows."""
    added = AddedAcls()
    assert len(added.columns()) == 0
    added.share([share()])
    assert (len(added), len(added.shares), len(added.columns())) == (0, 0, 0)
    assert added.shares_may_hold(heads(1)).tolist() == [False]


def test_many_shares_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what they lost: texts that no row has any more are not kept."""
    monkeypatch.setattr("snapshot.added._SHARES_MAX", 2)
    added = AddedAcls()
    lost = rows(1, 2, 3).taken(np.array([True, False, True]))
    added.share([Share(lost, heads(1, 2, 3)), share(4), share(5)])
    (merged,) = added.shares
    assert merged.rows.texts["names"].texts.to_pylist() == ["t-1", "t-3", "t-4", "t-5"]
    assert merged.heads.tolist() == heads(1, 2, 3, 4, 5).tolist()
    assert len(added) == 4
    assert offsets(list(added.columns())) == [1, 3, 4, 5]


def test_taken_rows_leave_their_texts_behind() -> None:
    """A text that no row has any more is not kept when rows are joined."""
    joined = PlainRows.joined([rows(1, 2, 3).taken(np.array([True, False, True])), rows(3)])
    assert offsets(list(joined)) == [1, 3, 3]
    assert joined.names.texts == ["t-1", "t-3"]
    assert joined.principals.texts == ["User:u1", "User:u3"]
