"""RowIndex: the rows of every principal and every name, compared with a scan."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import numpy as np
import pytest

from authorizer.engine.index.masks import (
    ALLOW_BITS,
    DENY_BITS,
    REQUEST_BITS,
    PatternLeaf,
    acl_mask,
    add_to_leaf,
)
from authorizer.engine.index.pattern_keys import PREFIXED, has_unknown_code, pattern_key
from authorizer.engine.index.row_index import RowIndex
from records.acl import AclOperation
from records.columns.acl_table import AppliedAcl
from records.entries import AccessControlEntryRecord
from records.ids import Uuid
from snapshot.columns import AclColumns

PRINCIPALS = ("User:a", "User:*", "User:b", "Group:a", "nobody", "", ":")
NAMES = ("orders", "orders-", "", "*", "é", "\U0001f600")


def drawn(seed: int, count: int) -> list[AccessControlEntryRecord]:
    """Overlapping ACLs; the codes include every int8."""
    rng = random.Random(seed)

    def code(*usual: int) -> int:
        return rng.choice(usual) if rng.random() < 0.9 else rng.randint(-128, 127)

    return [
        AccessControlEntryRecord(
            Uuid(number.to_bytes(16)),
            code(2, 2, 3),
            rng.choice(NAMES),
            code(3, 4),
            rng.choice(PRINCIPALS),
            rng.choice(("*", "*", "h", "")),
            code(2, 3, 8),
            code(2, 3),
        )
        for number in range(count)
    ]


@pytest.mark.parametrize("count", [0, 1, 400])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_found_by_pattern_and_by_principal(seed: int, count: int) -> None:
    """Also for names and principals without rows."""
    records = drawn(seed, count)
    index = RowIndex(AclColumns.of([AppliedAcl(record, 0, 0) for record in records]))
    places = [pattern_key(record) for record in records]
    for kind, name in product(range(2 * PREFIXED), (*NAMES, "unknown")):
        here = [row for row, place in enumerate(places) if place == (kind, name)]
        assert index.rows_at(kind, name).tolist() == here
        assert index.count_at(kind, name) == len(here)
        for principal in (*PRINCIPALS, "User:unknown"):
            principal_rows = [row for row in here if records[row].principal == principal]
            code = index.code_of(principal)
            assert (code is None) is all(record.principal != principal for record in records)
            group = index.group_at(code, kind, name)
            assert index.rows_in(group) == principal_rows
            assert index.leaf(principal_rows) == leaf(records, principal_rows)
            if group is not None:
                assert index.leaf_of(group) == leaf(records, principal_rows)
            for bits in (REQUEST_BITS[AclOperation.READ], DENY_BITS, ALLOW_BITS):
                matching = [records[row] for row in principal_rows if has_any_bit(records[row], bits)]
                for _ in range(2):  # the first answers are cached
                    found = [] if group is None else index.acls_with_bits(bits, group)
                    assert sorted(acl.record.id for acl in found) == [record.id for record in matching]
    for kind in range(2 * PREFIXED):
        assert set(index.names(kind)) == {name for each, name in places if each == kind}
    for resource_type in range(PREFIXED):
        lengths = {len(name) for kind, name in places if kind == resource_type + PREFIXED}
        assert index.lengths[resource_type] == tuple(sorted(lengths, reverse=True))
    assert sorted(index.all_rows().tolist()) == [*range(count)]
    odd = Counter(
        place[0] % PREFIXED for place, record in zip(places, records, strict=True) if has_unknown_code(record)
    )
    assert index.unknown_code_counts == tuple(odd[resource_type] for resource_type in range(PREFIXED))


def test_rows_of_given_ids_are_excluded() -> None:
    """Of many rows and of few; also ids without a row."""
    records = drawn(7, 400)
    index = RowIndex(AclColumns.of([AppliedAcl(record, 0, 0) for record in records]))
    removed_ids = dict.fromkeys((records[3].id, records[5].id, Uuid(b"of no record row")))
    many = index.exclude(index.all_rows(), removed_ids)
    assert sorted(many.tolist()) == [row for row in range(400) if row not in (3, 5)]
    few = np.array([5, 4, 3, 2], np.int32)
    assert index.exclude(few, removed_ids).tolist() == [4, 2]
    assert index.exclude(few, {}).tolist() == [5, 4, 3, 2]


def has_any_bit(record: AccessControlEntryRecord, bits: int) -> bool:
    """Whether the ACL's mask has any of these bits."""
    return acl_mask(record.operation, record.permission_type) & bits != 0


@pytest.mark.parametrize("count", [0, 1, 400])
def test_leaves_equal_all_rows_of_a_principal(count: int) -> None:
    """There is one leaf for each pattern, with any hosts and codes."""
    records = drawn(801, count)
    index = RowIndex(AclColumns.of([AppliedAcl(record, 0, 0) for record in records]))
    for principal in (*PRINCIPALS, "User:unknown"):
        principal_rows = [row for row, record in enumerate(records) if record.principal == principal]
        assert sorted(index.rows_of(principal).tolist()) == principal_rows
        by_place: dict[tuple[int, str], list[int]] = {}
        for row in principal_rows:
            by_place.setdefault(pattern_key(records[row]), []).append(row)
        code = index.code_of(principal)
        if code is None:
            assert not principal_rows
            continue
        found = {
            (resource_type + cover.prefixed, cover.name): cover
            for resource_type, covers in enumerate(index.covers_of(code))
            for cover in covers
        }
        expected = {place: leaf(records, rows) for place, rows in by_place.items()}
        assert {place: cover.leaf for place, cover in found.items()} == expected
        assert {place: index.rows_in(cover.group) for place, cover in found.items()} == by_place
        assert index.count_patterns(code) == len(by_place)
        assert (code in index.principals_with_more_patterns(1)) is (len(by_place) > 1)


def leaf(records: list[AccessControlEntryRecord], rows: list[int]) -> PatternLeaf | None:
    merged: PatternLeaf | None = None
    for row in rows:
        record = records[row]
        merged = add_to_leaf(merged, record.host, acl_mask(record.operation, record.permission_type))
    return merged
