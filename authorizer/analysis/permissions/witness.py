"""Witness: one concrete request of a class, and its decision.

Example: ``User:alice Read TOPIC orders from 10.0.0.1``. A witness uses a name, an address and a principal
that can exist. It is decided as any other request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.request_space.host_tree import MAPPED, network_of_host
from authorizer.analysis.request_space.name_space import Key, NameSpace
from authorizer.api.authorizer_api import Action, RequestContext
from authorizer.api.ip_address import Network, address_text, network_of
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.decision import Decision
from authorizer.engine.decisions.state import AuthorizerSettings, AuthorizerState
from records.acl import AclOperation, PatternType, ResourcePattern, ResourceType
from records.columns.acl_table import AclTable
from records.principal import parse_kafka_principal
from snapshot.image import image_of

#: The networks of a host that no ACL names: those for documentation (RFC 5737, RFC 3849), then all.
UNNAMED_HOSTS: Final = tuple(
    map(network_of, ("192.0.2.0/24", "198.51.100.0/24", "2001:db8::/32", "0.0.0.0/0", "::/0"))
)
# No client has these: 192.0.2.0, a network's own address; and IPv4 addresses written as IPv6.
_UNUSABLE: Final = (Network(32, 32, 0xC0000200), MAPPED)
_UNNAMED_PRINCIPAL: Final = "User:somebody"


class Witness(NamedTuple):
    """One request of a class, without its operation."""

    principal: str
    host: str
    resource_type: ResourceType
    name: str

    def arguments(self, operation: AclOperation) -> tuple[RequestContext, Action]:
        return decision_arguments(self.principal, self.host, operation, self.resource_type, self.name)


def unnamed_principal(known: Collection[str]) -> str:
    """Return a principal that is none of the ``known`` ones."""
    name = _UNNAMED_PRINCIPAL
    while name in known:
        name += "1"
    return name


def free_address(networks: Iterable[Network | None], excluded: Iterable[str]) -> str | None:
    """Return the first address of the networks that is in no excluded host or network, or None."""
    networks_excluded = [
        network for each in excluded if "%" not in each and (network := network_of_host(each))
    ]
    ranges = sorted((each.bits, each.first, each.end) for each in (*networks_excluded, *_UNUSABLE))
    for network in networks:
        if network is None:
            continue
        address = network.first
        for bits, first, end in ranges:
            if bits == network.bits and first <= address < end:
                address = end
        if address < network.end:
            return address_text(network.bits, address)
    return None


def shortest_name(regions: Sequence[tuple[str, bool, tuple[Key, ...]]], space: NameSpace) -> str | None:
    """Return the shortest name in any of the regions; None if no name in them can exist.

    A region is a text, whether it is a single name, and what a prefix excludes.
    """
    found: list[str] = []
    for text, is_name, excluded in sorted(regions, key=lambda region: len(region[0])):
        if found and len(text) >= min(map(len, found)):
            break
        name = text if is_name else space.shortest_name(text, excluded)
        if name is not None:
            found.append(name)
    return min(found, key=len, default=None)


def decision_arguments(
    principal: str, host: str, operation: AclOperation, resource_type: ResourceType, name: str
) -> tuple[RequestContext, Action]:
    """Return the arguments of `decide` for a request; the principal is ``Type:name``."""
    pattern = ResourcePattern(resource_type, name, PatternType.LITERAL)
    return RequestContext(parse_kafka_principal(principal), host), Action(operation, pattern)


def state_for_witnesses(
    table: AclTable, witnesses: Iterable[Witness], settings: AuthorizerSettings
) -> AuthorizerState:
    """Return a state of the related ACLs only, which decides these witnesses as the full table does."""
    names: dict[ResourceType, set[Key]] = {}
    principals = set()
    for witness in witnesses:
        names.setdefault(witness.resource_type, set()).add((witness.name, True))
        principals.add(witness.principal)
    image = image_of(related_to(table, names, None if settings.allow_everyone else principals))
    return AuthorizerState(settings.index(image), settings)


def decide_witness(state: AuthorizerState, witness: Witness, operation: AclOperation) -> Decision:
    """Decide one operation of a witness."""
    return decide(state, *witness.arguments(operation))
