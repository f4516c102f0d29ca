"""Requests of ``/v1/acls`` and ``/v1/plans``: paths, bodies and queries, as the client sends them.

    an ACL      {"resourceType": "TOPIC", "resourceName": "orders", "patternType": "LITERAL",
                 "principal": "User:alice", "host": "*", "operation": "READ", "permissionType": "ALLOW"}
    a filter    the same fields; a field that is left out matches any value
    POST        {"acls": [...]}
    DELETE      {"filters": [...]}
    GET         a filter's fields, min_offset and at_offset as query parameters
    a plan      as `aclog plan --output` writes it, with maxRemovedPercent as one more field

A new ACL may carry the ``id`` with which ``aclog acls --json`` prints it; it is ignored, because the log
assigns ids. A filter with an ``id`` or an unknown field is refused: ignoring a field that was meant to narrow
a filter would remove more than was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from records.acl import (
    WILDCARD,
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)

ACLS_PATH: Final = "/v1/acls"
PLANS_PATH: Final = "/v1/plans"

_Code = TypeVar("_Code", ResourceType, PatternType, AclOperation, AclPermissionType)


class NewAcl(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    """An ACL to create; the defaults are those of kafka-acls."""

    resource_type: str
    resource_name: str
    principal: str
    operation: str
    permission_type: str
    pattern_type: str = PatternType.LITERAL.name
    host: str = WILDCARD
    id: str | None = None

    @classmethod
    def of(cls, binding: AclBinding) -> Self:
        pattern, entry = binding.pattern, binding.entry
        return cls(
            pattern.resource_type.name,
            pattern.name,
            entry.principal,
            entry.operation.name,
            entry.permission_type.name,
            pattern.pattern_type.name,
            entry.host,
        )

    def binding(self, where: str) -> AclBinding:
        """The binding. ValueError: an unknown code; ``where`` is the prefix of the field in the message."""
        return AclBinding(
            ResourcePattern(
                code_of(ResourceType, self.resource_type, f"{where}resourceType"),
                self.resource_name,
                code_of(PatternType, self.pattern_type, f"{where}patternType"),
            ),
            AccessControlEntry(
                self.principal,
                self.host,
                code_of(AclOperation, self.operation, f"{where}operation"),
                code_of(AclPermissionType, self.permission_type, f"{where}permissionType"),
            ),
        )


class AclFilter(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A filter of ACLs; a field that is left out matches any value."""

    resource_type: str = ResourceType.ANY.name
    resource_name: str | None = None
    pattern_type: str = PatternType.ANY.name
    principal: str | None = None
    host: str | None = None
    operation: str = AclOperation.ANY.name
    permission_type: str = AclPermissionType.ANY.name

    @classmethod
    def of(cls, wanted: AclBindingFilter) -> Self:
        pattern, entry = wanted.pattern_filter, wanted.entry_filter
        return cls(
            pattern.resource_type.name,
            pattern.name,
            pattern.pattern_type.name,
            entry.principal,
            entry.host,
            entry.operation.name,
            entry.permission_type.name,
        )

    def filter(self, where: str) -> AclBindingFilter:
        """The filter. Raises as ``NewAcl.binding``."""
        return AclBindingFilter(
            ResourcePatternFilter(
                code_of(ResourceType, self.resource_type, f"{where}resourceType"),
                self.resource_name,
                code_of(PatternType, self.pattern_type, f"{where}patternType"),
            ),
            AccessControlEntryFilter(
                self.principal,
                self.host,
                code_of(AclOperation, self.operation, f"{where}operation"),
                code_of(AclPermissionType, self.permission_type, f"{where}permissionType"),
            ),
        )


class AclCreation(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a POST: ACLs to create."""

    acls: list[NewAcl]


class AclDeletion(msgspec.Struct, forbid_unknown_fields=True):
    """Body of a DELETE: every ACL that a filter matches is removed."""

    filters: list[AclFilter]


def creation_body(bindings: Iterable[AclBinding]) -> bytes:
    """Body of a POST. UnicodeEncodeError: a text that is not Unicode."""
    return msgspec.json.encode(AclCreation([NewAcl.of(binding) for binding in bindings]))


def deletion_body(filters: Iterable[AclBindingFilter]) -> bytes:
    """Body of a DELETE. Raises as ``creation_body``."""
    return msgspec.json.encode(AclDeletion([AclFilter.of(each) for each in filters]))


def listing_query(wanted: AclBindingFilter) -> str:
    """Query string of a GET. Raises as ``creation_body``."""
    return urlencode(msgspec.to_builtins(AclFilter.of(wanted)))


def code_of(kind: type[_Code], name: str, field: str) -> _Code:
    """The code with a name in any case. ValueError: there is none; ``field`` is named."""
    code = kind.from_name(name)
    if code.is_unknown:
        known = ", ".join(member.name for member in kind if not member.is_unknown)
        raise ValueError(f"{field} `{name}` is none of {known}")
    return code
