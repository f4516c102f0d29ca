"""Masks: what a set of ACLs allows and denies for every operation, in one int; and leaves: masks by host.

A mask is, for one name and one host, the union of what its ACLs allow and deny. ALL is spelled out and
implied operations are included, so that a decision is one ``&``:

    bit 29                         16  15                           14                0
        | deny, ALL .. TWO_PHASE_COMMIT | explicit | explicit | allow, ALL .. TWO_PHASE_COMMIT |

The operation with code c has its bits at c - 2 and c + 14. The two *explicit* bits are ALLOW DESCRIBE and
ALLOW DESCRIBE_CONFIGS without implication, for authorize-by-resource-type (KIP-679). CPython calculates with
ints of thirty bits without its code for big numbers.

An operation without a name (UNKNOWN, and codes of a newer Kafka) and ANY have no bits. They match only
themselves and ALL, no broker requests them, and `engine.decisions.reason` decides them ACL by ACL.

A leaf is the mask itself if every ACL has the host ``*``. Else it is HostMasks: a mask for each named host,
which includes that of ``*``, and one for all other hosts. If hosts may be networks (api.ip_address), masks of
networks and hosts include the ACLs of wider networks. A union that would name very many hosts is a tuple
of leaves. The garbage collector tracks none of these: there may be millions.

Source: StandardAuthorizerData.findResult; the rules are stated in `engine.decisions.rules`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from authorizer.api.ip_address import Network, address_of, network_of
from authorizer.engine.index import limits
from records.acl import (
    IMPLIES_DESCRIBE,
    IMPLIES_DESCRIBE_CONFIGS,
    WILDCARD,
    AclOperation,
    AclPermissionType,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy as np
    import numpy.typing as npt


_Mask = TypeVar("_Mask", int, "npt.NDArray[np.int64]")


class NetworkMasks(msgspec.Struct, gc=False):
    """The masks of networks, each with the masks of the networks around it included.

    Attributes:
        masks: by network.
        kinds: the pairs of address bits and prefix length of these networks, the longest first.
    """

    masks: dict[Network, int]
    kinds: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, masks: dict[Network, int]) -> NetworkMasks:
        return cls(masks, tuple(sorted({each[:2] for each in masks}, reverse=True)))

    def narrowest_mask(self, network: Network) -> int | None:
        """Return the mask of the narrowest network that contains a network or address; None if none does."""
        bits, length, prefix = network
        for kind in self.kinds:
            shift = length - kind[1]
            if shift >= 0 and kind[0] == bits:
                mask = self.masks.get((bits, kind[1], prefix >> shift))  # type: ignore[call-overload] # equals a Network
                if mask is not None:
                    return mask  # type: ignore[no-any-return]
        return None


class HostMasks(msgspec.Struct, gc=False):
    """The masks of each named host, of networks, and of all other hosts."""

    by_host: dict[str, int]
    other_hosts: int
    networks: NetworkMasks | None = None

    def copy(self) -> HostMasks:
        networks = self.networks
        if networks is not None:
            networks = NetworkMasks({**networks.masks}, networks.kinds)
        return HostMasks({**self.by_host}, self.other_hosts, networks)

    def host_mask(self, host: str) -> int:
        mask = self.by_host.get(host)
        if mask is not None:
            return mask
        address = address_of(host)
        return self.other_hosts if address is None else self.network_mask(address)

    def network_mask(self, network: Network) -> int:
        """Return the mask of the addresses of a network that are in no narrower network and not named."""
        mask = None if self.networks is None else self.networks.narrowest_mask(network)
        return self.other_hosts if mask is None else mask

    def add(self, network: Network, mask: int) -> None:
        masks = {} if self.networks is None else self.networks.masks
        if network not in masks:
            masks[network] = self.network_mask(network)
            self.networks = NetworkMasks.of(masks)
        for each in masks:
            if each.is_within(network):
                masks[each] |= mask
        for host in self.by_host:
            if (address := address_of(host)) is not None and address.is_within(network):
                self.by_host[host] |= mask


#: The ACLs of one pattern.
PatternLeaf = int | HostMasks
#: The union of the ACLs of several patterns.
Leaf = PatternLeaf | tuple[PatternLeaf, ...]

_DENY_SHIFT: Final = 16
# Masks from this value on have a deny bit.
_DENY_BASE: Final = 1 << _DENY_SHIFT
#: The two halves of a mask.
ALLOW_BITS: Final = _DENY_BASE - 1
DENY_BITS: Final = ~ALLOW_BITS

#: The operations that have bits, in the order of their bits.
OPERATIONS: Final = tuple(op for op in AclOperation if op >= AclOperation.ALL)
_EXPLICIT_BITS: Final = {
    AclOperation.DESCRIBE: 1 << 14,
    AclOperation.DESCRIBE_CONFIGS: 1 << 15,
}


def _allow_bit(operation: AclOperation) -> int:
    return 1 << (operation - AclOperation.ALL)


def _deny_bit(operation: AclOperation) -> int:
    return _allow_bit(operation) << _DENY_SHIFT


def _allow_mask(operation: AclOperation) -> int:
    if operation is AclOperation.ALL:
        covered = set(OPERATIONS)
    else:
        covered = {operation}
        if operation in IMPLIES_DESCRIBE:
            covered.add(AclOperation.DESCRIBE)
        if operation in IMPLIES_DESCRIBE_CONFIGS:
            covered.add(AclOperation.DESCRIBE_CONFIGS)
    explicit = (
        sum(_EXPLICIT_BITS.values()) if operation is AclOperation.ALL else _EXPLICIT_BITS.get(operation, 0)
    )
    return sum(map(_allow_bit, covered)) | explicit


def _deny_mask(operation: AclOperation) -> int:
    """The mask of a DENY for ``operation``: itself; ALL denies everything."""
    return sum(map(_deny_bit, OPERATIONS)) if operation is AclOperation.ALL else _deny_bit(operation)


#: By operation code, the mask of an ACL that allows it, or that does not; 0 for any other code.
ALLOW_MASKS: Final = {int(operation): _allow_mask(operation) for operation in OPERATIONS}
DENY_MASKS: Final = {int(operation): _deny_mask(operation) for operation in OPERATIONS}
_ALLOW_CODE: Final = int(AclPermissionType.ALLOW)

#: By operation code: the allow bit and the deny bit that a request reads; 0 for UNKNOWN and ANY.
REQUEST_BITS: Final = tuple(
    _allow_bit(operation) | _deny_bit(operation) if operation in OPERATIONS else 0
    for operation in AclOperation
)
#: REQUEST_BITS with the explicit bits in place of the implied ones (KIP-679).
EXPLICIT_REQUEST_BITS: Final = tuple(
    (_EXPLICIT_BITS.get(operation) or _allow_bit(operation)) | _deny_bit(operation)
    if operation in OPERATIONS
    else 0
    for operation in AclOperation
)


#: The allow bits of all operations.
EVERYTHING: Final = sum(map(_allow_bit, OPERATIONS))


@cache
def allowed_operations(mask: int) -> int:
    """Return the allow bits of the operations that a mask allows: a DENY beats every ALLOW."""
    return mask & ~(mask >> _DENY_SHIFT) & EVERYTHING


def denied_operations(mask: _Mask) -> _Mask:
    """Return the bits of the operations that a mask denies, at the positions of `allowed_operations`."""
    return mask >> _DENY_SHIFT


@cache
def decided_operations(mask: int) -> int:
    """Return the bits of the operations that a mask allows or denies, at the same positions."""
    return (mask | mask >> _DENY_SHIFT) & EVERYTHING


def denies(answer: int) -> bool:
    """Return whether a mask of request bits, with any bit set, denies: a DENY beats every ALLOW."""
    return answer >= _DENY_BASE


def acl_mask(operation: int, permission_type: int) -> int:
    """Return the mask of one ACL by its codes. Any permission but ALLOW denies, as in Kafka."""
    return (ALLOW_MASKS if permission_type == _ALLOW_CODE else DENY_MASKS).get(operation, 0)


def leaf_mask(leaf: Leaf, host: str) -> int:
    """Return the mask of a leaf for ``host``."""
    if isinstance(leaf, int):
        return leaf
    if isinstance(leaf, HostMasks):
        return leaf.by_host.get(host, leaf.other_hosts) if leaf.networks is None else leaf.host_mask(host)
    mask = 0
    for each in leaf:
        mask |= leaf_mask(each, host)
    return mask


def leaf_hosts(leaf: Leaf) -> Iterable[str]:
    """Return the hosts that a leaf names."""
    if isinstance(leaf, HostMasks):
        return leaf.by_host
    return () if isinstance(leaf, int) else {host for each in leaf for host in leaf_hosts(each)}


def leaf_networks(leaf: Leaf) -> Iterable[Network]:
    """Return the networks that a leaf names."""
    if isinstance(leaf, HostMasks):
        return () if leaf.networks is None else leaf.networks.masks
    return () if isinstance(leaf, int) else {network for each in leaf for network in leaf_networks(each)}


def network_mask(leaf: Leaf, network: Network) -> int:
    """Return `HostMasks.network_mask` of any leaf."""
    if isinstance(leaf, int):
        return leaf
    if isinstance(leaf, HostMasks):
        return leaf.network_mask(network)
    mask = 0
    for each in leaf:
        mask |= network_mask(each, network)
    return mask


def union_leaf(one: Leaf, other: Leaf) -> Leaf:
    """Return the union of two leaves."""
    if isinstance(one, int):
        if isinstance(other, int):
            mask = one | other
            return _SHARED.setdefault(mask, mask)
        one, other = other, one
    if other == 0:
        return one
    if isinstance(one, tuple) or isinstance(other, tuple):
        return (*_parts(one), *_parts(other))
    hosts = one.by_host.keys() if isinstance(other, int) else one.by_host.keys() | other.by_host.keys()
    has_no_networks = one.networks is None and (isinstance(other, int) or other.networks is None)
    networks = set() if has_no_networks else {*leaf_networks(one), *leaf_networks(other)}
    if len(hosts) + len(networks) > limits.UNION_HOSTS:
        return one, other
    other_hosts = one.other_hosts | (other if isinstance(other, int) else other.other_hosts)
    union = HostMasks({host: leaf_mask(one, host) | leaf_mask(other, host) for host in hosts}, other_hosts)
    if networks:
        union.networks = NetworkMasks.of(
            {each: network_mask(one, each) | network_mask(other, each) for each in networks}
        )
    return union


def _parts(leaf: Leaf) -> tuple[PatternLeaf, ...]:
    return leaf if isinstance(leaf, tuple) else (leaf,)


# Masks are few and leaves a million: one object for each mask stays in the processor's caches.
_SHARED: Final[dict[int, int]] = {}


def shared_masks(masks: list[int]) -> Iterator[int]:
    """Return `shared_mask` of each."""
    return map(_SHARED.setdefault, masks, masks)


def shared_mask(mask: int) -> int:
    """Return an equal int, the one object that all leaves share."""
    return _SHARED.setdefault(mask, mask)


def add_to_leaf(leaf: PatternLeaf | None, host: str | Network, mask: int) -> PatternLeaf:
    """Return the leaf with the mask of one more ACL; changes ``leaf`` in place if it is HostMasks."""
    if host == WILDCARD:
        if not isinstance(leaf, HostMasks):
            return shared_mask((leaf or 0) | mask)
        leaf.other_hosts |= mask
        for each in leaf.by_host:
            leaf.by_host[each] |= mask
        networks = {} if leaf.networks is None else leaf.networks.masks
        for network in networks:
            networks[network] |= mask
        return leaf
    if not isinstance(leaf, HostMasks):
        leaf = HostMasks({}, leaf or 0)
    if isinstance(host, str):
        leaf.by_host[host] = shared_mask(leaf_mask(leaf, host) | mask)
    else:
        leaf.add(host, mask)
    return leaf


def host_reader(*, networks: bool) -> Callable[[str], str | Network]:
    """Return a parser of an ACL's host; ``networks``: a host may be a network (from Kafka 4.4 on)."""
    return _host_or_network if networks else str


def _host_or_network(host: str) -> str | Network:
    return network_of(host) or host
