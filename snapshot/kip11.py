"""ACLs in KIP-11's JSON: what each principal may or may not do, from where, resource by resource.

KIP-11 keeps one document for each resource, ``{"version": 1, "acls": [...]}``, whose entries say "principal P
is ALLOWED or DENIED operations O1, O2 from hosts H1, H2". Here they are one, and each resource is named:

    {"version": 1,
     "resources": [
       {"resourceType": "TOPIC", "resourceName": "orders", "patternType": "LITERAL",
        "acls": [
          {"principal": "User:alice", "permissionType": "ALLOW",
           "operations": ["READ", "DESCRIBE"], "hosts": ["10.0.0.1", "10.0.0.2"]}]}]}

Rules: an entry stands for each of its operations from each of its hosts and for nothing else, so hosts share
an entry only when they have all operations in common. Ids, and with them equal content under two ids (I8),
are not in this form. Codes without a name are written as numbers. Equal sets of ACLs give equal documents.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from records.acl import AclOperation, AclPermissionType, PatternType, ResourceType
from snapshot.code_names import code_to_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from records.entries import AccessControlEntryRecord

# (resource type, name, pattern type) and, below it, (principal, permission type) and host: codes as they are.
_Resource = tuple[int, str, int]
_Grantee = tuple[str, int]


def kip11_document(records: Iterable[AccessControlEntryRecord]) -> dict[str, Any]:
    """The document of these ACLs, in whatever order they come."""
    resources: defaultdict[_Resource, defaultdict[tuple[_Grantee, str], set[int]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for record in records:
        resource = (record.resource_type, record.resource_name, record.pattern_type)
        grantee = (record.principal, record.permission_type)
        resources[resource][grantee, record.host].add(record.operation)
    return {
        "version": 1,
        "resources": [
            {
                "resourceType": code_to_name(ResourceType, resource_type),
                "resourceName": name,
                "patternType": code_to_name(PatternType, pattern_type),
                "acls": _entries(resources[resource_type, name, pattern_type]),
            }
            for resource_type, name, pattern_type in sorted(resources)
        ],
    }


def _entries(operations_by_host: dict[tuple[_Grantee, str], set[int]]) -> list[dict[str, Any]]:
    hosts: defaultdict[tuple[_Grantee, tuple[int, ...]], list[str]] = defaultdict(list)
    for (grantee, host), operations in operations_by_host.items():
        hosts[grantee, tuple(sorted(operations))].append(host)
    return [
        {
            "principal": principal,
            "permissionType": code_to_name(AclPermissionType, permission_type),
            "operations": [code_to_name(AclOperation, operation) for operation in operations],
            "hosts": sorted(hosts[(principal, permission_type), operations]),
        }
        for (principal, permission_type), operations in sorted(hosts)
    ]
