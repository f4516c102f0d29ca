"""Whether several hosts and networks together have every address of a network. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from authorizer.api.ip_network import EVERY_IPV4

if TYPE_CHECKING:
    from collections.abc import Sequence

    from authorizer.api.ip_network import Network


class Part(NamedTuple):
    """What one ACL says to some addresses.

    Attributes:
        network: these addresses.
        mask: of operations.
        number: of the ACL.
    """

    network: Network
    mask: int
    number: int


def cover(network: Network, wanted: int, parts: Sequence[Part]) -> set[int] | None:
    """The ACLs that together say all of ``wanted`` to each address of a network; None: they do not.

    An IPv6 address by itself covers nothing: a client may have it with a scope, which is another host, and
    which a network has.
    """
    chosen: set[int] = set()
    for part in parts:
        if part.mask & wanted and network.within(part.network) and _covers_scopes(part.network):
            chosen.add(part.number)
            wanted &= ~part.mask
    if not wanted:
        return chosen
    narrower = [
        part
        for part in parts
        if part.mask & wanted and part.network != network and part.network.within(network)
    ]
    # Each address takes a part that has it: a network with fewer addresses in its parts is not worth halving.
    if sum(part.network.end - part.network.first for part in narrower) < network.end - network.first:
        return None
    for half in network.halves():
        found = cover(half, wanted, narrower)
        if found is None:
            return None
        chosen |= found
    return chosen


def _covers_scopes(network: Network) -> bool:
    return network.bits == EVERY_IPV4.bits or network.length < network.bits
