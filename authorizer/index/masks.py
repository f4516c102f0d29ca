"""What a set of ACLs says about every operation, in one int; and per host, as a leaf.

A mask holds, for one name and one host, the union of what its ACLs allow and deny. ALL is spelled out and
what ALLOW implies is folded in, so that a decision is one ``&``:

    bit 29                         16  15                       14                0
        | deny, ALL .. TWO_PHASE_COMMIT | stated | stated | allow, ALL .. TWO_PHASE_COMMIT |

The operation with code c has its bits at c - 2 and c + 14. The two *stated* bits hold ALLOW DESCRIBE and
ALLOW DESCRIBE_CONFIGS without implication, for authorize-by-resource-type (KIP-679). Thirty bits in all:
CPython does arithmetic on such an int without going through its big-number code.

An operation without a name (UNKNOWN, and what a newer Kafka may write) and ANY have no bits: they match only
themselves and ALL, no broker asks for them, and `authorizer.decisions.reason` answers ACL by ACL if one does.

A leaf is the mask itself if every ACL has the host ``*``; else a dict of masks by host, those of ``*`` folded
into each, with the key ``*`` for every host that is not named.

Source: StandardAuthorizerData.findResult.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


Leaf = int | dict[str, int]

_DENY_SHIFT: Final = 16
# Every mask from here on has a deny bit.
_DENY_BASE: Final = 1 << _DENY_SHIFT
#: The two halves of a mask.
ALLOW_BITS: Final = _DENY_BASE - 1
DENY_BITS: Final = ~ALLOW_BITS

# Unions are copies; a name below a prefix with a thousand hosts must not hold a thousand of its own.
UNION_HOSTS_MAXIMUM: Final = 32

_NAMED: Final = tuple(op for op in AclOperation if op >= AclOperation.ALL)
_STATED: Final = {
    AclOperation.DESCRIBE: 1 << 14,
    AclOperation.DESCRIBE_CONFIGS: 1 << 15,
}


def _allow_bit(operation: AclOperation) -> int:
    return 1 << (operation - AclOperation.ALL)


def _deny_bit(operation: AclOperation) -> int:
    return _allow_bit(operation) << _DENY_SHIFT


def _allow_mask(operation: AclOperation) -> int:
    """What an ALLOW for ``operation`` allows."""
    if operation is AclOperation.ALL:
        covered = set(_NAMED)
    else:
        covered = {operation}
        if operation in IMPLIES_DESCRIBE:
            covered.add(AclOperation.DESCRIBE)
        if operation in IMPLIES_DESCRIBE_CONFIGS:
            covered.add(AclOperation.DESCRIBE_CONFIGS)
    stated = _STATED if operation is AclOperation.ALL else {operation: _STATED.get(operation, 0)}
    return sum(map(_allow_bit, covered)) | sum(stated.values())


def _deny_mask(operation: AclOperation) -> int:
    """What a DENY for ``operation`` denies: itself; ALL denies everything."""
    return sum(map(_deny_bit, _NAMED)) if operation is AclOperation.ALL else _deny_bit(operation)


#: By operation code, the mask of an ACL that allows it, or that does not; 0 for any other code.
ALLOW_MASKS: Final = {int(operation): _allow_mask(operation) for operation in _NAMED}
DENY_MASKS: Final = {int(operation): _deny_mask(operation) for operation in _NAMED}
_ALLOW_CODE: Final = int(AclPermissionType.ALLOW)

#: By operation code: the allow bit and the deny bit to ask a mask for; 0 for UNKNOWN and ANY.
ASKED: Final = tuple(
    _allow_bit(operation) | _deny_bit(operation) if operation in _NAMED else 0 for operation in AclOperation
)
#: The same with the stated bits in place of the implied ones (KIP-679).
ASKED_AS_STATED: Final = tuple(
    (_STATED.get(operation) or _allow_bit(operation)) | _deny_bit(operation) if operation in _NAMED else 0
    for operation in AclOperation
)


def denies(answer: int) -> bool:
    """Whether an answer, a mask of what was asked and anything said, is no: a DENY beats every ALLOW."""
    return answer >= _DENY_BASE


def acl_mask(operation: int, permission_type: int) -> int:
    """The mask of one ACL, by its codes. Any permission but ALLOW denies, as in Kafka."""
    return (ALLOW_MASKS if permission_type == _ALLOW_CODE else DENY_MASKS).get(operation, 0)


def leaf_mask(leaf: Leaf, host: str) -> int:
    """What a leaf says to ``host``."""
    if isinstance(leaf, int):
        return leaf
    return leaf.get(host, leaf[WILDCARD])


def union_leaf(one: Leaf, other: Leaf) -> Leaf | None:
    """The leaf that says what both say; None if it would name too many hosts to keep such copies."""
    if isinstance(one, int):
        if isinstance(other, int):
            return shared_mask(one | other)
        one, other = other, one
    if other == 0:
        return one
    hosts = one if isinstance(other, int) else one.keys() | other.keys()
    if len(hosts) > UNION_HOSTS_MAXIMUM:
        return None
    return {host: leaf_mask(one, host) | leaf_mask(other, host) for host in hosts}


# Masks are few and leaves a million: one object for each mask stays in the processor's caches.
_SHARED: Final[dict[int, int]] = {}


def shared_masks(masks: list[int]) -> Iterator[int]:
    """`shared_mask` of each."""
    return map(_SHARED.setdefault, masks, masks)


def shared_mask(mask: int) -> int:
    """An equal int that is one object wherever it is kept."""
    return _SHARED.setdefault(mask, mask)


def add_to_leaf(leaf: Leaf | None, host: str, mask: int) -> Leaf:
    """The leaf with one more ACL's mask; changes ``leaf`` in place if that is a dict."""
    if host == WILDCARD:
        if leaf is None:
            return mask
        if isinstance(leaf, int):
            return shared_mask(leaf | mask)
        for each in leaf:
            leaf[each] = shared_mask(leaf[each] | mask)
        return leaf
    if leaf is None:
        return {WILDCARD: 0, host: mask}
    if isinstance(leaf, int):
        return {WILDCARD: leaf, host: shared_mask(leaf | mask)}
    leaf[host] = shared_mask(leaf.get(host, leaf[WILDCARD]) | mask)
    return leaf
