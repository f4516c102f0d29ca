"""Other hosts: hosts from which the same request has the other result.

Only hosts that ACLs name can differ. One address that is in no narrower network decides for each named host
and network. Another address decides for all hosts that no ACL names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from authorizer.api.authorizer_api import RequestContext
from authorizer.api.http.answers import decisions as answers
from authorizer.api.ip_address import (
    EVERY_IPV4,
    EVERY_IPV6,
    Network,
    address_of,
    address_text,
    host_address,
    network_of,
)
from authorizer.engine.decisions.authorize import decide
from authorizer.engine.decisions.rules import acl_principals, covers_operation
from records.acl import WILDCARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from authorizer.api.authorizer_api import Action, AuthorizableRequestContext, AuthorizationResult
    from authorizer.engine.decisions.state import AuthorizerState

#: Maximum number of hosts in a list.
LISTED_MAXIMUM: Final = 20


@dataclass(frozen=True, slots=True)
class OtherHosts:
    """Hosts with the other result.

    Attributes:
        result: ALLOWED or DENIED.
        hosts: addresses and networks; or ``*``: all hosts except those of ``but``.
        but: if ``hosts`` is ``*``, the named hosts with the result of the request itself.
    """

    result: answers.Result
    hosts: tuple[str, ...]
    but: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as the second half of a sentence."""
        if self.hosts == (WILDCARD,):
            but = f" but {_listed(self.but)}" if self.but else ""
            return f"from every other host{but} it is {self.result}"
        return f"from {_listed(self.hosts)} it is {self.result}"

    def answer(self) -> answers.OtherHosts:
        """Return the HTTP answer, with the first hosts."""
        hosts, but = (list(each[:LISTED_MAXIMUM]) for each in (self.hosts, self.but))
        return answers.OtherHosts(self.result, hosts, len(self.hosts), but, len(self.but))

    @classmethod
    def from_answer(cls, answer: answers.OtherHosts) -> Self:
        return cls(answer.result, tuple(answer.hosts), tuple(answer.but))


def other_hosts(
    state: AuthorizerState,
    context: AuthorizableRequestContext,
    action: Action,
    result: AuthorizationResult,
) -> OtherHosts | None:
    """Return the hosts with another result than the request; None if there are none. Raises as ``decide``."""

    def has_other_result(address: str) -> bool:
        other_context = RequestContext(context.principal, address)
        return decide(state, other_context, action).result is not result

    named = sorted(_named_hosts(state, context, action))
    has_networks = any(state.index.rows.networks)
    ranges = {host: _range(host, has_networks=has_networks) for host in named}
    known = sorted({each for each in ranges.values() if each is not None}, key=_order)
    # By host: one of its addresses that is in no narrower network.
    addresses = {host: _address(host, ranges[host], known) for host in named}
    unnamed = next(filter(None, (_free_address(every, known) for every in (EVERY_IPV4, EVERY_IPV6))), None)
    opposite_hosts = [
        host for host in named if (address := addresses[host]) is not None and has_other_result(address)
    ]
    opposite: answers.Result = "DENIED" if result.value == "ALLOWED" else "ALLOWED"
    if unnamed is not None and has_other_result(unnamed):
        same = (host for host in named if addresses[host] is not None and host not in opposite_hosts)
        but = tuple(each for each in same if each != context.client_address)
        return OtherHosts(opposite, (WILDCARD,), but)
    return OtherHosts(opposite, tuple(opposite_hosts), ()) if opposite_hosts else None


def _named_hosts(state: AuthorizerState, context: AuthorizableRequestContext, action: Action) -> set[str]:
    """The hosts of the ACLs that match the request in all other fields."""
    index, pattern = state.index, action.resource_pattern
    resources, columns = index.resources, index.rows.columns
    found: set[str] = set()
    for key in resources.covering_keys(pattern.resource_type, pattern.name):
        for principal in acl_principals(context.principal):
            rows = resources.rows_at(key, principal)
            acls = [*columns.acls(rows), *resources.added_at(key, principal)]
            found.update(acl.record.host for acl in acls if covers_operation(acl.record, action.operation))
    return found - {WILDCARD}


def _range(host: str, *, has_networks: bool) -> Network | None:
    """The network of a host; None for a text that is neither network nor address."""
    return (network_of(host) if has_networks else None) if "/" in host else address_of(host)


def _order(network: Network) -> tuple[int, int, int]:
    return network.bits, network.first, network.length


def _address(host: str, network: Network | None, known: Sequence[Network]) -> str | None:
    """One address of a host that is in no narrower network; None if there is none."""
    if "/" in host:
        return None if network is None else _free_address(network, known)
    try:
        return host if host_address(host) == host else None
    except ValueError:
        return None  # a name, which no client has


def _free_address(network: Network, known: Iterable[Network]) -> str | None:
    """The first address of a network that is in no known narrower network."""
    number = max(network.first, 1) if network.bits == EVERY_IPV4.bits else network.first
    for inner in _inside(network, known):
        if inner.first > number:
            break
        number = max(number, inner.end)
    return address_text(network.bits, number) if number < network.end else None


def _inside(network: Network, known: Iterable[Network]) -> Iterator[Network]:
    return (each for each in known if each != network and each.is_within(network))


def _listed(hosts: Sequence[str]) -> str:
    first, more = ", ".join(hosts[:LISTED_MAXIMUM]), len(hosts) - LISTED_MAXIMUM
    return f"{first} and {more} more" if more > 0 else first
