"""The definition of the answers: every ACL is read, nothing is indexed or cached.

Source: KIP-11, KIP-679; the findings of tests/data/oracle/README.md; docs/compatibility.md. ACLs are
records as in the log, so that codes without a name are covered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from records.acl import (
    AccessControlEntryFilter,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
)
from records.entries import AccessControlEntryRecord

IMPLYING = {
    AclOperation.DESCRIBE: {
        AclOperation.DESCRIBE,
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.DELETE,
        AclOperation.ALTER,
    },
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS},
}


@dataclass(frozen=True, slots=True)
class Request:
    """May this principal, from this host, do this to that?"""

    principal_type: str
    principal_name: str
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True)
class Settings:
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False


def is_allow(acl: AccessControlEntryRecord) -> bool:
    """Any permission type but ALLOW denies."""
    return AclPermissionType.from_code(acl.permission_type) is AclPermissionType.ALLOW


def covers(acl: AccessControlEntryRecord, resource_type: ResourceType, name: str) -> bool:
    """Whether the ACL's pattern matches the resource."""
    if ResourceType.from_code(acl.resource_type) is not resource_type:
        return False
    if PatternType.from_code(acl.pattern_type) is PatternType.LITERAL:
        return acl.resource_name in (name, "*")
    return name.startswith(acl.resource_name)


def is_for(acl: AccessControlEntryRecord, request: Request) -> bool:
    """Whether the ACL's principal matches; the text before its first colon is the type."""
    if acl.principal == "User:*":
        return True
    principal_type, colon, name = acl.principal.partition(":")
    return colon == ":" and (principal_type, name) == (request.principal_type, request.principal_name)


def is_from(acl: AccessControlEntryRecord, host: str) -> bool:
    return acl.host in ("*", host)


def is_about(acl: AccessControlEntryRecord, operation: AclOperation) -> bool:
    """Whether the ACL's operation matches; only an ALLOW implies other operations."""
    acl_operation = AclOperation.from_code(acl.operation)
    if acl_operation is AclOperation.ALL:
        return True
    return (
        acl_operation in IMPLYING.get(operation, {operation}) if is_allow(acl) else acl_operation is operation
    )


def matching(acls: Iterable[AccessControlEntryRecord], request: Request) -> list[AccessControlEntryRecord]:
    return [
        acl
        for acl in acls
        if covers(acl, request.resource_type, request.name)
        and is_for(acl, request)
        and is_from(acl, request.host)
        and is_about(acl, request.operation)
    ]


def decide(
    acls: Iterable[AccessControlEntryRecord], request: Request, settings: Settings = Settings()
) -> tuple[bool, str]:
    """Whether the request is allowed, and the kind of rule that decides."""
    acls = list(acls)
    if f"{request.principal_type}:{request.principal_name}" in settings.super_users:
        return True, "SuperUser"
    found = matching(acls, request)
    if found:
        return all(map(is_allow, found)), "MatchingAcl"
    if settings.allow_everyone and not any(covers(acl, request.resource_type, request.name) for acl in acls):
        return True, "DefaultAllow"
    return False, "DefaultDeny"


def deciding(acls: Iterable[AccessControlEntryRecord], request: Request) -> AccessControlEntryRecord | None:
    """The ACL that Kafka names: the first matching DENY in its scan or, without a DENY, the last match.

    The scan goes over the names that cover the resource, longest first, then ``*``, then the empty name;
    ACLs of one name are in the order of StandardAcl.compareTo. The search for ``*`` jumps to the empty
    name if it meets another name than ``*`` after all names with the first character of the requested one.
    """
    acls = list(acls)
    found = matching(acls, request)
    denials = [acl for acl in found if not is_allow(acl)]
    last = {"": 1, "*": 0} if not denials or _meets_star(acls, request) else {"": 0, "*": 1}
    ranked = sorted(
        denials or found,
        key=lambda acl: (
            last.get(acl.resource_name, -len(acl.resource_name)),
            PatternType.from_code(acl.pattern_type),
            AclOperation.from_code(acl.operation),
            _utf16(acl.principal),
            _utf16(acl.host),
            AclPermissionType.from_code(acl.permission_type),
        ),
    )
    return (ranked[0] if denials else ranked[-1]) if ranked else None


