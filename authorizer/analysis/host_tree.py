"""What is answered to hosts, by host and by network, said in as few of them as it takes.

Addresses of a kind are the leaves of a tree of bits, networks its inner nodes, and what is named at a node
holds below it where nothing narrower is named. Of all ways to say the same the one is taken that names
fewest; of several of those the one that names the narrower ones. So two ways to say the same become equal.

    10.0.0.0/25: r, 10.0.0.128/25: r      ->  10.0.0.0/24: r
    10.0.0.0/24: r, 10.0.0.7: -           ->  the same: without 10.0.0.7 are eight networks

An address with a scope is a host of its own, which is named by itself only. What is said to IPv4 addresses
written as IPv6 is left open: no client has one, for java.net.InetAddress makes them IPv4.

    ::fffe:0:0/95: r                      ->  the same as ::fffe:0:0/96: r
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.api.ip_network import EVERY_IPV4, EVERY_IPV6, Network, address_of, network_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: The one address that no network has (authorizer.api.ip_network).
UNSPECIFIED: Final = "0.0.0.0"  # noqa: S104 - nothing listens here
_UNSPECIFIED_PLACE: Final = Network(32, 32, 0)
#: ::ffff:0:0/96, which Kafka does not take for a network, but wider ones have it.
MAPPED: Final = Network(128, 96, 0xFFFF)
#: In how many networks around what is named it is settled what is best there: what holds around it.
_SETTLING: Final = 2


@lru_cache(1 << 12)
def network_of_host(host: str) -> Network | None:
    """Return the network of a host, also of a single address; None for a text that is neither."""
    if "/" in host:
        return network_of(host)
    return _UNSPECIFIED_PLACE if host == UNSPECIFIED else address_of(host)


def mask_at(host: str, named: Mapping[str, int], other: int) -> int:
    """Return the mask of a host, or of a network without narrower entries."""
    mask = named.get(host)
    if mask is not None or not named:
        return other if mask is None else mask
    place, narrowest = network_of_host(host), -1
    found = other
    for each, said in named.items():
        if "/" in each and place is not None:
            network = network_of_host(each)
            if network is not None and network.length > narrowest and place.is_within(network):
                narrowest, found = network.length, said
    return found


def outermost(named: Iterable[str]) -> list[str]:
    """Return those that are in no other one."""
    places = [(each, network_of_host(each)) for each in named]
    networks = [place for each, place in places if place is not None and "/" in each]
    return [
        each
        for each, place in places
        if place is None or not any(place != around and place.is_within(around) for around in networks)
    ]


def minimal_host_masks(named: Mapping[str, int], other: int) -> tuple[int, dict[str, int]]:
    """The mask of the hosts that are not named, and what has to be named for all to be answered the same."""
    if not any("/" in host for host in named):
        named = {host: mask for host, mask in named.items() if mask != other}
        if not _make_networks(named):
            return other, named
    places = {
        place: frozenset((mask,))
        for host, mask in named.items()
        if "%" not in host and (place := network_of_host(host))
    }
    anything = frozenset((other, *named.values()))
    roots = []
    for every, left_open in ((EVERY_IPV4, []), (EVERY_IPV6, [(MAPPED, anything)])):
        inside = [each for each in places.items() if each[0].bits == every.bits]
        roots.append(_tree(every, frozenset((other,)), inside + left_open if inside else []))
    best = roots[0].best & roots[1].best or roots[0].best | roots[1].best
    default = other if other in best else min(best)
    found: dict[str, int] = {}
    for root in roots:
        _name(root, default, found)
    for host, mask in named.items():
        if "%" in host and mask_at(host, found, default) != mask:
            found[host] = mask
    return default, found


def _make_networks(addresses: Iterable[str]) -> bool:
    """Whether two of them make one up: without such two, naming no network is shorter than naming them."""
    places = {place for host in addresses if "%" not in host and (place := network_of_host(host))}
    return any(place._replace(prefix=place.prefix ^ 1) in places for place in places)


class _Node(NamedTuple):
    """A network, and what is answered in it.

    Attributes:
        cost: how many have to be named in it, if what holds around it is one of ``best``; else one more.
        parts: None if each of ``best`` would be right everywhere in it.
    """

    network: Network
    cost: int
    best: frozenset[int]
    parts: tuple[_Node, _Node] | None


def _tree(network: Network, own: frozenset[int], inside: list[tuple[Network, frozenset[int]]]) -> _Node:
    """``own``: what may be answered where nothing ``inside`` is about."""
    own = next((said for place, said in inside if place == network), own)
    below = [each for each in inside if each[0] != network]
    if not below:
        return _Node(network, 0, own, None)
    around = _smallest([place for place, _ in below])
    if around.length > network.length + _SETTLING:
        # Many bits are in all of them. Nothing is named between, so the networks between are not made.
        inner = _tree(around.wider(_SETTLING), own, below)
        left, right = inner, _Node(network, 0, own, None)
    else:
        left, right = (
            _tree(half, own, [each for each in below if each[0].is_within(half)]) for half in network.halves()
        )
    shared = left.best & right.best
    if shared and left.parts is None and right.parts is None:
        return _Node(network, 0, shared, None)
    best, more = (shared, 0) if shared else (left.best | right.best, 1)
    return _Node(network, left.cost + right.cost + more, best, (left, right))


def _smallest(places: Sequence[Network]) -> Network:
    """The smallest network that has all of them, which are of one kind; there is one at least."""
    bits = places[0].bits
    first, last = min(each.first for each in places), max(each.end for each in places) - 1
    length = bits - (first ^ last).bit_length()
    return Network(bits, length, first >> (bits - length))


def _name(node: _Node, around: int, found: dict[str, int]) -> None:
    """Name what has to be, where ``around`` holds otherwise."""
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
    """The effect of one ACL on some addresses.

    Attributes:
        network: these addresses.
        mask: of operations.
        number: of the ACL.
    """

    network: Network
    mask: int
    number: int


def covering_acls(network: Network, wanted: int, parts: Sequence[AddressMask]) -> set[int] | None:
    """Return ACLs that together have all ``wanted`` bits for each address of a network; None if none do.

    A single IPv6 address covers nothing: a client may have it with a scope, which is another host that a
    network contains.
    """
    chosen: set[int] = set()
    for part in parts:
        if part.mask & wanted and network.is_within(part.network) and _covers_scopes(part.network):
            chosen.add(part.number)
            wanted &= ~part.mask
    if not wanted:
        return chosen
    narrower = [
        part
        for part in parts
        if part.mask & wanted and part.network != network and part.network.is_within(network)
    ]
    # Each address takes a part that has it: a network with fewer addresses in its parts is not worth halving.
    if sum(part.network.end - part.network.first for part in narrower) < network.end - network.first:
        return None
    for half in network.halves():
        found = covering_acls(half, wanted, narrower)
        if found is None:
            return None
        chosen |= found
    return chosen


def _covers_scopes(network: Network) -> bool:
    return network.bits == EVERY_IPV4.bits or network.length < network.bits
