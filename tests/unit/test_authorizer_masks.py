"""Masks of an ACL and of a leaf: the operations that they allow and deny."""

from __future__ import annotations

import pytest

from authorizer.engine.index.masks import (
    ALLOW_BITS,
    EXPLICIT_REQUEST_BITS,
    REQUEST_BITS,
    HostMasks,
    acl_mask,
    add_to_leaf,
    denies,
    leaf_mask,
    union_leaf,
)
from records.acl import AclOperation, AclPermissionType

ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
NAMED = {operation for operation in AclOperation if operation >= AclOperation.ALL}

# Besides the operation itself; every other operation implies nothing.
IMPLIED = {
    AclOperation.ALL: NAMED,
    AclOperation.READ: {AclOperation.DESCRIBE},
    AclOperation.WRITE: {AclOperation.DESCRIBE},
    AclOperation.DELETE: {AclOperation.DESCRIBE},
    AclOperation.ALTER: {AclOperation.DESCRIBE},
    AclOperation.ALTER_CONFIGS: {AclOperation.DESCRIBE_CONFIGS},
}


def operations_of(
    mask: int, bits: tuple[int, ...] = REQUEST_BITS
) -> tuple[set[AclOperation], set[AclOperation]]:
    """The operations that a mask allows, and those that it denies."""
    hits = {operation: mask & bits[operation] for operation in NAMED}
    return (
        {operation for operation, hit in hits.items() if hit & ALLOW_BITS},
        {operation for operation, hit in hits.items() if denies(hit)},
    )


@pytest.mark.parametrize("operation", sorted(NAMED))
def test_allow_implies_and_deny_does_not(operation: AclOperation) -> None:
    """H6, H7: READ, WRITE, DELETE, ALTER allow DESCRIBE; ALTER_CONFIGS DESCRIBE_CONFIGS; CREATE nothing."""
    implied = IMPLIED.get(operation, set())
    assert operations_of(acl_mask(operation, ALLOW)) == ({operation} | implied, set())
    all_of_it = NAMED if operation is AclOperation.ALL else {operation}
    assert operations_of(acl_mask(operation, DENY)) == (set(), all_of_it)


@pytest.mark.parametrize("operation", sorted(NAMED))
def test_explicit_bits_have_no_implication(operation: AclOperation) -> None:
    """KIP-679 uses the stated operation, not the implied ones."""
    all_of_it = NAMED if operation is AclOperation.ALL else {operation}
    assert operations_of(acl_mask(operation, ALLOW), EXPLICIT_REQUEST_BITS) == (all_of_it, set())
    assert operations_of(acl_mask(operation, DENY), EXPLICIT_REQUEST_BITS) == (set(), all_of_it)


@pytest.mark.parametrize("permission", [-128, 0, 1, 4, 127])
def test_any_other_permission_denies(permission: int) -> None:
    """H15: unknown permission types of a newer Kafka fail closed."""
    assert acl_mask(AclOperation.READ, permission) == acl_mask(AclOperation.READ, DENY)


@pytest.mark.parametrize("operation", [-128, -1, 0, 1, 16, 127])
def test_an_operation_without_a_name_has_no_bits(operation: int) -> None:
    """H15: it matches no operation of a request."""
    assert acl_mask(operation, ALLOW) == acl_mask(operation, DENY) == 0


def test_masks_stay_small_ints() -> None:
    """One CPython digit; larger ints would slow down every decision."""
    everything = acl_mask(AclOperation.ALL, ALLOW) | acl_mask(AclOperation.ALL, DENY)
    assert everything < 2**30


def test_a_leaf_merges_the_wildcard_host_into_each_host() -> None:
    """In any order of hosts."""
    for order in (("*", "a", "b"), ("a", "*", "b"), ("b", "a", "*")):
        bits = {"*": 1, "a": 2, "b": 4}
        leaf = None
        for host in order:
            leaf = add_to_leaf(leaf, host, bits[host])
        assert leaf is not None
        assert [leaf_mask(leaf, host) for host in ("a", "b", "c", "*")] == [3, 5, 1, 1]


def test_a_leaf_for_every_host_is_an_int() -> None:
    assert add_to_leaf(add_to_leaf(None, "*", 1), "*", 2) == 3


def test_a_union_of_very_many_hosts_is_not_materialized() -> None:
    """A short prefix with many hosts over many longer ones must not be copied into each."""
    many = HostMasks({str(host): 1 for host in range(40)}, 0)
    both = union_leaf(union_leaf(4, many), 2)
    assert both == (many, 4, 2)
    assert [leaf_mask(both, host) for host in ("7", "other")] == [7, 6]
    few = union_leaf(HostMasks({"a": 1}, 0), HostMasks({"b": 6}, 2))
    assert few == HostMasks({"a": 3, "b": 6}, 2)
    assert union_leaf(1, 2) == 3


def test_a_union_does_not_change_its_leaves() -> None:
    """Several unions share a leaf."""
    one, other = HostMasks({"a": 1}, 0), HostMasks({"b": 2}, 0)
    union_leaf(one, other)
    assert (one, other) == (HostMasks({"a": 1}, 0), HostMasks({"b": 2}, 0))
