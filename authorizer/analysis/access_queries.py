"""Classes of questions: one principal or everybody, one resource type, and names, hosts and operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.analysis.host_answers import Answer, by_host, operations_of
from authorizer.analysis.host_tree import MAPPED, outermost, place_of
from authorizer.analysis.name_space import NAME_SPACES
from authorizer.api.ip_network import Network, address_text, network_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from ipaddress import IPv4Network, IPv6Network

    from authorizer.analysis.name_map import NameMap
    from authorizer.analysis.name_space import Key, NameSpace
    from records.acl import AclOperation, ResourceType

#: Of a client whose host no ACL names: addresses for documentation (RFC 5737, RFC 3849), else any.
_OTHER_HOSTS: Final = tuple(
    map(network_of, ("192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32", "0.0.0.0/0", "::/0"))
)
#: What is no client's: 192.0.2.0, a network's own address; and IPv4 addresses written as IPv6.
_NOBODYS: Final = (Network(32, 32, 0xC0000200), MAPPED)
_OTHER_PRINCIPAL: Final = "User:somebody"


class Names(NamedTuple):
    """A name; or all names that begin with a prefix, but for some."""

    text: str
    is_name: bool
    but: tuple[Key, ...] = ()


class Hosts(NamedTuple):
    """One host, or those of a network; or all hosts (None); but for some, or for networks."""

    host: str | None
    but: tuple[str, ...] = ()

    def any(self) -> str | None:
        """One of them; None if there is none."""
        if self.host is not None:
            return self._free((place_of(self.host),))
        return self._free(_OTHER_HOSTS)

    def any_in(self, network: IPv4Network | IPv6Network) -> str | None:
        """One of them that the network has; None if there is none."""
        wanted, place = network_of(str(network)), None if self.host is None else place_of(self.host)
        if place is None:
            return self._free((wanted,))
        if wanted is None or not (place.within(wanted) or wanted.within(place)):
            return None
        return self._free((max(place, wanted, key=lambda each: each.length),))

    def _free(self, among: Iterable[Network | None]) -> str | None:
        """The first address of any of the networks that is none of the others; the one host, as it is."""
        if self.host is not None and "/" not in self.host:
            return self.host
        others = [place for each in self.but if "%" not in each and (place := place_of(each))]
        taken = sorted((each.bits, each.first, each.end) for each in (*others, *_NOBODYS))
        for network in among:
            if network is None:
                continue
            at = network.first
            for bits, first, end in taken:
                if bits == network.bits and first <= at < end:
                    at = end
            if at < network.end:
                return address_text(network.bits, at)
        return None


class Witness(NamedTuple):
    """One question of a class, but for its operation."""

    principal: str
    host: str
    resource_type: ResourceType
    name: str


class Asker(NamedTuple):
    """Who asks.

    Attributes:
        principal: as ``Type:name``; None for everybody who is not in ``but``.
        but: principals with ACLs of their own that change something in the names: their classes are listed
            by themselves, if they have any.
        name: of one that is meant, as ``Type:name``.
    """

    principal: str | None
    but: tuple[str, ...]
    name: str

    @classmethod
    def everybody(cls, but: Iterable[str], known: Collection[str]) -> Asker:
        """All others; ``known`` are principals that this name must not be."""
        name = _OTHER_PRINCIPAL
        while name in known:
            name += "1"
        return cls(None, tuple(but), name)

    @classmethod
    def of(cls, principal: str) -> Asker:
        return cls(principal, (), principal)


class Questions(NamedTuple):
    """A class: all combinations of who asks, operations, names and hosts."""

    asker: Asker
    resource_type: ResourceType
    operations: tuple[AclOperation, ...]
    names: tuple[Names, ...]
    hosts: Hosts
    witness: Witness


def questions_of(allowed: NameMap[Answer], asker: Asker, resource_type: ResourceType) -> Iterator[Questions]:
    """The questions that are allowed, in classes: names with the same operations and hosts are one class.

    Names that cannot exist are in none.
    """
    alike: dict[tuple[int, Hosts], list[Names]] = {}
    for names, answer in _regions(allowed):
        (_, (others,)), *named = by_host(answer)
        keys = [host for host, _ in named if host is not None]
        for hosts, mask in [
            (_hosts(None, keys), others),
            *((_hosts(host, keys), mask) for host, (mask,) in named),
        ]:
            if mask:
                alike.setdefault((mask, hosts), []).append(names)
    for (mask, hosts), found in alike.items():
        name, host = _shortest(found, NAME_SPACES[resource_type]), hosts.any()
        if name is not None and host is not None:
            witness = Witness(asker.name, host, resource_type, name)
            operations = tuple(operations_of(mask))
            yield Questions(asker, resource_type, operations, tuple(found), hosts, witness)


def _hosts(host: str | None, keys: Sequence[str]) -> Hosts:
    """Those that are answered as one host or network, or as all others, is: without what is narrower."""
    place = None if host is None else place_of(host)
    if place is None:
        return Hosts(host, () if host is not None else tuple(outermost(keys)))
    if "/" not in str(host):
        return Hosts(host)
    inside = [each for each in keys if each != host and (own := place_of(each)) and own.within(place)]
    return Hosts(host, tuple(outermost(inside)))


def _regions(answers: NameMap[Answer]) -> Iterator[tuple[Names, Answer]]:
    """Each place with what stands directly within it."""
    inside: list[list[Key]] = [[] for _ in range(len(answers.places) + 1)]
    around = [("", 0)]
    for at, (name, is_name, _) in enumerate(answers.places, 1):
        while not name.startswith(around[-1][0]):
            around.pop()
        inside[around[-1][1]].append((name, is_name))
        if not is_name:
            around.append((name, at))
    yield Names("", False, tuple(inside[0])), answers.default
    for (name, is_name, answer), within in zip(answers.places, inside[1:], strict=True):
        yield Names(name, is_name, tuple(within)), answer


def _shortest(regions: list[Names], space: NameSpace) -> str | None:
    """The shortest name of any of the regions; None if none can exist."""
    found: list[str] = []
    for text, is_name, but in sorted(regions, key=lambda each: len(each.text)):
        if found and len(text) >= min(map(len, found)):
            break
        free = text if is_name else space.shortest(text, but)
        if free is not None:
            found.append(free)
    return min(found, key=len, default=None)
