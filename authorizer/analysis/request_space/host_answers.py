"""Answer: the operations that a leaf allows to each host, in canonical form.

An answer is the mask of the allowed operations; the operation with code c has bit c - 2. If named hosts or
networks have other masks, it is the mask of the unnamed hosts, with those of the named ones. The narrowest
named network decides, and as few as possible are named (`host_tree`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from authorizer.analysis.request_space.host_tree import UNSPECIFIED, mask_at, minimal_host_masks
from authorizer.api.ip_address import host_address, network_of
from authorizer.engine.index.masks import (
    OPERATIONS,
    Leaf,
    allowed_operations,
    leaf_hosts,
    leaf_mask,
    leaf_networks,
    network_mask,
)
from records.acl import AclOperation

#: The mask of the hosts that are not named, and that of each host or network that is, in order.
HostAnswers = tuple[int, tuple[tuple[str, int], ...]]
Answer = int | HostAnswers

#: No operation is allowed.
NO_OPERATIONS: Final = 0
#: The mask of each operation of an ACL.
OPERATION_BITS: Final = {operation: 1 << bit for bit, operation in enumerate(OPERATIONS)}
# No leaf names this host, so that its mask is that of all unnamed hosts.
_NO_HOST: Final = ""


def answer_of(leaf: Leaf) -> Answer:
    """Return the answer for names whose covering ACLs have this leaf together."""
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
    """Yield the masks of several answers for each host or network that one names; None: all others.

    The mask of a network is for addresses without a narrower entry.
    """
    tables = [({}, each) if isinstance(each, int) else (dict(each[1]), each[0]) for each in answers]
    yield None, tuple(other for _, other in tables)
    for host in sorted({host for named, _ in tables for host in named}):
        yield host, tuple(mask_at(host, named, other) for named, other in tables)


@lru_cache(1 << 12)
def subtract(answer: Answer, other: Answer) -> Answer:
    """Return what the first answer allows and the second does not. Cached, as few pairs are frequent."""
    (_, (mask, other_mask)), *named = masks_by_host(answer, other)
    return _by_host({host: one & ~two for host, (one, two) in named if host}, mask & ~other_mask)


@lru_cache(1 << 12)
def unite(answer: Answer, other: Answer) -> Answer:
    """Return what one of two answers allows."""
    (_, (mask, other_mask)), *named = masks_by_host(answer, other)
    return _by_host({host: one | two for host, (one, two) in named if host}, mask | other_mask)


def mask_from(answer: Answer, host: str) -> int:
    """Return the operations that an answer allows to a host."""
    return answer if isinstance(answer, int) else mask_at(host, dict(answer[1]), answer[0])


def intersect(answer: Answer, operation: AclOperation) -> Answer:
    """Return the answer for one operation only."""
    bit = OPERATION_BITS[operation]
    if isinstance(answer, int):
        return answer & bit
    return _by_host({host: mask & bit for host, mask in answer[1]}, answer[0] & bit)


def operations_of(mask: int) -> list[AclOperation]:
    """Return the operations of a mask in the order of their codes."""
    return [operation for bit, operation in enumerate(OPERATIONS) if mask >> bit & 1]


def is_client_host(host: str, *, networks: bool) -> bool:
    """Return whether a client can have the host: an address as Java writes it, or a network."""
    if networks and network_of(host) is not None:
        return True
    try:
        return host_address(host) == host
    except ValueError:
        return False
