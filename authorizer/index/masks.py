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

A leaf is the mask itself if every ACL has the host ``*``; else HostMasks: a mask for each host that is named,
that of ``*`` folded in, and one for all others. A union of leaves that would name very many hosts is a tuple
of them instead. The garbage collector looks at none of these: there may be millions.

Source: StandardAuthorizerData.findResult.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from authorizer.index import limits
from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class HostMasks(msgspec.Struct, gc=False):
    """What is said to each host that is named, and to all others."""

    by_host: dict[str, int]
    others: int


#: What ACLs of one place say.
OwnLeaf = int | HostMasks
#: What ACLs of several places say together.
Leaf = OwnLeaf | tuple[OwnLeaf, ...]

_DENY_SHIFT: Final = 16
# Every mask from here on has a deny bit.
_DENY_BASE: Final = 1 << _DENY_SHIFT
#: The two halves of a mask.
ALLOW_BITS: Final = _DENY_BASE - 1
DENY_BITS: Final = ~ALLOW_BITS

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
    if isinstance(leaf, HostMasks):
        return leaf.by_host.get(host, leaf.others)
    mask = 0
    for each in leaf:
        mask |= leaf_mask(each, host)
    return mask


def union_leaf(one: Leaf, other: Leaf) -> Leaf:
    """The leaf that says what both say."""
    if isinstance(one, int):
        if isinstance(other, int):
            return shared_mask(one | other)
        one, other = other, one
    if other == 0:
        return one
    if isinstance(one, tuple) or isinstance(other, tuple):
        return (*_parts(one), *_parts(other))
    hosts = one.by_host.keys() if isinstance(other, int) else one.by_host.keys() | other.by_host.keys()
    if len(hosts) > limits.UNION_HOSTS:
        return one, other
    others = one.others | (other if isinstance(other, int) else other.others)
    return HostMasks({host: leaf_mask(one, host) | leaf_mask(other, host) for host in hosts}, others)


def _parts(leaf: Leaf) -> tuple[OwnLeaf, ...]:
    return leaf if isinstance(leaf, tuple) else (leaf,)


# Masks are few and leaves a million: one object for each mask stays in the processor's caches.
_SHARED: Final[dict[int, int]] = {}


def shared_masks(masks: list[int]) -> Iterator[int]:
    """`shared_mask` of each."""
    return map(_SHARED.setdefault, masks, masks)


def shared_mask(mask: int) -> int:
    """An equal int that is one object wherever it is kept."""
    return _SHARED.setdefault(mask, mask)


def add_to_leaf(leaf: OwnLeaf | None, host: str, mask: int) -> OwnLeaf:
    """The leaf with one more ACL's mask; changes ``leaf`` in place if that is HostMasks."""
    if isinstance(leaf, HostMasks):
        if host == WILDCARD:
            leaf.others |= mask
            for each in leaf.by_host:
                leaf.by_host[each] |= mask
        else:
            leaf.by_host[host] = shared_mask(leaf.by_host.get(host, leaf.others) | mask)
        return leaf
    said = leaf or 0
    return shared_mask(said | mask) if host == WILDCARD else HostMasks({host: shared_mask(said | mask)}, said)
