"""Answers to query lines by the definition (support.naive), in the form of the recorded answers.

They lack what the definition leaves open: which of several matching ACLs is named, the audit line, and the
order of a listing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from authorizer.api.ip_address import host_address
from records.acl import (
    SUPPORTED_OPERATIONS,
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePatternFilter,
    ResourceType,
)
from records.entries import AccessControlEntryRecord
from support import naive


def naive_answer(
    acls: Sequence[AccessControlEntryRecord], settings: naive.Settings, query: Mapping[str, Any]
) -> dict[str, Any]:
    """The answer by the definition; a ``reduced`` answer must be equal to it."""
    match query.get("kind", "authorize"):
        case "authorize":
            allowed, rule = naive.decide(acls, _request(query, query["operation"]), settings)
            return {"result": _result(allowed=allowed), "rule": rule}
        case "authorizedOperations":
            operations = [
                operation.name
                for operation in SUPPORTED_OPERATIONS[ResourceType[query["resourceType"]]]
                if naive.decide(acls, _request(query, operation.name), settings)[0]
            ]
            return {"operations": operations}
        case "authorizeByResourceType":
            request = _request({**query, "resourceName": ""}, query["operation"])
            return {"result": _result(allowed=naive.by_resource_type(acls, request, settings))}
        case "acls":
            return {"acls": {_listed(acl) for acl in naive.listed(acls, filter_of(query))}}
        case "aclCount":
            return {"aclCount": len(acls)}
        case kind:
            raise AssertionError(kind)


def reduced(answer: Mapping[str, Any]) -> dict[str, Any]:
    """An answer without what the definition leaves open."""
    fields = {key: value for key, value in answer.items() if key not in ("audit", "hostAddress", "bits")}
    if "rule" in fields:
        fields["rule"] = fields["rule"].partition("(")[0]
    if "acls" in fields:
        fields["acls"] = {tuple(acl.values()) for acl in fields["acls"]}
    return fields


def _result(*, allowed: bool) -> str:
    return "ALLOWED" if allowed else "DENIED"


def _request(query: Mapping[str, Any], operation: str) -> naive.Request:
    principal_type, _, principal_name = query["principal"].partition(":")
    return naive.Request(
        principal_type,
        principal_name,
        host_address(query["host"]),
        AclOperation[operation],
        ResourceType[query["resourceType"]],
        query["resourceName"],
    )


def filter_of(query: Mapping[str, Any]) -> AclBindingFilter:
    """The filter of an ``acls`` line; a missing field matches any value."""
    return AclBindingFilter(
        ResourcePatternFilter(
            ResourceType[query.get("resourceType", "ANY")],
            query.get("resourceName"),
            PatternType[query.get("patternType", "ANY")],
        ),
        AccessControlEntryFilter(
            query.get("principal"),
            query.get("host"),
            AclOperation[query.get("operation", "ANY")],
            AclPermissionType[query.get("permissionType", "ANY")],
        ),
    )


def _listed(acl: AccessControlEntryRecord) -> tuple[str, ...]:
    binding = acl.binding()
    pattern, entry = binding.pattern, binding.entry
    return (
        pattern.resource_type.name,
        pattern.name,
        pattern.pattern_type.name,
        entry.principal,
        entry.host,
        entry.operation.name,
        entry.permission_type.name,
    )
