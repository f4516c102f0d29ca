"""Classes of requests with equal answers: principals, operations, names and hosts; their text form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any, NamedTuple

from authorizer.analysis.permissions.witness import (
    UNNAMED_HOSTS,
    Witness,
    free_address,
    shortest_name,
    unnamed_principal,
)
from authorizer.analysis.request_space.host_answers import Answer, masks_by_host, operations_of
from authorizer.analysis.request_space.host_tree import network_of_host, outermost
from authorizer.analysis.request_space.name_map import NameMap
from authorizer.analysis.request_space.name_space import NAME_SPACES, Key
from authorizer.api.acl_text import literal_text
from authorizer.api.ip_address import Network, NetworkRules, host_matches, network_of
from authorizer.engine.index.masks import OPERATIONS
from authorizer.engine.index.prefix_ranges import enclosing_prefixes
from records.acl import AclOperation, ResourceType


class NameSet(NamedTuple):
    """One name; or all names with a prefix, without the excluded names and prefixes."""

    text: str
    is_name: bool
    excluded: tuple[Key, ...] = ()

    def has(self, name: str) -> bool:
        """Return whether it contains the name of a resource."""
        if self.is_name:
            return name == self.text
        return name.startswith(self.text) and not any(
            name == text if is_name else name.startswith(text) for text, is_name in self.excluded
        )

    def to_json(self) -> dict[str, Any]:
        if self.is_name:
            return {"name": self.text}
        return {
            "prefix": self.text,
            "except": [{"name" if is_name else "prefix": text} for text, is_name in self.excluded],
        }


class HostSet(NamedTuple):
    """One host, the hosts of a network, or all hosts (None), without the excluded hosts and networks."""

    host: str | None
    excluded: tuple[str, ...] = ()

    def has(self, host: str, networks: NetworkRules) -> bool:
        """Return whether it contains a client's host; ``networks``: of the release that decides."""
        return host_matches(self.host or "*", host, networks=networks.allow) and not any(
            host_matches(each, host, networks=networks.deny) for each in self.excluded
        )

    def example(self) -> str | None:
        """Return one of the hosts; None if there is none."""
        return self._first(UNNAMED_HOSTS if self.host is None else (network_of_host(self.host),))

    def example_in(self, network: IPv4Network | IPv6Network) -> str | None:
        """Return one of the hosts in the network; None if there is none."""
        requested, covered = (
            network_of(str(network)),
            None if self.host is None else network_of_host(self.host),
        )
        if covered is None:
            return self._first((requested,))
        if requested is None or not (covered.is_within(requested) or requested.is_within(covered)):
            return None
        return self._first((max(covered, requested, key=lambda each: each.length),))

    def _first(self, networks: Iterable[Network | None]) -> str | None:
        if self.host is not None and "/" not in self.host:
            return self.host
        return free_address(networks, self.excluded)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON; ``*`` means every host."""
        excluded = {"except": list(self.excluded)} if self.host is None or self.excluded else {}
        return {"host": self.host or "*"} | excluded


class PrincipalSet(NamedTuple):
    """One principal, or all principals without the excluded ones.

    Attributes:
        principal: ``Type:name``; None for all that are not in ``excluded``.
        excluded: principals with ACLs that change an answer; their classes are listed separately.
        example: one of the principals, ``Type:name``.
    """

    principal: str | None
    excluded: tuple[str, ...]
    example: str

    @classmethod
    def of(cls, principal: str) -> PrincipalSet:
        return cls(principal, (), principal)

    @classmethod
    def all_but(cls, excluded: Iterable[str], known: Collection[str]) -> PrincipalSet:
        """Return all principals but ``excluded``; the example is none of the ``known`` ones."""
        return cls(None, tuple(excluded), unnamed_principal(known))


class RequestClass(NamedTuple):
    """All combinations of these principals, operations, names and hosts, and one of them as the witness."""

    principals: PrincipalSet
    resource_type: ResourceType
    operations: tuple[AclOperation, ...]
    names: tuple[NameSet, ...]
    hosts: HostSet
    witness: Witness

    def to_json(self, operation: AclOperation) -> dict[str, Any]:
        witness, principals = self.witness, self.principals
        return {
            "witness": {
                "principal": witness.principal,
                "host": witness.host,
                "operation": operation.name,
                "resourceType": witness.resource_type.name,
                "resourceName": witness.name,
            },
            "principal": "*" if principals.principal is None else principals.principal,
            "principalsExcept": list(principals.excluded),
            "resourceType": self.resource_type.name,
            "operation": operation.name,
            "names": [names.to_json() for names in self.names],
            "hosts": self.hosts.to_json(),
        }


def request_classes(
    allowed: NameMap[Answer], principals: PrincipalSet, resource_type: ResourceType
) -> Iterator[RequestClass]:
    """Yield the allowed requests; names with the same operations and hosts are one class.

    Classes without a possible name or host are omitted.
    """
    names_by_answer: dict[tuple[int, HostSet], list[NameSet]] = {}
    for names, answer in _name_sets(allowed):
        (_, (other_mask,)), *named = masks_by_host(answer)
        keys = [host for host, _ in named if host is not None]
        for hosts, mask in [
            (_host_set(None, keys), other_mask),
            *((_host_set(host, keys), mask) for host, (mask,) in named),
        ]:
            if mask:
                names_by_answer.setdefault((mask, hosts), []).append(names)
    for (mask, hosts), found in names_by_answer.items():
        name, host = shortest_name(found, NAME_SPACES[resource_type]), hosts.example()
        if name is not None and host is not None:
            witness = Witness(principals.example, host, resource_type, name)
            operations = tuple(operations_of(mask))
            yield RequestClass(principals, resource_type, operations, tuple(found), hosts, witness)


def _host_set(host: str | None, keys: Sequence[str]) -> HostSet:
    """The hosts with the answer of one host or network (None: of all others), without narrower keys."""
    network = None if host is None else network_of_host(host)
    if network is None:
        return HostSet(host, () if host is not None else tuple(outermost(keys)))
    if "/" not in str(host):
        return HostSet(host)
    narrower = [
        key for key in keys if key != host and (inner := network_of_host(key)) and inner.is_within(network)
    ]
    return HostSet(host, tuple(outermost(narrower)))


def _name_sets(answers: NameMap[Answer]) -> Iterator[tuple[NameSet, Answer]]:
    """Each prefix and name of the map, a prefix without the keys directly below it."""
    entries = (("", False, answers.default), *answers.entries)
    below: list[list[Key]] = [[] for _ in entries]
    for (text, is_name, _), enclosing in zip(entries[1:], enclosing_prefixes(entries)[1:], strict=True):
        below[enclosing].append((text, is_name))
    for (text, is_name, answer), excluded in zip(entries, below, strict=True):
        yield NameSet(text, is_name, tuple(excluded)), answer


def describe_class(requests: RequestClass) -> str:
    """``Read, Describe on TOPIC orders, pay* from any host but 10.0.0.1``."""
    kind, operations = requests.resource_type.name, describe_operations(requests)
    return f"{operations} on {kind} {describe_names(requests)} from {describe_hosts(requests)}"


def describe_witness(requests: RequestClass) -> str:
    """``User:alice Read TOPIC orders from 10.0.0.1``."""
    witness, operation = requests.witness, requests.operations[0].title
    name = witness.name or "(the empty name)"
    return f"{witness.principal} {operation} {witness.resource_type.name} {name} from {witness.host}"


def describe_principal(requests: RequestClass) -> str:
    """``User:alice``; ``every principal but User:alice, User:bob``."""
    principal, excluded, _ = requests.principals
    return _but("every principal", excluded) if principal is None else principal


def describe_operations(requests: RequestClass) -> str:
    """``Read, Describe``."""
    return describe_operation_set(requests.operations)


def describe_operation_set(operations: Collection[AclOperation]) -> str:
    """``Read, Describe``; ``every operation``; ``every operation but Read``.

    ALL may be allowed and Read denied: a DENY of Read does not deny ALL, which no broker requests.
    """
    missing = [operation.title for operation in OPERATIONS if operation not in operations]
    if AclOperation.ALL not in operations or len(operations) == 1:
        return ", ".join(operation.title for operation in operations)
    return f"every operation but {', '.join(missing)}" if missing else "every operation"


def describe_names(requests: RequestClass) -> str:
    """``orders, pay* (but pay-x)``; a prefix ends with a star."""
    return ", ".join(map(_names, requests.names))


def describe_hosts(requests: RequestClass) -> str:
    """``10.0.0.1``; ``any host but 10.0.0.1``; ``10.0.0.0/8 but 10.1.0.0/16``."""
    host, excluded = requests.hosts
    return _but(host or "any host", excluded)


def _names(names: NameSet) -> str:
    if names.is_name:
        return literal_text(names.text)
    excluded = [literal_text(text) if is_name else f"{text}*" for text, is_name in names.excluded]
    return f"{names.text}*" + (f" (but {', '.join(excluded)})" if excluded else "")


def _but(text: str, excluded: tuple[str, ...]) -> str:
    return f"{text} but {', '.join(excluded)}" if excluded else text
