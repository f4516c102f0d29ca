"""Columns: rows go in and come out as they were, are found by id, and make room for others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from records.columns.acl_table import AppliedAcl
from records.columns.text_column import TextColumn
from records.errors import EncodeError
from records.ids import Uuid
from snapshot.columns import AclColumns, has_id, heads_in
from support.snapshots import acl, acl_id

ACLS = [
    AppliedAcl(acl(1), 7, 100),
    AppliedAcl(acl(2, resource_name="", principal="User:\n\"'\0", resource_type=-128), None, 2**53 + 1),
    AppliedAcl(acl(3, operation=127, permission_type=-1, host="naïve-🚀"), 2**62, 0),
    AppliedAcl(acl(4, host="\ud800"), 0, -1),
]


def test_rows_come_back() -> None:
    """Texts of any kind, codes of any sign, offsets that are known or not; one by one, some, or all."""
    columns = AclColumns.of(ACLS)
    assert list(columns) == ACLS
    assert [columns.acl(row) for row in range(4)] == ACLS
    assert columns.acls([3, 0, 3]) == [ACLS[3], ACLS[0], ACLS[3]]
    assert columns.acls(np.array([False, True, True, False])) == ACLS[1:3]
    assert columns.acls([]) == []
    assert [columns.id_of(row) for row in range(4)] == [each.record.id for each in ACLS]


def test_more_rows_than_a_piece_come_back() -> None:
    """Looking at all rows makes objects in pieces; none is lost between two."""
    many = [AppliedAcl(acl(number), number, number) for number in range(10_000)]
    assert list(AclColumns.of(many)) == many


def test_ids_are_found() -> None:
    """Also where their first half is shared, which bisection looks at."""
    ids = [
        Uuid(bytes(7) + bytes([head]) + bytes(7) + bytes([tail])) for head in range(9) for tail in range(5)
    ]
    columns = AclColumns.of([AppliedAcl(acl(1, id=each), 0, 0) for each in ids])
    assert [columns.row_of(each) for each in ids] == list(range(45))
    for missing in (bytes(16)[:15] + b"\x07", bytes(7) + b"\x09" + bytes(8), b"\xff" * 16):
        assert columns.row_of(Uuid(missing)) is None
    assert AclColumns.EMPTY.row_of(ids[0]) is None


def test_ids_are_counted() -> None:
    """An id that several rows have counts once."""
    twice = [AppliedAcl(acl(number % 30), 0, 0) for number in range(50)]
    assert AclColumns.of(twice).count_ids() == 30
    assert AclColumns.of(ACLS).count_ids() == 4
    assert AclColumns.EMPTY.count_ids() == 0


def test_parts_are_joined() -> None:
    """Rows of several parts in order, each text once, whichever part said it."""
    parts = [AclColumns.of(ACLS[:2]), AclColumns.EMPTY, AclColumns.of(ACLS[2:])]
    joined = AclColumns.concat(parts)
    assert list(joined) == ACLS
    assert len(joined.names.texts) == len(set(joined.names.texts))
    assert AclColumns.concat([]).ids == b""
    # Empty parts cost nothing: the only other one is not encoded again.
    assert AclColumns.concat([AclColumns.EMPTY, parts[0], AclColumns.EMPTY]) is parts[0]


def test_a_text_that_one_part_says_twice_is_one_text() -> None:
    """Other writers' dictionaries may repeat themselves."""
    column = TextColumn.concat([TextColumn(("a", "b", "a"), np.array([0, 1, 2], np.int32))])
    assert (column.texts, column.codes.tolist()) == (("a", "b"), [0, 1, 0])


def test_texts_that_no_row_has_are_dropped() -> None:
    """Years of changes leave no text behind."""
    columns = AclColumns.of(ACLS)
    changed = columns.with_changes({acl_id(3): None, acl_id(1): AppliedAcl(acl(1, host="h"), 8, 8)})
    assert sorted(changed.hosts.texts) == ["*", "h", "\ud800"]
    assert "naïve-🚀" in columns.hosts.texts


def test_changes_make_other_columns() -> None:
    """Rows replaced, added and removed; the old columns stay as they were."""
    columns = AclColumns.of(ACLS)
    new, other = AppliedAcl(acl(9), 9, 9), AppliedAcl(acl(2, host="h"), 10, 10)
    changed = columns.with_changes({acl_id(9): new, acl_id(2): other, acl_id(4): None, acl_id(77): None})
    assert {each.record.id: each for each in changed} == {
        acl_id(1): ACLS[0],
        acl_id(2): other,
        acl_id(3): ACLS[2],
        acl_id(9): new,
    }
    assert list(columns) == ACLS
    assert len(columns.with_changes({each.record.id: None for each in ACLS})) == 0


def test_rows_are_counted_by_resource_type() -> None:
    """Of the types that there are."""
    assert AclColumns.of(ACLS).count_by_resource_type() == {2: 3, -128: 1}


@pytest.mark.parametrize("changes", [{"operation": 128}, {"resource_type": -129}, {"id": b"short"}])
def test_what_no_log_can_hold_is_refused(changes: dict[str, Any]) -> None:
    """A code beyond int8, another length of id."""
    with pytest.raises(EncodeError):
        AclColumns.of([AppliedAcl(acl(1, **changes), 0, 0)])


@pytest.mark.parametrize("held", [0, 1, 17, 3_000])
def test_heads_are_found_among_sorted_ones(held: int) -> None:
    """As a set finds them: random ones, and some that differ in their last bits alone."""
    heads = np.random.default_rng(7).integers(0, 1 << 64, 5_000, np.uint64)
    heads[:50] = np.arange(50)
    heads[50:100] = np.uint64(2**64 - 1) - np.arange(50, dtype=np.uint64)
    known = np.sort(np.concatenate([heads[:held:2], heads[100 : 100 + held]]))
    assert heads_in(known, heads).tolist() == [head in set(known.tolist()) for head in heads.tolist()]


def test_few_ids_are_found_among_many() -> None:
    """With the same first bits or others; ids that only begin alike are others."""
    many = [bytes([bits, *bytes(7), number, *bytes(7)]) for bits in (0, 7, 255) for number in range(100)]
    wanted = [many[3], many[150], many[299], bytes([7, *bytes(7), 1, *bytes(6), 9]), bytes([9, *bytes(15)])]
    found = has_id(b"".join(many), b"".join(wanted))
    assert np.flatnonzero(found).tolist() == [3, 150, 299]
    assert has_id(b"".join(wanted), b"".join(many)).tolist() == [True, True, True, False, False]
    assert not has_id(b"".join(many), b"").any()
