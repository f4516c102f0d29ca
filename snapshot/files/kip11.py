"""ACLs in KIP-11's JSON, grouped by resource.

KIP-11 has one document for each resource, ``{"version": 1, "acls": [...]}``, whose entries say "principal P
is ALLOWED or DENIED operations O1, O2 from hosts H1, H2". Here one document holds all resources with names:

    {"version": 1,
     "resources": [
       {"resourceType": "TOPIC", "resourceName": "orders", "patternType": "LITERAL",
        "acls": [
          {"principal": "User:alice", "permissionType": "ALLOW",
           "operations": ["READ", "DESCRIBE"], "hosts": ["10.0.0.1", "10.0.0.2"]}]}]}

Rules: an entry means each of its operations from each of its hosts, so hosts share an entry only if they have
all operations in common. Ids, and with them equal content under two ids (I8), are lost. Codes without a name
are written as numbers. Equal sets of ACLs give equal documents.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType, code_to_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from records.entries import AccessControlEntryRecord


def kip11_resources(records: Iterable[AccessControlEntryRecord]) -> Iterator[dict[str, Any]]:
    """Yield the document's resources, sorted; the ACLs may come in any order."""
    for resource, acls in groupby(sorted(records, key=_by_resource), key=_by_resource):
        resource_type, name, pattern_type = resource
        yield {
            "resourceType": code_to_name(ResourceType, resource_type),
            "resourceName": name,
            "patternType": code_to_name(PatternType, pattern_type),
            "acls": _entries(acls),
        }


def _by_resource(record: AccessControlEntryRecord) -> tuple[int, str, int]:
    return record.resource_type, record.resource_name, record.pattern_type


def _entries(records: Iterable[AccessControlEntryRecord]) -> list[dict[str, Any]]:
    """The entries of one resource: operations by principal and host, then hosts with equal operations."""
    operations: defaultdict[tuple[str, int, str], set[int]] = defaultdict(set)
    for record in records:
        operations[record.principal, record.permission_type, record.host].add(record.operation)
    hosts: defaultdict[tuple[str, int, tuple[int, ...]], list[str]] = defaultdict(list)
    for (principal, permission_type, host), codes in operations.items():
        hosts[principal, permission_type, tuple(sorted(codes))].append(host)
    return [
        {
            "principal": principal,
            "permissionType": code_to_name(AclPermissionType, permission_type),
            "operations": [code_to_name(AclOperation, code) for code in codes],
            "hosts": sorted(hosts[principal, permission_type, codes]),
        }
        for principal, permission_type, codes in sorted(hosts)
    ]
