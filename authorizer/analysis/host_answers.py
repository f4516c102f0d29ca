"""What a leaf answers to every host and operation: an `Answer`, equal where every answer is.

An answer is the mask of the operations that are allowed, the one with code c at bit c - 2; where hosts or
networks that are named are answered otherwise, that of all other hosts with those of the named ones. The
narrowest that is named counts, and as few are named as it takes (`host_tree`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from authorizer.analysis.host_tree import UNSPECIFIED, mask_at, minimal_host_masks
from authorizer.api.ip_address import host_address
from authorizer.api.ip_network import network_of
from authorizer.engine.index.masks import (
    OPERATIONS,
    Leaf,
    allowed_operations,
    leaf_hosts,
    leaf_mask,
    leaf_networks,
    network_mask,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from records.acl import AclOperation

#: The mask of the hosts that are not named, and that of each host or network that is, in order.
HostAnswers = tuple[int, tuple[tuple[str, int], ...]]
Answer = int | HostAnswers

#: Nothing is allowed.
NO_OPERATIONS: Final = 0
#: The mask of each operation that an ACL can name.
OPERATION_BITS: Final = {operation: 1 << bit for bit, operation in enumerate(OPERATIONS)}
# Of which a leaf asked for it says what it says to all that it does not name.
_NO_HOST: Final = ""


def answer_of(leaf: Leaf) -> Answer:
    """What the decider answers where everything that covers a name says ``leaf`` together."""
    if isinstance(leaf, int):
        return allowed_operations(leaf)
    named = {host: allowed_operations(leaf_mask(leaf, host)) for host in leaf_hosts(leaf)}
    networks = {str(each): allowed_operations(network_mask(leaf, each)) for each in leaf_networks(leaf)}
    if networks:
        networks[UNSPECIFIED] = allowed_operations(leaf_mask(leaf, UNSPECIFIED))
    return _by_host(networks | named, allowed_operations(leaf_mask(leaf, _NO_HOST)))


def _by_host(named: Mapping[str, int], other: int) -> Answer:
    other, named = minimal_host_masks(named, other)
    return (other, tuple(sorted(named.items()))) if named else other


def masks_by_host(*answers: Answer) -> Iterator[tuple[str | None, tuple[int, ...]]]:
    """The masks of several answers, for each host or network that one of them names; None: for all others.

    That of a network holds where nothing narrower is named.
    """
    tables = [({}, each) if isinstance(each, int) else (dict(each[1]), each[0]) for each in answers]
    yield None, tuple(other for _, other in tables)
    for host in sorted({host for named, _ in tables for host in named}):
        yield host, tuple(mask_at(host, named, other) for named, other in tables)


@lru_cache(1 << 12)
def subtract(answer: Answer, other: Answer) -> Answer:
    """What the one allows and the other does not. Few pairs come again and again."""
    (_, (ours, theirs)), *named = masks_by_host(answer, other)
    return _by_host({host: mine & ~yours for host, (mine, yours) in named if host}, ours & ~theirs)


def intersect(answer: Answer, operation: AclOperation) -> Answer:
    """What is allowed of one operation."""
    bit = OPERATION_BITS[operation]
    if isinstance(answer, int):
        return answer & bit
    return _by_host({host: mask & bit for host, mask in answer[1]}, answer[0] & bit)


def operations_of(mask: int) -> list[AclOperation]:
    """The operations of a mask, in the order of their codes."""
    return [operation for bit, operation in enumerate(OPERATIONS) if mask >> bit & 1]


def is_client_host(host: str, *, networks: bool) -> bool:
    """Whether requests can: from an address as Java writes it, or from a network where hosts may be some."""
    if networks and network_of(host) is not None:
        return True
    try:
        return host_address(host) == host
    except ValueError:
        return False
