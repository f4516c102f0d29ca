"""DecidingAcls: the ACLs that decide the requests of a class.

A class has many names, hosts and operations. The ACL that decides its witness may not match other requests.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from authorizer.analysis.permissions.related_acls import related_to
from authorizer.analysis.request_space.host_answers import OPERATION_BITS
from authorizer.analysis.request_space.host_tree import network_of_host
from authorizer.engine.decisions.rules import allows
from authorizer.engine.index.masks import EVERYTHING, acl_mask, denied_operations
from authorizer.engine.index.pattern_keys import LITERAL_PATTERN
from records.acl import WILDCARD, ResourceType
from records.principal import WILDCARD_PRINCIPAL

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from authorizer.analysis.permissions.request_class import HostSet, NameSet, RequestClass
    from authorizer.analysis.request_space.name_space import Key
    from authorizer.engine.decisions.decision import Decision
    from records.columns.acl_table import AclTable
    from records.entries import AccessControlEntryRecord

#: Maximum number of ACLs of one class.
_MAXIMUM: Final = 20


class OtherAcls(NamedTuple):
    """The ACLs that decide other requests of a class than its witness.

    ``acls``: at most _MAXIMUM ACLs; equal ones under several ids once.
    """

    acls: list[AccessControlEntryRecord]
    is_complete: bool

    @property
    def count_text(self) -> str:
        """``3``; ``at least 20``."""
        return str(len(self.acls)) if self.is_complete else f"at least {len(self.acls)}"


class DecidingAcls:
    """The ACLs of a set that are related to some classes."""

    def __init__(self, table: AclTable, classes: Collection[RequestClass]) -> None:
        names_by_type: dict[ResourceType, set[Key]] = defaultdict(set)
        principals: set[str] = set()
        for each in classes:
            names_by_type[each.resource_type].update((names.text, names.is_name) for names in each.names)
            principals.add(each.principals.principal or WILDCARD_PRINCIPAL)
        self._acls: dict[tuple[int, str], dict[Key, list[AccessControlEntryRecord]]] = {}
        for acl in related_to(table, names_by_type, principals):
            record = acl.record
            by_key = self._acls.setdefault((record.resource_type, record.principal), {})
            by_key.setdefault(_key(record), []).append(record)
        self._keys = {group: sorted(by_key) for group, by_key in self._acls.items()}

    def other_acls(self, requests: RequestClass, decision: Decision, *, is_allowed: bool) -> OtherAcls:
        """Return the ACLs with this result, without the ACL of ``decision``, the decision on the witness."""
        operation_bits = sum(OPERATION_BITS[operation] for operation in requests.operations)
        first = None if decision.acl is None else decision.acl.record.content
        found: dict[object, AccessControlEntryRecord] = {}
        for record in self._matching(requests, operation_bits, is_allowed=is_allowed):
            if record.content != first:
                found.setdefault(record.content, record)
            if len(found) > _MAXIMUM:
                break
        acls = [*found.values()]
        return OtherAcls(acls[:_MAXIMUM], len(acls) <= _MAXIMUM)

    def _matching(
        self, requests: RequestClass, operation_bits: int, *, is_allowed: bool
    ) -> Iterator[AccessControlEntryRecord]:
        """The ACLs that match a request of the class; may repeat."""
        for principal in dict.fromkeys(
            (requests.principals.principal or WILDCARD_PRINCIPAL, WILDCARD_PRINCIPAL)
        ):
            key = int(requests.resource_type), principal
            if key not in self._acls:
                continue
            for names in requests.names:
                for pattern in _overlapping_keys(names, self._acls[key], self._keys[key]):
                    for record in self._acls[key][pattern]:
                        mask = acl_mask(record.operation, record.permission_type)
                        if (
                            allows(record) is is_allowed
                            and (mask & EVERYTHING if is_allowed else denied_operations(mask))
                            & operation_bits
                            and _overlaps_hosts(requests.hosts, record.host)
                        ):
                            yield record


def _key(record: AccessControlEntryRecord) -> Key:
    if record.pattern_type == LITERAL_PATTERN:
        return ("", False) if record.resource_name == WILDCARD else (record.resource_name, True)
    return record.resource_name, False


def _overlapping_keys(names: NameSet, acls: Collection[Key], keys: list[Key]) -> Iterator[Key]:
    """The patterns that share a name with a set of names."""
    text = names.text
    for length in range(len(text) + 1):
        if (text[:length], False) in acls:
            yield text[:length], False
    if names.is_name:
        if (text, True) in acls:
            yield text, True
        return
    excluded = set(names.excluded)
    for key in islice(keys, bisect_left(keys, (text, True)), None):
        name = key[0]
        if not name.startswith(text):
            return
        is_elsewhere = key in excluded or any(
            (name[:length], False) in excluded for length in range(len(name) + 1)
        )
        if not is_elsewhere:
            yield key


def _overlaps_hosts(hosts: HostSet, host: str) -> bool:
    """Whether an ACL's host is one of a class's hosts, or contains one."""
    if WILDCARD in (host, hosts.host):
        return True
    network = network_of_host(host)
    for each in hosts.excluded:
        other = network_of_host(each)
        if each == host or (network is not None and other is not None and network.is_within(other)):
            return False
    if hosts.host is None or hosts.host == host:
        return True
    covered = network_of_host(hosts.host)
    return (
        network is not None
        and covered is not None
        and (network.is_within(covered) or covered.is_within(network))
    )
