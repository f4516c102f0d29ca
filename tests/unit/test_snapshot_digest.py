"""The digest (I12): order-free, sensitive to every field, and its text."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from records.columns.acl_table import AppliedAcl
from records.entries import RemoveAccessControlEntryRecord
from records.log_batch import LogRecord
from snapshot.columns import AclColumns
from snapshot.delta import AclsDelta
from snapshot.digest import acl_hash, digest_from_string, digest_to_string
from snapshot.image import AclsImage, Provenance
from support.digests import digest_of
from support.snapshots import acl, acl_id

KNOWN = "75f27451ea86dfcff2bc1a4bcf5f1160"


def test_digest_of_known_acls_is_pinned() -> None:
    """Stored manifests and other implementations rely on the value: changing it is a new format."""
    odd = acl(2, resource_name="naïve-🚀", resource_type=-7, operation=127, host="")
    assert digest_to_string(digest_of([acl(1), odd])) == KNOWN


def test_order_does_not_matter() -> None:
    """Every order of the same ACLs has the same digest."""
    records = [acl(1), acl(2), acl(1, id=acl_id(3)), acl(4, host="h")]
    assert len({digest_of(order) for order in permutations(records)}) == 1


def test_adding_and_removing_is_undone() -> None:
    """The digest after a removal is the one before the addition, across the wrap-around too."""
    nowhere = Provenance(0, 0, 0)
    start = AclsImage.restored(AclColumns.EMPTY, digest=(1 << 128) - 1, provenance=nowhere)
    add = AclsDelta(start)
    add.put(AppliedAcl(acl(1), 0, 0))
    added = add.apply(nowhere)
    assert added.digest == acl_hash(acl(1)) - 1
    remove = AclsDelta(added)
    remove.replay(LogRecord(1, 0, RemoveAccessControlEntryRecord(acl(1).id)))
    assert remove.apply(nowhere).digest == start.digest


def test_the_same_acl_twice_is_not_nothing() -> None:
    """A sum, not an exclusive or: two ids with one content, or one row twice, do not cancel out."""
    assert digest_of([acl(1), acl(1)]) not in (0, digest_of([acl(1)]))


@pytest.mark.parametrize(
    "change",
    [
        {"id": acl_id(2)},
        {"resource_type": 3},
        {"resource_name": "t-2"},
        {"pattern_type": 4},
        {"principal": "User:u2"},
        {"host": "h"},
        {"operation": 4},
        {"permission_type": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_field_counts(change: dict[str, Any]) -> None:
    """Two ACLs that differ in one field have different hashes."""
    assert acl_hash(acl(1)) != acl_hash(acl(1, **change))


def test_fields_do_not_run_into_each_other() -> None:
    """Text that moves from one field to the next changes the hash."""
    moved = [("ab", "c", ""), ("a", "bc", ""), ("", "abc", ""), ("", "", "abc"), ("a", "b", "c")]
    hashes = {
        acl_hash(acl(1, resource_name=name, principal=principal, host=host))
        for name, principal, host in moved
    }
    assert len(hashes) == len(moved)


def test_text_of_a_digest_is_32_digits() -> None:
    """Leading zeros stay, and the text is read back."""
    assert digest_to_string(1) == "0" * 31 + "1"
    for digest in (0, 1, (1 << 128) - 1):
        assert digest_from_string(digest_to_string(digest)) == digest


@pytest.mark.parametrize(
    "text",
    ["", "0" * 31, "0" * 33, "g" * 32, "A" * 32, "0x" + "0" * 30, " " + "0" * 31, "0_" * 16, "+" + "1" * 31],
)
def test_other_text_is_no_digest(text: str) -> None:
    """Nothing but 32 lower-case hexadecimal digits is a digest, whatever int() would make of it."""
    with pytest.raises(ValueError, match="32 lower-case hexadecimal digits"):
        digest_from_string(text)