def _meets_star(acls: Iterable[AccessControlEntryRecord], request: Request) -> bool:
    here = [acl for acl in acls if ResourceType.from_code(acl.resource_type) is request.resource_type]
    below = {
        _utf16(acl.resource_name) for acl in here if _utf16(acl.resource_name) < _utf16(request.name)[:2]
    }
    kinds = {PatternType.from_code(acl.pattern_type) for acl in here if acl.resource_name == "*"}
    is_next = max(below, default=b"") == _utf16("*") and kinds <= {PatternType.LITERAL, PatternType.PREFIXED}
    return request.name == "*" or is_next


def _utf16(text: str) -> bytes:
    """Java compares texts by UTF-16 code unit."""
    return text.encode("utf-16-be", "surrogatepass")


def by_resource_type(
    acls: Iterable[AccessControlEntryRecord], request: Request, settings: Settings = Settings()
) -> bool:
    """KIP-679 as in Kafka; the request's resource name is ignored."""
    acls = list(acls)
    probe = Request(
        request.principal_type,
        request.principal_name,
        request.host,
        request.operation,
        request.resource_type,
        "hardcode",
    )
    if decide(acls, probe, settings)[0]:
        return True
    plain = [
        acl
        for acl in acls
        if ResourceType.from_code(acl.resource_type) is request.resource_type
        and acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        and acl.permission_type in (AclPermissionType.ALLOW, AclPermissionType.DENY)
        and is_for(acl, request)
        and is_from(acl, request.host)
        and AclOperation.from_code(acl.operation) in (request.operation, AclOperation.ALL)
    ]
    stars = [acl for acl in plain if is_star(acl)]
    if stars:
        return all(map(is_allow, stars))
    denied_names = {acl.resource_name for acl in plain if not is_allow(acl) and not is_prefix(acl)}
    denied_prefixes = {acl.resource_name for acl in plain if not is_allow(acl) and is_prefix(acl)} - {""}
    return any(
        not any(acl.resource_name.startswith(denied) for denied in denied_prefixes)
        and (is_prefix(acl) or acl.resource_name not in denied_names)
        for acl in plain
        if is_allow(acl)
    )


def is_prefix(acl: AccessControlEntryRecord) -> bool:
    return acl.pattern_type == PatternType.PREFIXED


def is_star(acl: AccessControlEntryRecord) -> bool:
    return acl.resource_name == "*" and acl.pattern_type == PatternType.LITERAL


def listed(
    acls: Iterable[AccessControlEntryRecord], acl_filter: AclBindingFilter
) -> Iterator[AccessControlEntryRecord]:
    """The ACLs that match a filter, in no particular order."""
    patterns, entries = acl_filter.pattern_filter, acl_filter.entry_filter
    for acl in acls:
        acl_pattern_type = PatternType.from_code(acl.pattern_type)
        if patterns.resource_type not in (ResourceType.ANY, ResourceType.from_code(acl.resource_type)):
            continue
        if patterns.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl_pattern_type):
            continue
        if patterns.name is None or entry_only(patterns.pattern_type, acl_pattern_type):
            fits = patterns.name in (None, acl.resource_name)
        elif acl_pattern_type is PatternType.LITERAL:
            fits = acl.resource_name in (patterns.name, "*")
        else:
            fits = patterns.name.startswith(acl.resource_name)
        if fits and entry_fits(acl, entries):
            yield acl


def entry_only(wanted: PatternType, acl_pattern_type: PatternType) -> bool:
    """Whether the filter compares names for equality."""
    return wanted is PatternType.ANY or wanted is acl_pattern_type


def entry_fits(acl: AccessControlEntryRecord, entries: AccessControlEntryFilter) -> bool:
    return (
        entries.principal in (None, acl.principal)
        and entries.host in (None, acl.host)
        and entries.operation in (AclOperation.ANY, AclOperation.from_code(acl.operation))
        and entries.permission_type
        in (AclPermissionType.ANY, AclPermissionType.from_code(acl.permission_type))
    )
