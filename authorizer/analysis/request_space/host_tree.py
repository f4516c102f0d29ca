"""Masks by host and network, in canonical form: as few named hosts and networks as possible.

The addresses of a family are the leaves of a binary tree, and networks are its inner nodes. The mask of a
node holds below it where no narrower node is named. Of all equal forms the one with the fewest names is
chosen; of several, the one that names the narrower networks. So two forms of the same masks become equal.

    10.0.0.0/25: r, 10.0.0.128/25: r      ->  10.0.0.0/24: r
    10.0.0.0/24: r, 10.0.0.7: -           ->  the same: without 10.0.0.7 are eight networks

An address with a scope is a separate host, in no network. IPv4 addresses written as IPv6 may have any mask:
no client has one, because java.net.InetAddress makes them IPv4.

    ::fffe:0:0/95: r                      ->  the same as ::fffe:0:0/96: r
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from authorizer.api.ip_address import EVERY_IPV4, EVERY_IPV6, Network, address_of, network_of

#: The only address in no network (authorizer.api.ip_address).
UNSPECIFIED: Final = "0.0.0.0"  # noqa: S104 - nothing listens here
_UNSPECIFIED_NETWORK: Final = Network(32, 32, 0)
#: ::ffff:0:0/96: no network for Kafka, but a part of wider ones.
MAPPED: Final = Network(128, 96, 0xFFFF)
#: Number of wider networks around named ones in which the tree is built node by node: after these, the best
#: masks of a node are those that hold around it.
_WIDER_NODES: Final = 2


@lru_cache(1 << 12)
def network_of_host(host: str) -> Network | None:
    """Return the network of a host, also of a single address; None for a text that is neither."""
    if "/" in host:
        return network_of(host)
    return _UNSPECIFIED_NETWORK if host == UNSPECIFIED else address_of(host)


def mask_at(host: str, named: Mapping[str, int], other: int) -> int:
    """Return the mask of a host, or of a network without narrower entries."""
    mask = named.get(host)
    if mask is not None or not named:
        return other if mask is None else mask
    own_network, narrowest = network_of_host(host), -1
    found = other
    for each, each_mask in named.items():
        if "/" in each and own_network is not None:
            network = network_of_host(each)
            if network is not None and network.length > narrowest and own_network.is_within(network):
                narrowest, found = network.length, each_mask
    return found


def outermost(named: Iterable[str]) -> list[str]:
    """Return the hosts and networks that are in no other one."""
    pairs = [(each, network_of_host(each)) for each in named]
    networks = [network for each, network in pairs if network is not None and "/" in each]
    return [
        each
        for each, inner in pairs
        if inner is None or not any(inner != outer and inner.is_within(outer) for outer in networks)
    ]


def minimal_host_masks(named: Mapping[str, int], other: int) -> tuple[int, dict[str, int]]:
    """Return the mask of the unnamed hosts, and the fewest named hosts and networks with equal answers."""
    if not any("/" in host for host in named):
        named = {host: mask for host, mask in named.items() if mask != other}
        if not _has_siblings(named):
            return other, named
    masks = {
        network: frozenset((mask,))
        for host, mask in named.items()
        if "%" not in host and (network := network_of_host(host))
    }
    any_mask = frozenset((other, *named.values()))
    roots = (
        _family_tree(EVERY_IPV4, masks, other, {}),
        _family_tree(EVERY_IPV6, masks, other, {MAPPED: any_mask}),
    )
    best = roots[0].best & roots[1].best or roots[0].best | roots[1].best
    default = other if other in best else min(best)
    found: dict[str, int] = {}
    for root in roots:
        _name(root, default, found)
    for host, mask in named.items():
        if "%" in host and mask_at(host, found, default) != mask:
            found[host] = mask
    return default, found


def _family_tree(
    every: Network,
    masks: Mapping[Network, frozenset[int]],
    other: int,
    free: Mapping[Network, frozenset[int]],
) -> _Node:
    """The tree of an address family; ``free``: networks that may have any of several masks."""
    inside = [each for each in masks.items() if each[0].bits == every.bits]
    return _tree(every, frozenset((other,)), [*inside, *free.items()] if inside else [])


def _has_siblings(addresses: Iterable[str]) -> bool:
    """Whether two of the addresses make up a network; else naming a network never needs fewer names."""
    networks = {network for host in addresses if "%" not in host and (network := network_of_host(host))}
    return any(network._replace(prefix=network.prefix ^ 1) in networks for network in networks)


class _Node(NamedTuple):
    """A network, and the best masks around it.

    Attributes:
        cost: the number of names in it, if the mask around it is one of ``best``; else one more.
        best: the masks around it with the fewest names in it.
        parts: its two parts; None if each of ``best`` is right everywhere in it.
    """

    network: Network
    cost: int
    best: frozenset[int]
    parts: tuple[_Node, _Node] | None


def _tree(network: Network, usual: frozenset[int], inside: list[tuple[Network, frozenset[int]]]) -> _Node:
    """The tree of a network; ``usual``: the masks of addresses in no network of ``inside``."""
    usual = next((masks for inner, masks in inside if inner == network), usual)
    below = [each for each in inside if each[0] != network]
    if not below:
        return _Node(network, 0, usual, None)
    around = _smallest([inner for inner, _ in below])
    if around.length > network.length + _WIDER_NODES:
        # All have many leading bits in common: the nodes without a name between are not created.
        left, right = _tree(around.wider(_WIDER_NODES), usual, below), _Node(network, 0, usual, None)
    else:
        left, right = (
            _tree(half, usual, [each for each in below if each[0].is_within(half)])
            for half in network.halves()
        )
    shared = left.best & right.best
    if shared and left.parts is None and right.parts is None:
        return _Node(network, 0, shared, None)
    best, more = (shared, 0) if shared else (left.best | right.best, 1)
    return _Node(network, left.cost + right.cost + more, best, (left, right))


def _smallest(networks: Sequence[Network]) -> Network:
    """The smallest network that contains all these networks of one family."""
    bits = networks[0].bits
    first, last = min(each.first for each in networks), max(each.end for each in networks) - 1
    length = bits - (first ^ last).bit_length()
    return Network(bits, length, first >> (bits - length))


def _name(node: _Node, around: int, found: dict[str, int]) -> None:
    """Add the needed names of a node to ``found``; ``around``: the mask around it."""
    if node.parts is None:
        if around not in node.best:
            found[str(node.network)] = min(node.best)
        return
    deeper = sum(part.cost + (around not in part.best) for part in node.parts)
    if around not in node.best and deeper > node.cost + 1:
        around = min(node.best)
        found[str(node.network)] = around
    for part in node.parts:
        _name(part, around, found)


class AddressMask(NamedTuple):
    """The effect of one ACL on the addresses of a network."""

    network: Network
    mask: int
    number: int


def covering_acls(network: Network, required_bits: int, parts: Sequence[AddressMask]) -> set[int] | None:
    """Return ACLs that together have all ``required_bits`` for each address of a network, or None.

    A single IPv6 address covers nothing: with a scope it is another host of the network.
    """
    chosen: set[int] = set()
    for part in parts:
        if part.mask & required_bits and network.is_within(part.network) and _covers_scopes(part.network):
            chosen.add(part.number)
            required_bits &= ~part.mask
    if not required_bits:
        return chosen
    narrower = [
        part
        for part in parts
        if part.mask & required_bits and part.network != network and part.network.is_within(network)
    ]
    # Parts with fewer addresses than the network cannot cover it.
    if sum(part.network.end - part.network.first for part in narrower) < network.end - network.first:
        return None
    for half in network.halves():
        found = covering_acls(half, required_bits, narrower)
        if found is None:
            return None
        chosen |= found
    return chosen


def _covers_scopes(network: Network) -> bool:
    return network.bits == EVERY_IPV4.bits or network.length < network.bits
